"""The options of `capeval annotate` and `capeval mcq construct`."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import KW_ONLY, field
from pathlib import Path
from typing import TYPE_CHECKING

from capeval.captioners.options import CaptionerOptions
from capeval.llm.options import ChatOptions
from capeval.options import (
    FRACTION,
    INPUTS,
    MODEL,
    OUTPUT,
    declares,
    ignore,
    option,
    python_only,
    required,
)

if TYPE_CHECKING:
    from capeval.captioners.protocol import Captioner, SimpleCaptioner
    from capeval.runs.engine import Progress

FilePath = str | Path


@declares
class FilterOptions:
    """Which videos are fit to be annotated: see `capeval.annotate_filter`.

    Parameters
    ----------
    min_side : The least shorter side, in pixels, as in the TUNA paper.
    max_seconds : The longest duration, as in the TUNA paper.
    progress : Receives the status after every video.
    """

    folder: FilePath = required("The folder of the videos.", positional=True, metavar="FOLDER")
    _: KW_ONLY
    min_side: int = option(480, panel=INPUTS, metavar="N", min=1)
    max_seconds: float = option(40.0, panel=INPUTS, metavar="S", min=0)
    progress: "Progress | None" = python_only(None, method="update", shown=False)


@declares
class ConstructChatOptions(ChatOptions):
    """What drafting and checking have in common.

    Parameters
    ----------
    limit : Only the first N.
    redo : Ask about these again, and replace what was edited by hand.
    progress : Receives the status after every item.
    """

    _: KW_ONLY
    limit: int | None = option(None, panel=INPUTS, metavar="N", min=1)
    redo: Collection[str] = option((), panel=INPUTS, metavar="INDEX", commas=True)
    max_concurrency: int = python_only(64, "Calls at a time.", min=1, max=4096)
    timeout: float = python_only(120.0, "Seconds for one call.", min=0.1, max=86_400)
    progress: "Progress | None" = python_only(None, method="update", shown=False)


@declares
class DraftOptions(ConstructChatOptions):
    """What annotations are drafted from: see `capeval.annotate_draft`.

    Parameters
    ----------
    captions : A run of `capeval generate`, or a captions file.
    """

    folder: FilePath = required("The folder of the videos.", positional=True, metavar="FOLDER")
    _: KW_ONLY
    captions: FilePath = required(panel=INPUTS, metavar="RUN|FILE")


@declares
class ReviewOptions:
    """Who reviews which drafts: see `capeval.annotate_review`.

    Parameters
    ----------
    annotators : Their names. Each gets pages of 25 videos.
    overlap : This many videos, or this share of them, go to two annotators.
    seed : Decides who gets which videos.
    on_notice : Called with each notice, which is one line.
    differences : Two exported files: a page with only what differs.
    """

    folder: FilePath = required("The folder of the videos.", positional=True, metavar="FOLDER")
    _: KW_ONLY
    annotators: Collection[str] = option((), panel=INPUTS, metavar="NAMES", commas=True)
    overlap: str | int | float = option("10%", note=FRACTION, panel=INPUTS, metavar="SHARE")
    seed: int = python_only(0, min=0)
    differences: Sequence[FilePath] = option((), panel=INPUTS, metavar="FILES", commas=True)
    on_notice: Callable[[str], None] = python_only(ignore, shown=False)


@declares
class AgreeOptions:
    """Whose annotations are compared: see `capeval.annotate_agree`."""

    files: Sequence[FilePath] = required(
        "Files that the review pages exported.", positional=True, metavar="FILE..."
    )


@declares
class MergeAnnotationsOptions:
    """What becomes `annotations.json`: see `capeval.annotate_merge`.

    Parameters
    ----------
    files : Files that the review pages exported.
    force : Replace annotations.json although videos are dropped or it was edited.
    """

    folder: FilePath = required("The folder of the videos.", positional=True, metavar="FOLDER")
    files: Sequence[FilePath] = required(positional=True, metavar="FILE...")
    _: KW_ONLY
    force: bool = option(False, panel=OUTPUT)


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
    model: "str | Captioner | SimpleCaptioner | None" = option(
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
