"""`capeval.annotate_draft`, `construct_draft` and `construct_check`: what a chat model is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from capeval.api.construct_session import ConstructSession, open_construct
from capeval.api.long_work import finished
from capeval.api.sync_async import blocking
from capeval.construct import drafting, question_checks, question_drafting
from capeval.construct.chat_work import Line
from capeval.construct.drafts import DRAFTS, Draft, read_drafts
from capeval.construct.options import DraftOptions, QuestionCheckOptions, QuestionDraftOptions
from capeval.construct.question_checks import QuestionChecks
from capeval.construct.question_drafting import Points
from capeval.files.annotations import split_format
from capeval.files.jsonl import write_jsonl
from capeval.llm.questions import Chat
from capeval.mcq.questions import LAYOUTS, load_questions
from capeval.options import takes
from capeval.runs.outputs import check_output
from capeval.runs.sources import annotations_file, annotations_of
from capeval.schema import Question
from capeval.text import Loss, counted, listed


@takes(DraftOptions)
async def annotate_draft_async(o: DraftOptions) -> dict[str, Draft]:
    """Draft annotations of a folder's videos from captions: drafts.jsonl, returned by index.

    Raises
    ------
    InputError, UsageError
        The inputs or options are not right.
    EndpointRefused, EndpointDown, BudgetReached
        The chat model cannot be asked any more; what was drafted is kept.
    """
    (made,) = await finished(open_annotate_draft(o, on_notice=o.on_notice), o.progress)
    return made.value


annotate_draft = blocking(annotate_draft_async)


@asynccontextmanager
async def open_annotate_draft(
    o: DraftOptions,
    *,
    offline: bool = False,
    on_notice: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[ConstructSession[dict[str, Draft]]]:
    """Read the videos and captions, and open the chat model."""
    folder = Path(o.folder)
    videos = drafting.videos_in(folder)
    captions, notices = drafting.captions_by_model(o.captions, videos, Path(o.runs))
    lacking = {
        "without a caption": [one.index for one in videos if one.index not in captions],
        "with an empty caption": [
            one.index for one in videos if one.index in captions and captions[one.index].is_empty
        ],
    }
    for notice in notices:
        on_notice(notice)
    for what, names in lacking.items():
        if names:
            on_notice(Loss(f"{counted(len(names), 'video')} {what}, not drafted: {listed(names)}"))
    async with open_construct(
        o,
        folder / DRAFTS,
        lambda chat: drafting.draft_items(videos, captions, chat.model),
        drafting.LABELS,
        lambda _, __: read_drafts(folder),
        written=[
            str(folder / DRAFTS),
            f"Next: capeval annotate review {folder} --annotators NAMES",
        ],
        offline=offline,
        on_notice=on_notice,
    ) as session:
        yield session


@takes(QuestionDraftOptions)
async def construct_draft_async(o: QuestionDraftOptions) -> tuple[Question, ...]:
    """Draft multiple-choice questions from annotations, and write them to a file.

    The replies are kept beside it, in NAME.drafts.jsonl.

    Raises
    ------
    InputError, UsageError
        The inputs or options are not right.
    EndpointRefused, EndpointDown, BudgetReached
        The chat model cannot be asked any more; what was drafted is kept.
    """
    (made,) = await finished(open_construct_draft(o, on_notice=o.on_notice), o.progress)
    return made.value


construct_draft = blocking(construct_draft_async)


@asynccontextmanager
async def open_construct_draft(
    o: QuestionDraftOptions,
    *,
    offline: bool = False,
    on_notice: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[ConstructSession[tuple[Question, ...]]]:
    """Read the annotations and errors, and open the chat model."""
    out, annotations = Path(o.out), annotations_of(o.annotations)
    check_output(out, [annotations_file(o.annotations), *([o.errors] if o.errors else [])])
    points: Mapping[str, Points] = {}
    if o.errors is not None:
        replies, notices = drafting.captions_by_model(o.errors, annotations, Path(o.runs))
        points, unusable = question_drafting.read_points(annotations, replies)
        for notice in (*notices, *([Loss(unusable)] if unusable else [])):
            on_notice(notice)

    def make(lines: Mapping[str, Line], _: Chat) -> tuple[Question, ...]:
        questions = question_drafting.lettered(annotations, lines, o.seed)
        if questions:
            write_jsonl(out, map(question_drafting.question_line, questions))
        return questions

    async with open_construct(
        o,
        out.with_suffix(".drafts.jsonl"),
        lambda chat: question_drafting.question_items(annotations, points, chat.model),
        question_drafting.LABELS,
        make,
        written=[
            str(out),
            f"Next: capeval mcq construct check {out} --annotations {o.annotations}",
        ],
        offline=offline,
        on_notice=on_notice,
    ) as session:
        yield session


@takes(QuestionCheckOptions)
async def construct_check_async(o: QuestionCheckOptions) -> QuestionChecks:
    """Check multiple-choice questions without their videos.

    What the chat model says is kept beside the questions, in NAME.checks.jsonl.

    Raises
    ------
    InputError, UsageError
        The inputs or options are not right.
    EndpointRefused, EndpointDown, BudgetReached
        The chat model cannot be asked any more; what was checked is kept.
    """
    (made,) = await finished(open_construct_check(o, on_notice=o.on_notice), o.progress)
    return made.value


construct_check = blocking(construct_check_async)


@asynccontextmanager
async def open_construct_check(
    o: QuestionCheckOptions,
    *,
    offline: bool = False,
    on_notice: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[ConstructSession[QuestionChecks]]:
    """Read the questions and annotations, and open the chat model."""
    _, file = split_format(o.questions, LAYOUTS)
    questions = load_questions(o.questions, on_notice)
    items = question_checks.check_items(questions, annotations_of(o.annotations), file)
    async with open_construct(
        o,
        file.with_suffix(".checks.jsonl"),
        lambda _: items,
        question_checks.LABELS,
        lambda lines, chat: question_checks.checked(questions, lines, file=file, model=chat.model),
        written=[str(file.with_suffix(".checks.jsonl"))],
        offline=offline,
        on_notice=on_notice,
    ) as session:
        yield session
