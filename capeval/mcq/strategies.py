"""The strategies that turn a reply into an answer, by the names of `--select`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from capeval.errors import UsageError
from capeval.mcq.exact import Reading, read_answer
from capeval.schema.question import OPTION_LETTERS, Response
from capeval.text import nearest, shown

# What evaluation harnesses store in place of a reply if a call fails: VLMEvalKit in a reply, code
# derived from FastChat as the whole reply.
_FAILURE, _WHOLE_FAILURE = "Failed to obtain answer via API", "$ERROR$"


class ReplyToGrade:
    """One response, with what the grading needs of it."""

    def __init__(self, response: Response) -> None:
        self.response, self.options = response, response.options
        self.reply = response.reply or ""
        self.is_empty = not self.reply.strip()
        self.right = OPTION_LETTERS.index(response.answer)

    @cached_property
    def failure(self) -> str | None:
        """Why there is no reply: a failed call, by capeval or by another harness."""
        if self.response.reply is None:
            return self.response.reason or "no reply"
        found = _FAILURE if _FAILURE in self.reply else None
        found = found or (_WHOLE_FAILURE if self.reply.strip() == _WHOLE_FAILURE else None)
        return f"the reply is another harness's failure message: {found}" if found else None

    @cached_property
    def exact(self) -> Reading:
        return read_answer(self.reply, self.options)


# ---- How published code reads replies ------------------------------------------------------------

# These readers are wrong in known ways ("Based on …" is B): they exist so that published numbers
# can be reproduced, and the difference counted.

_FIRST = (
    "The best answer is",
    "The correct answer is",
    "The answer is",
    "The answer",
    # Commas are missing in the published lists: of these four prefixes, none is ever removed alone.
    "The best option isThe correct option is",
    "Best answer:Best option:",
)

PREFIXES: Mapping[str, tuple[str, ...]] = {
    "tuna": (*_FIRST, "Answer:", "Option:"),
    "video-mme": (*_FIRST, "Answer:", "Option:", "The correct answer", "The correct option"),
}
"""The versions of the list of prefixes: in VLMEvalKit and TUNA's repository, and in the script that
Video-MME's README links to."""

_CAPITAL = re.compile("[A-D]")


def first_capital(reply: str, version: str) -> int | None:
    """Return the option of the first capital A to D once fixed prefixes are removed.

    >>> first_capital("Answer: C", "tuna")
    2
    >>> first_capital("Based on the video, it is C", "video-mme")
    1
    """
    text = reply.strip()
    for prefix in PREFIXES[version]:
        text = text.replace(prefix, "")
    found = _CAPITAL.search(text)
    return None if found is None else "ABCD".index(found[0])


_TOMATO_SENTENCE = re.compile(r"Answer is:?\(?(?P<letter>[A-Fa-f])\)?")


def tomato_patterns(reply: str, options: Sequence[str]) -> int | None:
    """Return the option that TOMATO's three patterns find; the rest is left to a model.

    A letter alone, "LETTER: TEXT" where the text has no lower-case letters, and "Answer is" with a
    letter directly behind it.

    >>> tomato_patterns("b", ["1", "2"]), tomato_patterns("A: 1", ["1", "2"])
    (1, 0)
    >>> tomato_patterns("Answer is:B", ["1", "2"]), tomato_patterns("Answer is: B", ["1", "2"])
    (1, None)
    """
    text = reply.strip()
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(options)]
    if len(text) == 1:
        return letters.find(text.upper()) if text.upper() in letters else None
    for number, option in enumerate(options):
        if text.upper() == f"{letters[number]}: {option}":
            return number
    found = _TOMATO_SENTENCE.fullmatch(text)
    if found is None or found["letter"].upper() not in letters:
        return None
    return letters.index(found["letter"].upper())


# ---- Decisions -----------------------------------------------------------------------------------

CHANCE, MODEL_FAILED = "chance", "model failed"
"""The rules of what is decided by chance, and of what is unscored as the reading model failed."""

# Sums that differ by less are ties: rounding errors of floats are smaller than this.
_TIE = 1e-9


@dataclass(frozen=True, slots=True)
class Decision:
    """The option that a strategy chose, or None, and the rule that decided.

    `unscored` is why the response cannot be graded at all; such a response has no option.
    """

    option: int | None
    rule: str
    unscored: str = ""

    @property
    def by_chance(self) -> bool:
        return self.rule == CHANCE


Step = Callable[[ReplyToGrade, int], Decision | None]
"""Takes a reply and the seed of random choices; returns None where it does not decide."""

AskModel = Literal["choice", "tomato"]
"""What a model is asked: to choose an option or none, or TOMATO's question."""


@dataclass(frozen=True)
class Strategy:
    """A way to choose answers: steps, of which the first that decides counts.

    Attributes
    ----------
    asks : what a model is asked where no step decides; None for no model
    last : how it ends if the steps and the model do not decide
    reads_reply : whether a failed call leaves the response unscored
    published : whether it reproduces published code, and is compared with `exact`
    needs_likelihood : whether responses must have likelihoods
    """

    name: str
    steps: Sequence[Step]
    asks: AskModel | None = None
    last: Step | None = None
    reads_reply: bool = True
    published: bool = False
    needs_likelihood: bool = False

    def decide(self, asked: ReplyToGrade, seed: int) -> Decision | None:
        """Return the decision; None if a model must be asked."""
        if self.reads_reply and asked.failure is not None:
            return Decision(None, "failed call", unscored=asked.failure)
        for step in self.steps:
            decision = step(asked, seed)
            if decision is not None:
                return decision
        if self.asks is not None and not (self.asks == "choice" and asked.is_empty):
            return None
        return self.end(asked, seed)

    def end(self, asked: ReplyToGrade, seed: int) -> Decision:
        """Return the decision if neither a step nor the model has decided."""
        decision = self.last(asked, seed) if self.last else None
        return decision or Decision(None, asked.exact.rule)


def at_random(asked: ReplyToGrade, seed: int) -> Decision:
    """Choose an option at random by the seed and the question, whatever the order of responses."""
    response = asked.response
    name = "\0".join((str(seed), response.benchmark, response.id, "0"))
    number = int.from_bytes(hashlib.sha256(name.encode("utf-8", "replace")).digest()[:8], "big")
    return Decision(number % len(response.options), CHANCE)


def _exact(asked: ReplyToGrade, _: int) -> Decision | None:
    found = asked.exact
    return None if found.option is None else Decision(found.option, found.rule)


def _likely(what: Literal["symbol", "symbol_text", "text"]) -> Step:
    """Choose the option with the smallest negative log-likelihood; none if several have it."""

    def step(asked: ReplyToGrade, _: int) -> Decision:
        found = asked.response.likelihood
        sums = getattr(found, what, ())
        if len(sums) != len(asked.options):
            wanted = f"{len(asked.options)} numbers, one for each option"
            problem = f"likelihood.{what} must have {wanted}"
            if found is None:
                problem = "the response has no likelihoods"
            return Decision(None, "no likelihood", unscored=problem)
        least = min(sums)
        near = [n for n, one in enumerate(sums) if one - least <= _TIE * max(1, abs(least))]
        return Decision(near[0], "likelihood") if len(near) == 1 else Decision(None, "tie")

    return step


def _by_likelihood(name: str, likely: Step) -> Strategy:
    reads = name.startswith("exact+")
    steps = [_exact, likely] if reads else [likely]
    return Strategy(name, steps, reads_reply=reads, needs_likelihood=True)


def _first_capital(version: str | None) -> Step:
    def step(asked: ReplyToGrade, _: int) -> Decision:
        used = version or ("video-mme" if asked.response.benchmark == "video-mme" else "tuna")
        option = first_capital(asked.reply, used)
        return Decision(option, "no capital A to D" if option is None else "first capital")

    return step


def _tomato(asked: ReplyToGrade, _: int) -> Decision | None:
    option = tomato_patterns(asked.reply, asked.options)
    return None if option is None else Decision(option, "pattern")


STRATEGIES: Mapping[str, Strategy] = {
    one.name: one
    for one in (
        Strategy("exact", [_exact]),
        Strategy("exact+random", [_exact, at_random]),
        _by_likelihood("exact+likelihood-symbol", _likely("symbol")),
        _by_likelihood("exact+likelihood-symbol-text", _likely("symbol_text")),
        _by_likelihood("likelihood-symbol", _likely("symbol")),
        _by_likelihood("likelihood-symbol-text", _likely("symbol_text")),
        _by_likelihood("likelihood-text", _likely("text")),
        Strategy("exact+llm", [_exact], "choice"),
        Strategy("first-capital", [_first_capital(None)], published=True),
        *(
            Strategy(f"first-capital@{version}", [_first_capital(version)], published=True)
            for version in PREFIXES
        ),
        Strategy("tomato", [_tomato], "tomato", at_random, published=True),
    )
}
"""Every strategy by name, in the order of `--select all`."""

ALL = "all"


def strategy(name: str) -> Strategy:
    """Return a strategy by its name; raises `UsageError`."""
    try:
        return STRATEGIES[name]
    except KeyError:
        near = nearest(name, [*STRATEGIES, ALL])
        raise UsageError(
            f"--select: {shown(name)} is unknown{near or '.'} There are "
            f"{', '.join(STRATEGIES)} and {ALL}"
        ) from None


@dataclass(frozen=True)
class Convention:
    """How a benchmark's own code grades: its strategy, and which replies count."""

    name: str
    select: str
    only_read: bool = False


CONVENTIONS: Mapping[str, Convention] = {
    one.name: one
    for one in (
        # Questions without a response are left out, as in the paper; the published code counts
        # them as wrong.
        Convention("tuna", "first-capital@tuna"),
        Convention("tomato", "tomato"),
        Convention("video-mme", "first-capital@video-mme", only_read=True),
    )
}
"""The benchmarks' own conventions, by the names of `--as`."""


def usable(responses: Sequence[Response], *, has_model: bool) -> list[Strategy]:
    """Return the strategies of `--select all`: all that these responses allow.

    Versions of one published reader are not listed beside the one that fits the benchmark.
    """
    has_likelihood = any(one.likelihood is not None for one in responses)
    return [
        one
        for one in STRATEGIES.values()
        if "@" not in one.name
        and (has_likelihood or not one.needs_likelihood)
        and (has_model or one.asks is None)
    ]
