"""`capeval mcq construct`: from annotations to questions, in the order of the work."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager as Opening
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, field
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from capeval.captioners.asking_session import choose_model, estimate_generation, open_captioner
from capeval.captioners.catalogue import OpenCaptioner
from capeval.captioners.generate import default_run
from capeval.captioners.options import CaptionerOptions
from capeval.construct import question_checks, question_drafting
from capeval.construct.annotation_drafting import captions_by_index
from capeval.construct.drafts import Line, check_unedited, seal, stored_lines
from capeval.construct.question_checks import QuestionChecks
from capeval.construct.question_filter import CONDITIONS, Filtered, QuestionFilter
from capeval.construct.review import ReviewFiles, ReviewPages, check_names, question_item
from capeval.construct.session import ConstructChatOptions, ConstructSession, open_construct
from capeval.files.annotations import split_format
from capeval.files.jsonl import write_jsonl
from capeval.files.outputs import check_output
from capeval.files.videos import VideoFolder
from capeval.llm.questions import Chat
from capeval.mcq.answer import default_question_videos
from capeval.mcq.layouts import LAYOUTS
from capeval.mcq.question_files import load_questions, question_file, question_line
from capeval.options import (
    INPUTS,
    MODEL,
    OUTPUT,
    FilePath,
    command,
    declares,
    option,
    python_only,
    required,
    takes,
)
from capeval.runs.concurrency import blocking
from capeval.runs.engine import Labels, Progress
from capeval.runs.folder import RunFolder
from capeval.runs.long_work import Estimate, Left, LongWork, finished
from capeval.runs.sources import annotations_file, annotations_of
from capeval.schema import Question, Usage
from capeval.show.output import Output
from capeval.show.result import Lines
from capeval.text import Loss, counted, listed

if TYPE_CHECKING:
    from capeval.captioners.protocol import Captioner, SimpleCaptioner


@declares
class QuestionDraftOptions(ConstructChatOptions):
    """What questions are drafted from: see `capeval.construct_draft`.

    Parameters
    ----------
    annotations : A file, or 'tuna'.
    errors : A run of `capeval generate --prompts mcq-errors-v1 --frames 8`, or its file: what a
        video model gets wrong becomes wrong options.
    out : The file of questions.
    force : Replace it although it was edited.
    seed : Decides the letters of the right options.
    """

    annotations: FilePath = required(positional=True, metavar="ANNOTATIONS")
    _: KW_ONLY
    errors: FilePath | None = option(None, panel=INPUTS, metavar="RUN|FILE")
    out: FilePath = option("questions.jsonl", panel=OUTPUT, metavar="FILE")
    force: bool = option(False, panel=OUTPUT)
    seed: int = python_only(0, min=0)


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
        lambda questions: Lines([questions_line(questions)]),
        [str(out), f"Next: capeval mcq construct check {file} --annotations {source}"],
        offline=offline,
    )


def questions_line(questions: Sequence[Question]) -> str:
    """Return how many questions were drafted, and how many use an error of a video model."""
    videos = counted(len({one.video for one in questions}), "video")
    errors = sum("errors" in one.tags for one in questions)
    return (
        f"{counted(len(questions), 'question')} about {videos} drafted, {errors:,} with a video "
        "model's error as an option."
    )


@command("mcq construct draft", "yes", "dry_run", options=QuestionDraftOptions)
def draft_command(
    o: QuestionDraftOptions, output: Output
) -> Opening[ConstructSession[tuple[Question, ...]]]:
    """Draft questions of TUNA-MCQ's ten task types from annotations.

    What a video model gets wrong becomes wrong options. Run the same command again to resume.
    """
    return open_construct_draft(o, offline=output.dry_run)


@declares
class QuestionCheckOptions(ConstructChatOptions):
    """Which questions are checked: see `capeval.construct_check`.

    Parameters
    ----------
    questions : A file of questions.
    annotations : Those of the videos: a file, or 'tuna'.
    limit : Only the first N.
    """

    questions: FilePath = required(positional=True, metavar="QUESTIONS")
    _: KW_ONLY
    limit: int | None = python_only(None, min=1)
    annotations: FilePath = required(panel=INPUTS, metavar="FILE")


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
        lambda found: found,
        [str(out), f"Next: capeval mcq construct filter {quote(str(out))} --model NAME"],
        offline=offline,
    )


@command("mcq construct check", "yes", "dry_run", "as_json", options=QuestionCheckOptions)
def check_command(
    o: QuestionCheckOptions, output: Output
) -> Opening[ConstructSession[QuestionChecks]]:
    """Check questions without their videos: options, keys, and shortcuts over the whole set.

    A chat model compares each option with the annotation. Run the same command again to resume.
    """
    return open_construct_check(o, offline=output.dry_run)


@declares
class QuestionFilterOptions(CaptionerOptions):
    """Which questions need the whole video: see `capeval.construct_filter`.

    Parameters
    ----------
    model : As for `capeval generate`.
    questions : A file of questions.
    videos : Their folder. By default videos/ next to the questions, else their folder.
    out : The questions that are kept. By default QUESTIONS.kept.jsonl.
    batch_size : Questions at a time on a GPU.
    seed : Decides the orders of the options.
    """

    questions: FilePath = required(positional=True, metavar="QUESTIONS")
    _: KW_ONLY
    model: str | Captioner | SimpleCaptioner | None = option(
        None, note="Or a `Captioner` of your own.", method="caption", panel=MODEL, metavar="NAME"
    )
    videos: FilePath | None = option(None, panel=INPUTS, metavar="DIR")
    out: FilePath | None = option(None, panel=OUTPUT, metavar="FILE")
    seed: int = python_only(0, min=0)
    max_concurrency: int = python_only(32, min=1, max=4096)
    only: Collection[str] = field(default=(), init=False)
    limit: int | None = field(default=None, init=False)
    serve: bool = field(default=False, init=False)
    gpus: int | None = field(default=None, init=False)
    max_new_tokens: int | None = field(default=None, init=False)
    temperature: float | None = field(default=None, init=False)
    timeout: float = field(default=300.0, init=False)


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
        for work in map(self.work.work, CONDITIONS):
            todo = work.plan().todo
            _, expected = await estimate_generation(todo, work.reader, self.opened, 16)
            usage, calls = usage + expected, calls + len(todo)
        cost = self.meter.cost(self.opened.priced, usage)
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

    def result(self, results: list[Filtered]) -> Filtered | None:
        return results[0] if results else None

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


@command("mcq construct filter", "yes", "dry_run", "as_json", options=QuestionFilterOptions)
def filter_command(o: QuestionFilterOptions, output: Output) -> Opening[FilterSession]:
    """Keep the questions that a model answers with 16 frames, but not with one frame or none.

    Each is asked with eight orders of its options, without the video first; a question that fails
    is not asked further. Run the same command again to resume.
    """
    return open_filtering(o, on_notice=output.notice, dry_run=output.dry_run)


@declares
class QuestionReviewOptions:
    """Which questions are reviewed: see `capeval.construct_review`.

    Parameters
    ----------
    questions : A file of questions.
    reviewers : Their names. Each gets pages of 25 questions.
    videos : Their folder. By default videos/ next to the questions, else their folder.
    """

    questions: FilePath = required(positional=True, metavar="QUESTIONS")
    _: KW_ONLY
    reviewers: Collection[str] = option((), panel=INPUTS, metavar="NAMES", commas=True)
    videos: FilePath | None = option(None, panel=INPUTS, metavar="DIR")


@command("mcq construct review")
@takes(QuestionReviewOptions)
def construct_review(o: QuestionReviewOptions) -> ReviewFiles:
    """Write pages for reviewers, who keep, mend or drop each question in a browser.

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
