"""Ask a model the questions of a benchmark; see `capeval.runs.engine` for how work is resumed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capeval.captioners.options import DEFAULT_READERS
from capeval.captioners.pipeline import Job, caption_videos
from capeval.captioners.protocol import Captioned, Captioner, Uncaptioned
from capeval.captioners.run_settings import same_settings, settings_id
from capeval.errors import BudgetReached, EndpointDown, RunLocked
from capeval.files.jsonl import write_jsonl
from capeval.mcq.answer_plan import (
    AnswerPlan,
    ResponseOutcome,
    parts_in,
    plan_answers,
)
from capeval.mcq.asking import Asking
from capeval.mcq.find_run import RESPONSES
from capeval.mcq.question_job import ASKED, QuestionJob, key_of
from capeval.mcq.questions import questions_hash
from capeval.runs.engine import Finished, Labels, Progress, Spent, execute
from capeval.runs.folder import RunFolder
from capeval.schema import Usage
from capeval.schema.question import Response
from capeval.version import __version__
from capeval.video import FrameSet

_WAIT_FOR_OTHERS = 60.0
NOT_REACHED = "not asked: the run was stopped"


@dataclass(frozen=True)
class Answers:
    """The responses of a run in the order of its questions.

    Attributes
    ----------
    asked : how many replies are wanted, done or not: questions, times rotations
    responses : all that are stored, also of other questions of the file
    unanswered : why wanted replies are missing, by question
    new : how many replies this call added
    without_subtitles : videos that have none, where subtitles were given
    """

    run: RunFolder
    asked: int
    responses: tuple[Response, ...]
    unanswered: Mapping[str, str]
    new: int = 0
    usage: Usage = field(default_factory=Usage)
    without_subtitles: int = 0
    stopped: BudgetReached | EndpointDown | None = None

    @property
    def file(self) -> Path:
        """The file of the responses."""
        return self.run.path / RESPONSES

    @property
    def warnings(self) -> dict[str, int]:
        """How many replies have each warning."""
        found = [response.call.get("warnings") for response in self.responses]
        return dict(Counter(str(text) for one in found if isinstance(one, list) for text in one))


@dataclass
class AnswerWork:
    """Answers the questions of a run with one model; a `ResumableTask`."""

    run: RunFolder
    asking: Asking
    captioner: Captioner
    dollars: Callable[[], float]
    readers: int = DEFAULT_READERS
    usage: Usage = field(default_factory=Usage)

    @property
    def labels(self) -> Labels:
        """How messages name what is asked."""
        item = "rotation" if self.asking.circular else "question"
        return Labels(doing="asking", item=item, done="answered", failed="unanswered")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the run, or its shard."""
        shard = self.asking.shard
        with self.run.locked(part=shard.label if shard else ""):
            if shard is None:
                for part in parts_in(self.run.path):
                    self._refuse_if_held(part)
            yield

    def _refuse_if_held(self, part: Path) -> None:
        label = part.name.split(".")[1]
        try:
            with self.run.locked(part=label):
                return
        except RunLocked:
            raise RunLocked(f"{self.run}: shard {label} is still being answered; wait") from None

    def plan(self) -> AnswerPlan:
        """Compare what is stored with the questions."""
        return plan_answers(self.run, self.asking, self.captioner)

    def create(self, plan: AnswerPlan) -> None:
        """Write the manifest."""
        run, asking = plan.run, plan.asking
        with ExitStack() as stack:
            if asking.shard:  # shards start together, and each writes the same
                stack.enter_context(run.locked(wait=_WAIT_FOR_OTHERS))
                same_settings(run, plan.settings)
            manifest = run.read_manifest()
            manifest["questions"] = {
                "path": asking.path,
                "sha256": questions_hash(asking.questions),
                "count": len(asking.questions),
            }
            if asking.videos is not None:
                manifest["videos"] = str(asking.videos)
            if asking.subtitles is not None:
                manifest["subtitles"] = str(asking.subtitles.path)
            manifest["generation"] = dict(plan.settings)
            manifest["capeval"] = __version__
            run.write_manifest(manifest)
        # A reply of a moment ago must not be beside the line that it replaces: the process may be
        # killed, and the file graded.
        again = {job.index for job in plan.todo}
        if plan.file.exists():
            _write(plan, {index: one for index, one in plan.kept.items() if index not in again})

    async def perform(self, plan: AnswerPlan, record: Callable[[ResponseOutcome], None]) -> None:
        """Ask what the plan lists."""

        def answered(job: Job, outcome: Captioned | Uncaptioned, frames: Mapping[str, Any]) -> None:
            assert isinstance(job, QuestionJob)  # noqa: S101 - the plan has no others
            if isinstance(outcome, Captioned):
                self.usage += outcome.usage
            record(ResponseOutcome(job.index, _response(job, outcome, frames, plan)))

        await caption_videos(
            plan.todo, NoReader(), self.captioner, record=answered, threads=self.readers
        )

    def line(self, plan: AnswerPlan, outcome: ResponseOutcome) -> tuple[Path, Mapping[str, Any]]:
        """Return where a response is appended."""
        return plan.file, outcome.response.model_dump(mode="json")

    def finish(self, plan: AnswerPlan, done: Mapping[str, ResponseOutcome]) -> None:
        """Write all responses in the order of the questions; a whole run takes in its shards."""
        _write(plan, done)
        if plan.asking.shard is None:
            # Killed before this line, the next run does the same again.
            for part in parts_in(plan.run.path):
                part.unlink(missing_ok=True)

    def spent(self) -> Spent:
        """Return what the replies used."""
        return Spent(self.usage.input_tokens + self.usage.output_tokens, self.dollars())

    def answers(self, finished: Finished[AnswerPlan, ResponseOutcome]) -> Answers:
        """Return the result of this run or shard."""
        done, asking = finished.done, finished.plan.asking
        wanted = [key_of(q.id, r) for q in asking.chosen for r in asking.rotations(q)]
        return Answers(
            run=finished.plan.run,
            asked=len(wanted),
            responses=in_order(asking, done),
            unanswered={
                index: (done[index].reason or "") if index in done else NOT_REACHED
                for index in wanted
                if index not in done or done[index].reason is not None
            },
            new=sum(done[index].reason is None for index in finished.new),
            usage=self.usage,
            without_subtitles=asking.without_subtitles,
            stopped=finished.stopped,
        )


class NoReader:
    """Stands where each job has a reader of its own."""

    policy = decoder = "the question's own"

    def read(self, path: Path, *, cancel: object = None) -> FrameSet:
        """Raise: no job uses it."""
        del cancel
        raise AssertionError(f"{path}: each question has a reader of its own")


async def answer_run(
    run: RunFolder,
    asking: Asking,
    captioner: Captioner,
    *,
    progress: Progress | None = None,
    readers: int = DEFAULT_READERS,
    dollars: Callable[[], float] = lambda: 0.0,
) -> Answers:
    """Answer what a run lacks; `dollars` returns what calls have cost so far."""
    work = AnswerWork(run, asking, captioner, dollars, readers)
    return work.answers(await execute(work, progress))


def in_order(asking: Asking, done: Mapping[str, ResponseOutcome]) -> tuple[Response, ...]:
    """Return responses in the order of the questions and of their rotations."""
    place = {question.id: n for n, question in enumerate(asking.questions)}
    responses = (outcome.response for outcome in done.values())
    return tuple(sorted(responses, key=lambda one: (place[one.id], one.rotation)))


def _write(plan: AnswerPlan, done: Mapping[str, ResponseOutcome]) -> None:
    """Write the responses of a run or shard, atomically and in order."""
    responses = in_order(plan.asking, done)
    if (shard := plan.asking.shard) is not None:
        mine = {q.id for n, q in enumerate(plan.asking.questions) if shard.holds(n)}
        responses = tuple(one for one in responses if one.id in mine)
    if responses or plan.file.exists():
        write_jsonl(plan.file, (one.model_dump(mode="json") for one in responses))


def _response(
    job: QuestionJob,
    outcome: Captioned | Uncaptioned,
    frames: Mapping[str, Any],
    plan: AnswerPlan,
) -> Response:
    asked = frames.get(ASKED, {})
    likelihood = None
    if isinstance(outcome, Captioned) and job.has_likelihood:
        try:
            likelihood = job.likelihoods(outcome.likelihoods or ())
        except ValueError as error:
            outcome = Uncaptioned(job.index, str(error))
    has_reply = isinstance(outcome, Captioned)
    call: dict[str, Any] = {**asked, "settings": settings_id(plan.settings), "video": job.video}
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
        rotation=job.rotation,
    ).model_copy(update={"symbols": job.symbols, "call": call if has_reply else {}})
