"""`capeval.construct_filter`: the questions that cannot be answered from one frame."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from capeval.api.long_work import Estimate, Left, LongWork, finished
from capeval.api.mcq_answering import default_question_videos
from capeval.api.sync_async import blocking
from capeval.captioners.catalogue import OpenCaptioner
from capeval.captioners.run import default_run
from capeval.captioners.selection import choose_model, estimate_generation, open_captioner
from capeval.construct.indispensability import Filtered, IndispensabilityFilter
from capeval.construct.options import QuestionFilterOptions
from capeval.errors import UsageError
from capeval.files.jsonl import write_jsonl
from capeval.files.videos import VideoFolder
from capeval.mcq.questions import load_questions, question_line
from capeval.options import takes
from capeval.runs.engine import Labels, Progress
from capeval.runs.folder import RunFolder
from capeval.runs.outputs import check_output
from capeval.schema import Usage
from capeval.schema.question import Question
from capeval.text import counted

LABELS = Labels(doing="filtering", item="question", done="decided", failed="undecided")


@takes(QuestionFilterOptions)
async def construct_filter_async(o: QuestionFilterOptions) -> Filtered:
    """Keep the questions that a model answers with 16 frames, but not with one frame or none.

    Raises
    ------
    InputError, UsageError
        The inputs or options are not right.
    EndpointRefused, EndpointDown, BudgetReached
        The model cannot be asked any more; its replies are kept.
    """
    (filtered,) = await finished(open_filtering(o), o.progress)
    return filtered


construct_filter = blocking(construct_filter_async)


class FilterSession(LongWork[Filtered]):
    """One opened model and the questions that it filters."""

    def __init__(self, opened: OpenCaptioner, work: IndispensabilityFilter, out: Path) -> None:
        self.opened, self.work, self.out, self.meter = opened, work, out, opened.meter
        where = f" at {opened.base_url}" if opened.base_url else ""
        self.title = f"Model: {opened.captioner.name}{where}"
        self.model = opened.priced if opened.base_url else ""

    async def estimate(self) -> Estimate:
        """Return the most that can be asked: most questions are decided earlier."""
        usage, calls = Usage(), 0
        cost: float | None = 0.0
        for work in self.work.every_work():
            todo = work.plan().todo
            found = await estimate_generation(todo, work.reader, self.opened, 16)
            usage, calls = usage + found.usage, calls + len(todo)
            cost = None if cost is None or found.cost is None else cost + found.cost
        questions = counted(len(self.work.questions), "question")
        line = f"{questions}: at most {counted(calls, 'call')}; most are decided with fewer"
        return Estimate(calls if self.model else 0, usage, cost, [line], {"calls": calls})

    async def results(self, progress: Progress | None = None) -> AsyncIterator[Filtered]:
        """Ask until all is decided; write the questions that are kept, and every decision."""
        found = await self.work.run(progress)
        model = self.opened.captioner.name
        write_jsonl(self.decisions, (one.json() for one in found.items))
        if not found.stopped:
            write_jsonl(self.out, (_filtered_by(one, model) for one in found.kept))
        yield found

    @property
    def decisions(self) -> Path:
        """The file of the decisions."""
        return self.work.folder / "decisions.jsonl"

    def left(self, result: Filtered) -> Sequence[Left]:
        """Return the questions that are undecided because calls failed."""
        failed = {one.question.id: one.reason for one in result.items if one.reason}
        reached = sum(one.status is None for one in result.items)
        total = len(result.items)
        return [Left(self.work.folder.name, LABELS, failed, total, reached, result.stopped)]

    def written(self, result: Filtered) -> Sequence[str]:
        """Return the files."""
        if result.stopped:
            return [str(self.decisions)]
        review = f"Review them: capeval mcq construct review {self.out}"
        return [str(self.decisions), str(self.out), review]


def _filtered_by(question: Question, model: str) -> dict[str, object]:
    """Return the line of a kept question, which names the model."""
    before = question.tags.get("filtered_by")
    models = [*(before if isinstance(before, list) else []), model]
    return question_line(question) | {"filtered_by": [*dict.fromkeys(models)]}


@asynccontextmanager
async def open_filtering(
    o: QuestionFilterOptions,
    *,
    on_notice: Callable[[str], None] = lambda _: None,
    dry_run: bool = False,
) -> AsyncIterator[FilterSession]:
    """Read the questions and open the model; it or its connections go with the block."""
    entry = choose_model(o)
    file = Path(o.questions)
    questions = load_questions(str(o.questions), on_notice)[: o.limit]
    videos = Path(o.videos) if o.videos else default_question_videos(str(o.questions))
    VideoFolder(videos)
    out = Path(o.out) if o.out else file.with_name(f"{file.stem}.kept.jsonl")
    check_output(out, [file])
    # Of all files here: a file that was reviewed asks only what was mended.
    folder = file.with_name("filter")
    if entry is None and dry_run:
        raise UsageError("--dry-run needs --model")
    run = RunFolder(folder / default_run(entry.name)) if entry and dry_run else None
    async with open_captioner(o, on_notice=on_notice, dry_run=run) as opened:
        work = IndispensabilityFilter(
            questions,
            opened.captioner,
            folder / default_run(opened.captioner.name),
            path=str(o.questions),
            videos=videos,
            seed=o.seed,
            dollars=lambda: opened.meter.spent,
        )
        yield FilterSession(opened, work, out)
