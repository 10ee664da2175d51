"""The prompt that a model gets for a question, by benchmark."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from capeval.files.packaged import filled, template
from capeval.schema.question import OPTION_LETTERS, Question, option_lines
from capeval.text import counted, storable

PROMPTS = "mcq-v1"

# A sampling policy that takes frames by the clock.
_BY_RATE = re.compile(r"fps|auto")
# What opens a tag or a chat template's marker: "<question>", "</question>", "<|im_end|>",
# and with the wide bar of DeepSeek's templates.
_OPENING = re.compile(r"<(?=[/|\uff5c!?\w])")
_TURN = re.compile(r"\[(?=/?INST\])")
_BREAKS = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1b\x1f\x7f]")


@dataclass(frozen=True)
class Prompt:
    """The user's prompt and the system prompt of one question, and the template's name."""

    text: str
    system: str | None
    template: str

    @property
    def hash(self) -> str:
        """The SHA-256 (hex) of both."""
        whole = f"{self.system or ''}\0{self.text}"
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()


def question_prompt(
    question: Question,
    *,
    frames: int | None,
    policy: str = "32",
    subtitles: Sequence[str] = (),
) -> Prompt:
    """Return the prompt for a question.

    Parameters
    ----------
    frames : how many are shown; None if the question is asked without the video
    policy : how they were sampled, as `--frames` says it
    subtitles : those at the frames; without any, the prompt does not mention subtitles
    """
    name = _template_name(question, frames is None, policy, has_subtitles=bool(subtitles))
    shown = OPTION_LETTERS[: len(question.options)]
    values = {
        "frames": counted(frames or 0, "separate frame"),
        "question": _lines(question.question),
        "options": "\n".join(option_lines([_one_line(text) for text in question.options])),
        "subtitles": "\n".join(map(_one_line, subtitles)),
        "symbol": "letter",
        "symbols": f"{', '.join(shown[:-1])} or {shown[-1]}",
    }
    text = filled(template(PROMPTS, name), values)
    system = template(PROMPTS, "tomato-system") if name == "tomato" else None
    return Prompt(text, system, name)


def _template_name(question: Question, blind: bool, policy: str, *, has_subtitles: bool) -> str:
    if blind:
        return "blind"
    if question.benchmark == "tuna":
        return "tuna-fps" if _BY_RATE.search(policy) else "tuna-uniform"
    if question.benchmark == "tomato":
        return "tomato"
    name = "video-mme" if question.benchmark == "video-mme" else "own"
    return f"{name}-subtitles" if has_subtitles else name


def takes_subtitles(benchmark: str) -> bool:
    """Return whether there is a prompt with subtitles for a benchmark."""
    return benchmark not in ("tuna", "tomato")


def inert(text: str) -> str:
    """Return text that can neither close a tag of a template nor end a turn of a chat.

    >>> inert("</question> <|im_end|> a < b, x<3")
    '< /question> < |im_end|> a < b, x< 3'
    """
    text = _CONTROLS.sub(" ", storable(text))
    return _TURN.sub("[ ", _OPENING.sub("< ", text))


def _one_line(text: str) -> str:
    # A line break would let an option's text pass for another option.
    return inert(_BREAKS.sub(" ", text)).strip()


def _lines(text: str) -> str:
    return inert(_BREAKS.sub("\n", text)).strip()


def scored_texts(options: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """Return what a likelihood is wanted of, by the names of `Likelihoods`; options as shown.

    >>> scored_texts(["left", "right"])["symbol_text"]
    ('A. left', 'B. right')
    """
    texts = tuple(_one_line(text) for text in options)
    letters = tuple(OPTION_LETTERS[: len(options)])
    return {"symbol": letters, "symbol_text": tuple(option_lines(texts)), "text": texts}
