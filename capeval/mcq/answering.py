"""Ask a model the questions of a benchmark; see `capeval.captioners.stored_work`."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

from capeval.captioners.generate import default_run
from capeval.captioners.pipeline import Job
from capeval.captioners.protocol import Captioned, Captioner, CaptionRequest, Uncaptioned
from capeval.captioners.stored_work import StoredPlan, StoredResult, StoredWork
from capeval.config import prompt_of, prompts_label, template
from capeval.errors import InputError
from capeval.files.annotations import VideoFolder
from capeval.files.jsonl import as_stored, short_hash, validated
from capeval.mcq.question_files import questions_hash
from capeval.mcq.view import ReaderFor, SubtitleFiles, VideoView, no_frames, subtitles_at
from capeval.runs.engine import Finished, Labels, Stored
from capeval.runs.folder import safe_name
from capeval.schema import OPTION_LETTERS, Likelihoods, Question, Response, option_lines
from capeval.text import counted, shown, storable
from capeval.video import FrameReader, FrameSet

# ---- The prompt ----------------------------------------------------------------------------------

PROMPTS = "mcq-v1"

# A sampling policy by time.
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
        whole = f"{self.system or ''}\0{self.text}"
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()


def question_prompt(
    question: Question, *, frames: int | None, policy: str = "32", subtitles: Sequence[str] = ()
) -> Prompt:
    """Return the prompt for a question.

    Parameters
    ----------
    frames : their number; None if the question is asked without the video
    policy : how they were sampled, as in `--frames`
    subtitles : the subtitles at the frames; without any, the prompt does not mention subtitles
    """
    name = {"tomato": "tomato", "video-mme": "video-mme"}.get(question.benchmark, "own")
    if frames is None:
        name = "blind"
    elif question.benchmark == "tuna":
        name = "tuna-fps" if _BY_RATE.search(policy) else "tuna-uniform"
    elif subtitles:
        name += "-subtitles"
    shown = OPTION_LETTERS[: len(question.options)]
    values = {
        "frames": counted(frames or 0, "separate frame"),
        "question": _lines(question.question),
        "options": "\n".join(option_lines([_one_line(text) for text in question.options])),
        "subtitles": "\n".join(map(_one_line, subtitles)),
        "symbol": "letter",
        "symbols": f"{', '.join(shown[:-1])} or {shown[-1]}",
    }
    system = template(PROMPTS, "tomato-system") if name == "tomato" else None
    return Prompt(prompt_of(PROMPTS, name, values), system, name)


def inert(text: str) -> str:
    """Return text that can neither close a template's tag nor end a chat turn.

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
    """Return the texts whose likelihood is stored, by the names of `Likelihoods`.

    >>> scored_texts(["left", "right"])["symbol_text"]
    ('A. left', 'B. right')
    """
    texts = tuple(_one_line(text) for text in options)
    letters = tuple(OPTION_LETTERS[: len(options)])
    return {"symbol": letters, "symbol_text": tuple(option_lines(texts)), "text": texts}


# ---- One question --------------------------------------------------------------------------------


@dataclass(frozen=True)
class QuestionJob(Job):
    """A question; with `folds_system`, a system prompt is put in front of the prompt."""

    question: Question = field(kw_only=True)
    folds_system: bool = field(default=False, kw_only=True)
    kind: ClassVar[Literal["caption", "answer"]] = "answer"

    def read(self, reader: FrameReader, cancel: threading.Event | None = None) -> FrameSet:
        asking = cast(Asking, reader)
        if asking.reader_for is None:
            return no_frames()
        frames = asking.reader_for(self.question).read(self.path, cancel=cancel)
        return asking.view.reorder(frames, self.question)

    def asked(self, times: Sequence[float], asking: Asking) -> Prompt:
        """Return the prompt for frames at these times (in seconds)."""
        view = asking.view
        return question_prompt(
            self.question,
            frames=None if view.blind else len(times),
            policy=view.policy_name(self.question),
            subtitles=asking.subtitles_at(self.question, times),
        )

    def is_answered_by(self, stored: Response, asking: Asking) -> bool:
        """Return whether a response is to this prompt, with these frames of this video.

        The subtitles may have changed, or the column that names the frame.
        """
        return (
            not asking.view.showed_another(self.question, stored.frames)
            and stored.call.get("prompt") == self.asked(stored.frames.get("times", ()), asking).hash
            and (not self.video or stored.call.get("video") == self.video)
        )

    def request(self, frames: FrameSet, reader: FrameReader) -> CaptionRequest:
        """Return the request to the model.

        Shuffled frames get the times of the ordered ones: some models are shown the times.
        """
        asking = cast(Asking, reader)
        prompt = self.asked(frames.times, asking)
        folded = f"{prompt.system}\n\n{prompt.text}" if prompt.system else prompt.text
        texts = scored_texts(self.question.options) if asking.likelihood else {}
        return replace(
            super().request(frames, reader),
            prompt=folded if self.folds_system else prompt.text,
            indices=tuple(sorted(frames.indices)),
            times=tuple(sorted(frames.times)),
            kind="answer",
            system=None if self.folds_system else prompt.system,
            continuations=tuple(text for several in texts.values() for text in several),
        )

    def record(self, frames: FrameSet, reader: FrameReader) -> dict[str, Any]:
        """Return the record of the frames in a response, in the order of the prompt."""
        asking = cast(Asking, reader)
        view, record = asking.view, dict[str, Any]()
        if asking.reader_for is not None:
            record = super().record(frames, reader) | {"order": view.order}
        record |= {"policy": view.policy_name(self.question)}
        if view.single:
            record["single"] = view.single
        if asking.subtitles and asking.subtitles.of(self.question.video):
            record["subtitles"] = len(asking.subtitles_at(self.question, frames.times))
        return record

    def response(
        self,
        outcome: Captioned | Uncaptioned,
        frames: Mapping[str, Any],
        settings: str,
        asking: Asking,
    ) -> Response:
        """Return an outcome as a response; `settings` is the id of the run's settings."""
        likelihood = None
        if isinstance(outcome, Captioned) and asking.likelihood:
            likelihood = self._likelihoods(outcome.likelihoods or ())
            if likelihood is None:
                outcome = Uncaptioned(self.index, "the model did not score every option")
        if isinstance(outcome, Uncaptioned):
            return Response.to(self.question, None, reason=outcome.reason, frames=frames)
        prompt = self.asked(frames.get("times", ()), asking)
        call = {
            "template": prompt.template,
            "prompt": prompt.hash,
            "settings": settings,
            "video": self.video,
            "model": outcome.model,
            "revision": outcome.revision,
            "details": dict(outcome.details),
            "usage": outcome.usage.model_dump(),
            "warnings": list(outcome.warnings),
        }
        found = Response.to(self.question, outcome.text, frames=frames, likelihood=likelihood)
        return found.model_copy(update={"call": call})

    def _likelihoods(self, scores: Sequence[tuple[float, int]]) -> Likelihoods | None:
        count, names = len(self.question.options), [*scored_texts(self.question.options)]
        if len(scores) != count * len(names):
            return None
        of = {name: scores[at * count : (at + 1) * count] for at, name in enumerate(names)}
        sums: dict[str, Any] = {name: [total for total, _ in of[name]] for name in names}
        return Likelihoods(**sums, tokens={name: [n for _, n in of[name]] for name in names})


# ---- The questions of a run ----------------------------------------------------------------------


@dataclass(frozen=True)
class Asking:
    """The questions of a run, and how they are asked: the reader of the work as a whole.

    Attributes
    ----------
    questions : all questions of the file
    chosen : the questions that the filters leave, for all shards
    reader_for : returns the reader of a question's frames; None without frames
    """

    questions: tuple[Question, ...]
    chosen: tuple[Question, ...]
    path: str
    videos: Path | None
    view: VideoView
    reader_for: ReaderFor | None
    decoder: str
    likelihood: bool = False
    subtitles: SubtitleFiles | None = None
    policy = "the questions' own"

    @property
    def without_subtitles(self) -> int:
        if self.subtitles is None:
            return 0
        videos = {question.video for question in self.chosen}
        return sum(not self.subtitles.of(video) for video in videos)

    @property
    def policies(self) -> str | dict[str, str]:
        """How frames are chosen, by benchmark if that differs."""
        # Of all questions: a part of them belongs to the same run.
        found = {q.benchmark: self.view.policy_name(q) for q in self.questions}
        return next(iter(found.values())) if len({*found.values()}) == 1 else found

    @property
    def seen(self) -> str:
        """What the model sees of the videos, in words."""
        policies = self.policies
        frames = policies if isinstance(policies, str) else ", ".join(policies.values())
        shuffled = " shuffled" if self.view.order == "shuffled" else ""
        return "no frames" if self.view.blind else f"frames {frames}{shuffled}"

    def folder_name(self, model: str) -> str:
        """Return `MODEL@SETTINGS`, with the settings in which runs usually differ.

        All settings are in the manifest; a run with different ones is refused.
        """
        view, policies = self.view, self.policies
        frames = policies if isinstance(policies, str) else "mixed"
        parts = [
            "" if view.single or view.blind else frames,
            view.label,
            "subtitles" if self.subtitles else "",
            "likelihood" if self.likelihood else "",
        ]
        return safe_name(f"{default_run(model)}@{'+'.join(filter(None, parts))}")

    @property
    def benchmark(self) -> str:
        names = {question.benchmark for question in self.questions}
        return safe_name(names.pop()) if len(names) == 1 else "mixed"

    def settings(self, captioner: Captioner) -> dict[str, Any]:
        """Return the settings that affect replies, as JSON values; a run has the same ones."""
        found: dict[str, Any] = as_stored(
            {
                "model": captioner.name,
                "frames": self.policies,
                "decoder": self.decoder,
                **self.view.settings(),
                "prompt": {"set": prompts_label(PROMPTS)},
                "likelihood": self.likelihood,
                "subtitles": self.subtitles is not None,
                "generation": dict(captioner.settings),
            }
        )
        return found

    def read(self, path: Path, *, cancel: object = None) -> FrameSet:
        del cancel
        raise AssertionError(f"{path}: each question has a reader of its own")

    def subtitles_at(self, question: Question, times: Sequence[float]) -> tuple[str, ...]:
        cues = self.subtitles.of(question.video) if self.subtitles else None
        return subtitles_at(cues or (), times)


# ---- The answers of a run -----------------------------------------------------------------------


@dataclass(frozen=True)
class Answers(StoredResult):
    """The responses of a run or shard in the order of its questions.

    Attributes
    ----------
    responses : all stored responses, also those to questions that were not requested
    without_subtitles : the number of videos without subtitles, where subtitles were given
    """

    labels = Labels(doing="asking", item="question", done="answered", failed="unanswered")
    replies, name = ("reply", "replies"), "responses"
    not_reached = "not asked: the run was stopped"
    then, detail = "Grade them: capeval mcq grade", "without_subtitles"

    responses: tuple[Response, ...]
    without_subtitles: int

    @property
    def calls(self) -> list[Mapping[str, Any]]:
        return [response.call for response in self.responses]

    def records(self) -> list[dict[str, Any]]:
        return [response.model_dump(mode="json") for response in self.responses]

    @property
    def unanswered(self) -> Mapping[str, str]:
        return self.left


@dataclass
class AnswerWork(StoredWork[Response, Answers]):
    """Answers the questions of a run with one model."""

    labels = Answers.labels
    names, to_do = ("responses",), "ask"
    outdated = "asked again: the question or its video, subtitles or frame has changed"
    # Of a letter or a short sentence; models that reason write more.
    tokens = 16

    reader: Asking
    questions: Mapping[str, Question] = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        asking = self.reader
        self.videos = VideoFolder(asking.videos) if asking.videos else None
        self.questions = {question.id: question for question in asking.questions}
        self.items = {question.id: question.video for question in asking.questions}
        self.selected = [question.id for question in asking.chosen]
        self.settings = asking.settings(self.captioner)
        questions = {
            "path": asking.path,
            "sha256": questions_hash(asking.questions),
            "count": len(asking.questions),
        }
        self.about = {"questions": questions}
        if asking.videos is not None:
            self.about["videos"] = str(asking.videos)
        if asking.subtitles is not None:
            self.about["subtitles"] = str(asking.subtitles.path)
        prompts = self.settings["prompt"]["set"]
        self.title = f"{self.opened.title}, {asking.seen}, prompts {prompts}"

    @property
    def shown_run(self) -> str:
        return str(self.run)

    def read(self, value: Any, expected: str) -> Stored[Response]:
        """Return a response, with the answer and the tags that the question has now."""
        stored = validated(Response, value, file=self.run.path, where="")
        question = self.questions.get(stored.id)
        if question is None:
            raise InputError(
                f"answers {shown(stored.id)}, which {self.reader.path} does not have; "
                "choose another --run"
            )
        if stored.reply is not None and stored.call.get("settings") != expected:
            raise InputError(
                "was answered with other settings, or not by `capeval mcq answer`; settings cannot "
                "be mixed in one run"
            )
        fields = {name: one for name, one in stored if name in Response.model_fields}
        now = fields | {"answer": question.answer} | dict(question.tags)
        return _stored(Response(**now))

    def check(self, stored: Sequence[Stored[Response]]) -> None:
        """Refuse a run about other questions with the same ids: its replies would be replaced."""
        if not stored or any(_is_same(one.value, self.questions[one.index]) for one in stored):
            return
        path = self.run.read_manifest().get("questions", {}).get("path")
        if path is not None and path != self.reader.path:
            raise InputError(
                f"answers other questions with the same ids, from {shown(path)}; "
                "choose another --run",
                file=self.run.path,
            )

    def fits(self, stored: Stored[Response], video: Mapping[str, Any] | None) -> bool:
        job = self.job(stored.index, Path(), video or {})
        return _is_same(stored.value, job.question) and (
            stored.reason is not None or job.is_answered_by(stored.value, self.reader)
        )

    def job(self, index: str, path: Path, video: Mapping[str, Any]) -> QuestionJob:
        question = self.questions[index]
        return QuestionJob(
            *(index, path, question.question + "".join(question.options), video),
            question=question,
            folds_system=not getattr(self.captioner, "takes_system_prompts", False),
        )

    def create(self, plan: StoredPlan[Response]) -> None:
        """Write the manifest, and remove the replies that are about to be replaced.

        If the process is killed, the file must not contain both.
        """
        super().create(plan)
        again = {job.index for job in plan.todo}
        if self.file(self.names[0]).exists():
            self.write(plan, {i: one for i, one in plan.kept.items() if i not in again})

    def stored(
        self,
        job: Job,
        outcome: Captioned | Uncaptioned,
        frames: Mapping[str, Any],
        settings: Mapping[str, Any],
    ) -> Stored[Response]:
        assert isinstance(job, QuestionJob)  # noqa: S101 - the plan has no others
        return _stored(job.response(outcome, frames, short_hash(settings), self.reader))

    def failed(self, index: str, reason: str) -> Stored[Response]:
        return _stored(Response.to(self.questions[index], None, reason=reason))

    def json(self, value: Response) -> dict[str, Any]:
        return value.model_dump(mode="json")

    def result(self, finished: Finished[Stored[Response]]) -> Answers:
        done = finished.done
        return Answers(
            **self.common(finished, Answers.not_reached),
            responses=tuple(done[index].value for index in self.mine() if index in done),
            without_subtitles=self.reader.without_subtitles,
        )


def _stored(response: Response) -> Stored[Response]:
    reason = None if response.reply is not None else response.reason or "no reply"
    return Stored(response.id, response, reason)


def _is_same(stored: Response, question: Question) -> bool:
    same = ("benchmark", "question", "options", "video")
    return all(getattr(stored, name) == getattr(question, name) for name in same)
