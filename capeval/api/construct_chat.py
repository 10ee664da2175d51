"""`capeval.annotate_draft`, `construct_draft` and `construct_check`: what a chat model is asked."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager as Opening
from pathlib import Path
from shlex import quote

from capeval.api.construct_session import ConstructSession, open_construct
from capeval.api.long_work import finished
from capeval.api.sync_async import blocking
from capeval.construct import drafting, question_checks, question_drafting
from capeval.construct.chat_work import Line
from capeval.construct.drafts import DRAFTS, Draft, read_drafts
from capeval.construct.options import DraftOptions, QuestionCheckOptions, QuestionDraftOptions
from capeval.construct.question_checks import QuestionChecks
from capeval.files.annotations import load_video_list, split_format
from capeval.files.jsonl import write_jsonl
from capeval.llm.questions import Chat
from capeval.mcq.questions import LAYOUTS, load_questions, question_line
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
    (made,) = await finished(open_annotate_draft(o), o.progress)
    return made.value


annotate_draft = blocking(annotate_draft_async)


def open_annotate_draft(
    o: DraftOptions, *, offline: bool = False
) -> Opening[ConstructSession[dict[str, Draft]]]:
    """Read the videos and captions, and open the chat model."""
    folder = Path(o.folder)
    file, videos = folder / DRAFTS, load_video_list(folder)
    captions, notices = drafting.captions_by_index(o.captions, videos, Path(o.runs))
    given = {index for index, one in captions.items() if not one.is_empty}
    if lacking := [one.index for one in videos if one.index not in given]:
        what = f"{counted(len(lacking), 'video')} without a caption or with an empty one"
        notices = (*notices, Loss(f"{what}, not drafted: {listed(lacking)}"))
    for notice in notices:
        o.on_notice(notice)
    return open_construct(
        o,
        file,
        lambda chat: drafting.draft_items(videos, captions, chat.model),
        drafting.LABELS,
        lambda _, __: read_drafts(folder),
        [str(file), f"Next: capeval annotate review {quote(str(folder))} --annotators NAMES"],
        offline=offline,
    )


@takes(QuestionDraftOptions)
async def construct_draft_async(o: QuestionDraftOptions) -> tuple[Question, ...]:
    """Draft multiple-choice questions from annotations, and write them to a file.

    The replies are kept beside it, in NAME.drafts.jsonl. Raises as `annotate_draft` does.
    """
    (made,) = await finished(open_construct_draft(o), o.progress)
    return made.value


construct_draft = blocking(construct_draft_async)


def open_construct_draft(
    o: QuestionDraftOptions, *, offline: bool = False
) -> Opening[ConstructSession[tuple[Question, ...]]]:
    """Read the annotations and errors, and open the chat model."""
    out, annotations = Path(o.out), annotations_of(o.annotations)
    check_output(out, [annotations_file(o.annotations), *([o.errors] if o.errors else [])])
    points: Mapping[str, question_drafting.Points] = {}
    if o.errors is not None:
        replies, notices = drafting.captions_by_index(o.errors, annotations, Path(o.runs))
        points, unusable = question_drafting.read_points(annotations, replies)
        if unusable:
            what = f"{counted(len(unusable), 'video')} without usable errors, drafted without them"
            reasons = (f"{index} ({reason})" for index, reason in unusable.items())
            notices = (*notices, Loss(f"{what}: {listed(reasons, 3)}"))
        for notice in notices:
            o.on_notice(notice)

    file, source = quote(str(out)), quote(str(o.annotations))

    def make(lines: Mapping[str, Line], _: Chat) -> tuple[Question, ...]:
        questions = question_drafting.lettered(annotations, lines, o.seed)
        if questions:
            write_jsonl(out, map(question_line, questions))
        return questions

    return open_construct(
        o,
        out.with_suffix(".drafts.jsonl"),
        lambda chat: question_drafting.question_items(annotations, points, chat.model),
        question_drafting.LABELS,
        make,
        [str(out), f"Next: capeval mcq construct check {file} --annotations {source}"],
        offline=offline,
    )


@takes(QuestionCheckOptions)
async def construct_check_async(o: QuestionCheckOptions) -> QuestionChecks:
    """Check multiple-choice questions without their videos.

    The replies are kept beside the questions, in NAME.checks.jsonl. Raises as `annotate_draft`
    does.
    """
    (made,) = await finished(open_construct_check(o), o.progress)
    return made.value


construct_check = blocking(construct_check_async)


def open_construct_check(
    o: QuestionCheckOptions, *, offline: bool = False
) -> Opening[ConstructSession[QuestionChecks]]:
    """Read the questions and annotations, and open the chat model."""
    _, file = split_format(o.questions, LAYOUTS)
    questions = load_questions(o.questions, o.on_notice)
    items = question_checks.check_items(questions, annotations_of(o.annotations), file)
    replies = file.with_suffix(".checks.jsonl")
    return open_construct(
        o,
        replies,
        lambda _: items,
        question_checks.LABELS,
        lambda lines, chat: question_checks.checked(questions, lines, str(file), chat.model),
        [str(replies)],
        offline=offline,
    )
