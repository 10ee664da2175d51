"""Ask a model the questions of a benchmark; see `capeval.captioners.stored_work`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from capeval.captioners.pipeline import Job
from capeval.captioners.protocol import Captioned, Uncaptioned
from capeval.captioners.run_settings import settings_id
from capeval.captioners.stored_work import Item, StoredPlan, StoredResult, StoredWork
from capeval.errors import InputError
from capeval.mcq.asking import Asking
from capeval.mcq.find_run import RESPONSES
from capeval.mcq.question_job import ASKED, QuestionJob
from capeval.mcq.questions import questions_hash
from capeval.runs.engine import Finished, Labels, Said
from capeval.runs.shards import Shard
from capeval.schema.question import Question, Response
from capeval.text import complaint, shown
from capeval.video import FrameSet


@dataclass(frozen=True)
class Answers(StoredResult):
    """The responses of a run or shard in the order of its questions.

    Attributes
    ----------
    responses : all that are stored, also of other questions of the file
    without_subtitles : videos that have none, where subtitles were given
    """

    responses: tuple[Response, ...]
    without_subtitles: int

    @property
    def records(self) -> list[Mapping[str, Any]]:
        """What is stored of the calls."""
        return [response.call for response in self.responses]

    @property
    def file(self) -> Path:
        """The responses of the run."""
        return self.run.path / RESPONSES

    @property
    def unanswered(self) -> Mapping[str, str]:
        """Why wanted replies are missing, by question."""
        return self.left


class NoReader:
    """The reader of the work as a whole: each question has a reader of its own."""

    policy = decoder = "the question's own"

    def read(self, path: Path, *, cancel: object = None) -> FrameSet:
        """Raise: no job uses it."""
        del cancel
        raise AssertionError(f"{path}: each question has a reader of its own")


@dataclass(frozen=True)
class QuestionItem(Item):
    """A question."""

    question: Question


@dataclass
class AnswerWork(StoredWork[Response, Answers]):
    """Answers the questions of a run with one model."""

    names = ("responses",)
    not_reached = "not asked: the run was stopped"

    asking: Asking = field(kw_only=True)

    @property
    def labels(self) -> Labels:
        """How messages name what is asked."""
        return Labels(doing="asking", item="question", done="answered", failed="unanswered")

    @property
    def shard(self) -> Shard | None:
        """The shard of the questions."""
        return self.asking.shard

    @property
    def videos(self) -> Path | None:
        """The folder of the videos."""
        return self.asking.videos

    def whole(self) -> AnswerWork:
        """Return the work on all questions of the file."""
        asking = replace(self.asking, shard=None, chosen=self.asking.questions)
        return replace(self, asking=asking)

    @cached_property
    def items(self) -> dict[str, QuestionItem]:
        """The questions in order."""
        return {
            question.id: QuestionItem(question.video, n, question)
            for n, question in enumerate(self.asking.questions)
        }

    def chosen(self) -> list[str]:
        """Return the questions that the filters leave."""
        return [question.id for question in self.asking.chosen]

    def settings(self) -> dict[str, Any]:
        """Return what affects replies."""
        return self.asking.settings(self.captioner)

    def about(self) -> dict[str, Any]:
        """Return the questions, and where the videos and subtitles are."""
        asking = self.asking
        questions = {
            "path": asking.path,
            "sha256": questions_hash(asking.questions),
            "count": len(asking.questions),
        }
        subtitles = None if asking.subtitles is None else asking.subtitles.path
        places = {"videos": asking.videos, "subtitles": subtitles}
        return {"questions": questions} | {k: str(v) for k, v in places.items() if v is not None}

    def read(self, value: Any, expected: str) -> Said[Response]:
        """Return a response, with the answer and the tags that the question has now."""
        try:
            stored = Response.model_validate(value)
        except ValidationError as faults:
            name, message = complaint(faults)
            raise InputError(message, field=name) from None
        item = self.items.get(stored.id)
        if item is None:
            raise InputError(
                f"answers {shown(stored.id)}, which {self.asking.path} does not have; "
                "choose another --run"
            )
        if stored.reply is not None and stored.call.get("settings") != expected:
            raise InputError(
                "was answered with other settings, or not by `capeval mcq answer`; settings cannot "
                "be mixed in one run"
            )
        now = {"answer": item.question.answer, "tags": item.question.tags}
        return _said(stored.model_copy(update=now))

    def check(self, stored: Sequence[Said[Response]]) -> None:
        """Refuse a run about other questions with the same ids: its replies would be replaced."""
        if not stored or any(_is_same(one.value, self.items[one.index].question) for one in stored):
            return
        before = self.run.read_manifest().get("questions")
        path = before.get("path") if isinstance(before, dict) else None
        if path is not None and path != self.asking.path:
            raise InputError(
                f"answers other questions with the same ids, those of {shown(path)}; "
                "choose another --run",
                file=self.run.path,
            )

    def fits(self, said: Said[Response], video: Mapping[str, Any] | None) -> bool:
        """Return whether the question and its prompt, frames and video are the same."""
        item = self.items[said.index]
        job = self.asking.job(item.question, video or {})
        return _is_same(said.value, item.question) and (
            said.reason is not None or job.is_answered_by(said.value)
        )

    def job(self, index: str, path: Path, video: Mapping[str, Any]) -> QuestionJob:
        """Return how a question is asked."""
        item, reader_for = self.items[index], self.asking.reader_for
        return replace(
            self.asking.job(item.question, video),
            path=path,
            reader=reader_for(item.question) if reader_for else None,
            folds_system=not getattr(self.captioner, "takes_system_prompts", False),
        )

    def create(self, plan: StoredPlan[Response]) -> None:
        """Write the manifest, and remove the replies that are about to be replaced.

        The process may be killed with both in the file, and the file graded.
        """
        super().create(plan)
        again = {job.index for job in plan.todo}
        if self.file(self.names[0]).exists():
            self.write(plan, {i: one for i, one in plan.kept.items() if i not in again})

    def said(
        self,
        job: Job,
        outcome: Captioned | Uncaptioned,
        frames: Mapping[str, Any],
        settings: Mapping[str, Any],
    ) -> Said[Response]:
        """Return a response."""
        assert isinstance(job, QuestionJob)  # noqa: S101 - the plan has no others
        return _said(_response(job, outcome, frames, settings))

    def failed(self, index: str, reason: str) -> Said[Response]:
        """Return a response without a reply."""
        response = Response.to(self.items[index].question, None, reason=reason)
        return _said(response.model_copy(update={"symbols": self.asking.symbols}))

    def json(self, value: Response) -> dict[str, Any]:
        """Return the line of a response."""
        return value.model_dump(mode="json")

    def result(self, finished: Finished[StoredPlan[Response], Said[Response]]) -> Answers:
        """Return the responses."""
        done = finished.done
        return Answers(
            **self.common(finished),
            responses=tuple(done[index].value for index in self.mine() if index in done),
            without_subtitles=self.asking.without_subtitles,
        )


def _said(response: Response) -> Said[Response]:
    reason = None if response.reply is not None else response.reason or "no reply"
    return Said(response.id, response, reason)


def _is_same(stored: Response, question: Question) -> bool:
    same = ("benchmark", "question", "options", "video")
    return all(getattr(stored, name) == getattr(question, name) for name in same)


def _response(
    job: QuestionJob,
    outcome: Captioned | Uncaptioned,
    frames: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> Response:
    asked = frames.get(ASKED, {})
    likelihood = None
    if isinstance(outcome, Captioned) and job.has_likelihood:
        try:
            likelihood = job.likelihoods(outcome.likelihoods or ())
        except ValueError as error:
            outcome = Uncaptioned(job.index, str(error))
    has_reply = isinstance(outcome, Captioned)
    call: dict[str, Any] = {**asked, "settings": settings_id(settings), "video": job.video}
    if isinstance(outcome, Captioned):
        call |= {
            "model": outcome.model,
            "revision": outcome.revision,
            "details": dict(outcome.details),
            "usage": outcome.usage.model_dump(),
            "warnings": list(outcome.warnings),
        }
    return Response.to(
        job.question,
        outcome.text if isinstance(outcome, Captioned) else None,
        reason=None if isinstance(outcome, Captioned) else outcome.reason,
        frames={name: value for name, value in frames.items() if name != ASKED},
        likelihood=likelihood,
    ).model_copy(update={"symbols": job.symbols, "call": call if has_reply else {}})
