"""`capeval.construct_*`: from annotations to questions, in the order of the work."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager as Opening
from contextlib import asynccontextmanager
from pathlib import Path
from shlex import quote

from capeval.api.construct_session import ConstructSession, open_construct
from capeval.captioners.asking_session import choose_model, estimate_generation, open_captioner
from capeval.captioners.catalogue import OpenCaptioner
from capeval.captioners.generate import default_run
from capeval.construct import question_checks, question_drafting
from capeval.construct.annotation_drafting import captions_by_index
from capeval.construct.drafts import Line, check_unedited, seal, stored_lines
from capeval.construct.options import (
    QuestionCheckOptions,
    QuestionDraftOptions,
    QuestionFilterOptions,
    QuestionReviewOptions,
)
from capeval.construct.question_checks import QuestionChecks
from capeval.construct.question_filter import CONDITIONS, Filtered, QuestionFilter
from capeval.construct.review import ReviewFiles, ReviewPages, check_names, question_item
from capeval.files.annotations import split_format
from capeval.files.jsonl import write_jsonl
from capeval.files.outputs import check_output
from capeval.files.videos import VideoFolder
from capeval.llm.questions import Chat
from capeval.mcq.answer import default_question_videos
from capeval.mcq.layouts import LAYOUTS
from capeval.mcq.question_files import load_questions, question_file, question_line
from capeval.options import takes
from capeval.runs.engine import Labels, Progress
from capeval.runs.folder import RunFolder
from capeval.runs.long_work import Estimate, Left, LongWork, finished
from capeval.runs.sources import annotations_file, annotations_of
from capeval.runs.sync_async import blocking
from capeval.schema import Question, Usage
from capeval.text import Loss, counted, listed


@takes(QuestionDraftOptions)
async def construct_draft_async(o: QuestionDraftOptions) -> tuple[Question, ...]:
    """Draft multiple-choice questions from annotations, and write them to a file.

    The replies are kept beside it, in NAME.drafts.jsonl. Raises as `annotate_draft` does.
    """
    (questions,) = await finished(open_construct_draft(o), o.progress)
    return questions


construct_draft = blocking(construct_draft_async)


def open_construct_draft(
    o: QuestionDraftOptions, *, offline: bool = False
) -> Opening[ConstructSession[tuple[Question, ...]]]:
    """Read the annotations and errors, and open the chat model."""
    out, annotations = Path(o.out), annotations_of(o.annotations)
    check_output(out, [annotations_file(o.annotations), *([o.errors] if o.errors else [])])
    check_unedited(out, force=o.force)
    points: Mapping[str, question_drafting.Points] = {}
    if o.errors is not None:
        replies = captions_by_index(o.errors, annotations, Path(o.runs), o.on_notice)
        points, unusable = question_drafting.read_points(annotations, replies)
        if unusable:
            what = f"{counted(len(unusable), 'video')} without usable errors, drafted without them"
            reasons = (f"{index} ({reason})" for index, reason in unusable.items())
            o.on_notice(Loss(f"{what}: {listed(reasons, 3)}"))

    file, source = quote(str(out)), quote(str(o.annotations))
    drafts = out.with_suffix(".drafts.jsonl")

    def make(_: object, __: Chat) -> tuple[Question, ...]:
        found = {i: line for i, line in stored_lines(drafts).items() if "reason" not in line}
        questions = question_drafting.lettered(annotations, found, o.seed)
        if questions:
            write_jsonl(out, map(question_line, questions))
            seal(out)
        return questions

    return open_construct(
        o,
        drafts,
        lambda chat: question_drafting.question_items(annotations, points, chat.model),
        question_drafting.LABELS,
        make,
        [str(out), f"Next: capeval mcq construct check {file} --annotations {source}"],
        offline=offline,
    )


@takes(QuestionCheckOptions)
async def construct_check_async(o: QuestionCheckOptions) -> QuestionChecks:
    """Check multiple-choice questions without their videos.

    NAME.checked.jsonl has the questions with their `findings`. The replies are kept beside it, in
    NAME.checks.jsonl. Raises as `annotate_draft` does.
    """
    (checks,) = await finished(open_construct_check(o), o.progress)
    return checks


construct_check = blocking(construct_check_async)


def open_construct_check(
    o: QuestionCheckOptions, *, offline: bool = False
) -> Opening[ConstructSession[QuestionChecks]]:
    """Read the questions and annotations, and open the chat model."""
    file = _file(o)
    questions = load_questions(o.questions, o.on_notice)
    items = question_checks.check_items(questions, annotations_of(o.annotations), file)
    out = file.with_suffix(".checked.jsonl")
    check_unedited(out)

    def make(lines: Mapping[str, Line], chat: Chat) -> QuestionChecks:
        found = question_checks.checked(questions, lines, str(file), chat.model)
        if lines:
            write_jsonl(out, question_checks.with_findings(questions, lines, found))
            seal(out)
        return found

    return open_construct(
        o,
        file.with_suffix(".checks.jsonl"),
        lambda _: items,
        question_checks.LABELS,
        make,
        [str(out), f"Next: capeval mcq construct filter {quote(str(out))} --model NAME"],
        offline=offline,
    )


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

    labels = Labels(doing="filtering", item="question", done="decided", failed="undecided")

    def __init__(self, opened: OpenCaptioner, work: QuestionFilter, out: Path) -> None:
        self.opened, self.work, self.out, self.meter = opened, work, out, opened.meter
        where = f" at {opened.base_url}" if opened.base_url else ""
        self.title = f"Model: {opened.captioner.name}{where}"
        self.model = opened.priced if opened.base_url else ""
        self.decisions = work.folder / "decisions.jsonl"

    async def estimate(self) -> Estimate:
        """Return the most that can be asked: most questions are decided earlier."""
        usage, calls = Usage(), 0
        cost: float | None = 0.0
        for work in map(self.work.work, CONDITIONS):
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
            seal(self.out)
        yield found

    def left(self, result: Filtered) -> Sequence[Left]:
        """Return the questions that are undecided because calls failed."""
        failed = {one.question.id: one.reason for one in result.items if one.reason}
        reached = sum(one.status is None for one in result.items)
        total = len(result.items)
        return [Left(self.work.folder.name, self.labels, failed, total, reached, result.stopped)]

    def written(self, result: Filtered) -> Sequence[str]:
        """Return the files."""
        if result.stopped:
            return [str(self.decisions)]
        file = quote(str(self.out))
        review = f"Review them: capeval mcq construct review {file} --reviewers NAMES"
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
    file = _file(o)
    questions = load_questions(str(o.questions), on_notice)
    videos = Path(o.videos) if o.videos else default_question_videos(str(o.questions))
    VideoFolder(videos)
    out = Path(o.out) if o.out else file.with_name(f"{file.stem}.kept.jsonl")
    check_output(out, [file])
    check_unedited(out)
    # Of all files here: a file that was reviewed asks only what was mended.
    folder = file.with_name("filter")
    run = RunFolder(folder / default_run(entry.name)) if entry and dry_run else None
    async with open_captioner(o, on_notice=on_notice, dry_run=run) as opened:
        work = QuestionFilter(
            questions,
            opened.captioner,
            folder / default_run(opened.captioner.name),
            str(o.questions),
            videos,
            o.seed,
            lambda: opened.meter.spent,
        )
        yield FilterSession(opened, work, out)


@takes(QuestionReviewOptions)
def construct_review(o: QuestionReviewOptions) -> ReviewFiles:
    """Write the pages on which reviewers keep, mend or drop questions.

    They are `review/QUESTIONS-NAME-1.html` and so on, next to the questions.

    Raises
    ------
    InputError, UsageError
        The questions cannot be read, no reviewer is named, or there are pages with other contents.
    """
    check_names("reviewers", o.reviewers)
    videos = Path(o.videos) if o.videos else default_question_videos(str(o.questions))
    file = _file(o)
    pages = ReviewPages(file.parent, videos)
    items = [question_item(one, pages.url) for one in load_questions(o.questions)]
    return pages.shared_out("questions", items, o.reviewers, prefix=f"{file.stem}-")


def _file(o: QuestionCheckOptions | QuestionFilterOptions | QuestionReviewOptions) -> Path:
    """Return the file of the questions, next to which others are written."""
    return question_file(split_format(o.questions, LAYOUTS)[1])
