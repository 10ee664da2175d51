"""`capeval annotate`: from a folder of videos to annotations, in the order of the work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager as Opening
from dataclasses import KW_ONLY, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, ClassVar

from rich.console import Console

from capeval.construct.annotation_agreement import AnnotatorAgreement, annotation_agreement
from capeval.construct.annotation_drafting import LABELS, captions_by_index, draft_items
from capeval.construct.annotation_merging import MergedAnnotations, merge_drafts
from capeval.construct.drafts import DRAFTS, Draft, check_unedited, read_drafts, read_exports, seal
from capeval.construct.review import (
    ReviewFiles,
    ReviewPages,
    check_names,
    difference_items,
    draft_item,
    drafts_to_review,
)
from capeval.construct.session import ConstructChatOptions, ConstructSession, open_construct
from capeval.construct.video_filter import FilterWork, VideoRow
from capeval.errors import InputError, UsageError
from capeval.files.annotations import VIDEO_LIST, load_annotations, load_video_list
from capeval.files.jsonl import dumps, write_atomic
from capeval.files.outputs import check_output
from capeval.options import (
    FRACTION,
    INPUTS,
    OUTPUT,
    CountOrShare,
    FilePath,
    command,
    declares,
    ignore,
    option,
    python_only,
    required,
    takes,
)
from capeval.runs.engine import execute
from capeval.runs.long_work import finished
from capeval.runs.sync_async import blocking
from capeval.show.numbers import bounded, interval, tenths, thousands
from capeval.show.output import Output
from capeval.show.result import Lines, Result
from capeval.show.table import BOUNDED, COUNT, INTERVAL, LINE, Column, Page, Table, columns
from capeval.show.terminal import print_line
from capeval.stats.values import Coefficient
from capeval.text import Loss, counted, listed, one_line, shown

if TYPE_CHECKING:
    from capeval.runs.engine import Progress


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
    progress: Progress | None = python_only(None, method="update", shown=False)


@takes(FilterOptions)
async def annotate_filter_async(o: FilterOptions) -> Sequence[VideoRow]:
    """Measure the videos of a folder, and write a row for each into its `videos.jsonl`.

    No video is deleted. A row has `keep`, and `reasons` where that is false: unreadable,
    low-resolution, too-long, black, frozen, near-static, near-duplicate. A rerun decodes what is
    new or changed, and leaves a `keep` that was edited.

    Raises
    ------
    InputError
        The folder has no videos, or a line of its videos.jsonl is not valid.
    MissingExtra
        PyAV is not installed.
    """
    work = FilterWork(Path(o.folder), o.min_side, o.max_seconds)
    await execute(work, o.progress)
    return work.rows


annotate_filter = blocking(annotate_filter_async)


_LIMITS = {"low-resolution": " (--min-side)", "too-long": " (--max-seconds)"}


class FilteredVideos(Result):
    """How many videos are kept, and those that are not, each with its reasons."""

    screen: ClassVar = 40

    def __init__(self, rows: Sequence[VideoRow], file: Path) -> None:
        self._rows, self._file = rows, file

    def headline(self) -> str:
        rows = self._rows
        reasons = Counter(reason for row in rows if not row.keep for reason in row.reasons)
        if by_hand := sum(row.by_hand for row in rows):
            reasons["decided by hand"] = by_hand
        kept = f"{thousands(sum(row.keep for row in rows))} of {counted(len(rows), 'video')} kept"
        found = [
            f"{thousands(count)} {_spoken(reason)}{_LIMITS.get(reason, '')}"
            for reason, count in reasons.most_common()
        ]
        return f"{kept}; {', '.join(found)}." if found else f"{kept}."

    def pages(self, *, full: bool = False) -> list[Page]:  # noqa: ARG002
        table = Table(
            "Left out", columns(("Video", LINE), ("Why", LINE), "Size", "Seconds", words=2)
        )
        for row in self._rows:
            if not row.keep:
                size = f"{row.width}x{row.height}"
                table.rows.append([row.video, _why(row), size, tenths(row.seconds)])
        return [Page([table])] if table.rows else []

    def show(self, console: Console, *, full: bool = False) -> None:
        super().show(console, full=full)
        print_line(str(self._file), console)


def _spoken(reason: str) -> str:
    return reason.replace("-", " ")


def _why(row: VideoRow) -> str:
    if row.duplicate_of:
        return f"near duplicate of {row.duplicate_of}"
    return row.error or ", ".join(map(_spoken, row.reasons)) or "by hand"


@command("annotate filter", options=FilterOptions)
def filter_command(o: FilterOptions, _: Output) -> FilteredVideos:
    """Find the videos that are fit to be annotated: videos.jsonl. Nothing is deleted.

    Left out are videos that cannot be read, are too small, too long, black, frozen or near static,
    and near duplicates. Edit "keep" in videos.jsonl to decide otherwise. A rerun leaves what was
    edited, and decodes only what is new or changed.
    """
    return FilteredVideos(annotate_filter(**vars(o)), Path(o.folder) / VIDEO_LIST)


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
    (drafts,) = await finished(open_annotate_draft(o), o.progress)
    return drafts


annotate_draft = blocking(annotate_draft_async)


def open_annotate_draft(
    o: DraftOptions, *, offline: bool = False
) -> Opening[ConstructSession[dict[str, Draft]]]:
    """Read the videos and captions, and open the chat model."""
    folder = Path(o.folder)
    file, videos = folder / DRAFTS, load_video_list(folder)
    captions = captions_by_index(o.captions, videos, Path(o.runs), o.on_notice)
    given = {index for index, one in captions.items() if not one.is_empty}
    if lacking := [one.index for one in videos if one.index not in given]:
        what = f"{counted(len(lacking), 'video')} without a caption or with an empty one"
        o.on_notice(Loss(f"{what}, not drafted: {listed(lacking)}"))
    return open_construct(
        o,
        file,
        lambda chat: draft_items(videos, captions, chat.model),
        LABELS,
        lambda _, __: read_drafts(folder),
        lambda drafts: Lines([drafts_line([*drafts.values()])]),
        [str(file), f"Next: capeval annotate review {quote(str(folder))} --annotators NAMES"],
        offline=offline,
    )


def drafts_line(drafts: Sequence[Draft]) -> str:
    """Return how much was drafted."""
    events = counted(sum(len(one.events) for one in drafts), "event")
    elements = counted(sum(len(one.elements) for one in drafts), "element")
    return f"{counted(len(drafts), 'video')} drafted: {events}, {elements}."


@command("annotate draft", "yes", "dry_run", options=DraftOptions)
def draft_command(o: DraftOptions, output: Output) -> Opening[ConstructSession[dict[str, Draft]]]:
    """Draft annotations from captions, for annotators to correct: drafts.jsonl.

    A chat model divides each caption into events and states their visual elements. Run the same
    command again to resume.
    """
    return open_annotate_draft(o, offline=output.dry_run)


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


@command("annotate review")
@takes(ReviewOptions)
def annotate_review(o: ReviewOptions) -> ReviewFiles:
    """Write pages for annotators, who review offline in a browser.

    They review drafts, or decide where two of them differ.

    They are `review/NAME-1.html` and so on in the folder of the videos. With `differences` it is
    one page, for the annotator who decides; without a name, both decide together.

    Raises
    ------
    InputError, UsageError
        The drafts or exported files cannot be read, no annotator is named, or there are pages with
        other contents.
    """
    folder = Path(o.folder)
    pages = ReviewPages(folder, folder)
    if not o.differences:
        check_names("annotators", o.annotators)
        drafts = drafts_to_review(folder)
        overlap = round(CountOrShare.read(o.overlap, "--overlap").of(len(drafts)))
        items = [draft_item(one, pages.url) for one in drafts]
        return pages.shared_out("drafts", items, o.annotators, overlap=overlap, seed=o.seed)
    by_annotator: dict[str, dict[str, Draft]] = {}
    for _, draft in read_exports(map(Path, o.differences)):
        by_annotator.setdefault(str(draft.annotator), {})[draft.index] = draft
    if len(by_annotator) != 2:
        raise UsageError(f"--differences: needs two annotators, not {listed(by_annotator)}")
    deciders = [*o.annotators] or ["+".join(by_annotator)]
    if len(deciders) > 1:
        raise UsageError("--annotators: with --differences, name only who decides")
    first, second = by_annotator.values()
    # Videos that one annotator has not finished cannot be compared.
    open_ = {index for one in (first, second) for index, draft in one.items() if draft.open}
    if left := sorted(open_ & first.keys() & second.keys()):
        o.on_notice(f"{counted(len(left), 'video')} not finished by both, left out: {listed(left)}")
    first, second = ({i: d for i, d in one.items() if i not in open_} for one in (first, second))
    items = difference_items(first, second, pages.url)
    return pages.of_differences(items, deciders[0], [*by_annotator])


@declares
class AgreeOptions:
    """Whose annotations are compared: see `capeval.annotate_agree`."""

    files: Sequence[FilePath] = required(
        "Files that the review pages exported.", positional=True, metavar="FILE..."
    )


@takes(AgreeOptions)
def annotate_agree(o: AgreeOptions) -> list[AnnotatorAgreement]:
    """Compare annotators on the videos that two of them finished: all together, then each pair.

    Raises
    ------
    InputError, UsageError
        A file is not an export of a review page, or no video was finished by two annotators.
    """
    drafts = (draft for _, draft in read_exports(map(Path, o.files)))
    # One who decides between two annotators has seen both.
    found = annotation_agreement(one for one in drafts if not one.adjudicates)
    if not found:
        raise UsageError("no video was finished by two annotators; finish it, and export again")
    return found


# The headline and JSON have its interval, for which 80 columns have no room.
_ALPHA = replace(BOUNDED, after=lambda _: "")
_COLUMNS = [
    Column("Annotators", words=True, kind=LINE, key="annotators"),
    Column("videos", kind=COUNT),
    Column("event F1 [95%]", kind=INTERVAL, key="event_f1"),
    Column("element F1 [95%]", kind=INTERVAL, key="element_f1"),
    Column("matched", kind=COUNT),
    Column("type α", kind=_ALPHA, key="type_alpha"),
    Column("weight α", kind=_ALPHA, key="weight_alpha"),
]


class Agreements(Result):
    """How far annotators agree: all together, then each pair."""

    def __init__(self, found: Sequence[AnnotatorAgreement]) -> None:
        self._found = found

    def headline(self) -> str:
        found = self._found
        of = found[0]
        return (
            f"Event F1 {interval(of.events)}, element F1 {interval(of.elements)} "
            f"over {counted(of.videos, 'video')} of {listed(of.annotators)}; Krippendorff's alpha "
            f"of type {_alpha(of.type)}, of weight {_alpha(of.weight)} over "
            f"{counted(of.matched, 'matched element')}"
        )

    def pages(self, *, full: bool = False) -> list[Page]:  # noqa: ARG002
        together, *pairs = self._found
        note = (
            "F1 in percent, intervals over videos. matched: elements that both have; α: "
            "Krippendorff's over these, nominal for the type, ordinal for the weight."
        )
        table = Table("Agreement of annotators", _COLUMNS, note=note)
        named = [(" – ".join(one.annotators), one) for one in pairs]
        for name, one in [*named, ("all pairs", together)] if len(pairs) > 1 else named:
            values = (one.events, one.elements, one.matched, one.type, one.weight)
            table.rows.append([name, one.videos, *values])
        warnings = []
        if together.drafted:
            warnings.append(
                f"For {counted(together.drafted, 'video')} both started from a model's draft, so "
                "agreement is higher than by hand."
            )
        if together.unfinished:
            left = counted(together.unfinished, "video")
            warnings.append(f"Left out: {left} that one of two annotators has not finished.")
        return [Page([table], warnings=warnings)]


def _alpha(found: Coefficient) -> str:
    return bounded(found) + ("" if found.value is not None else f" ({found.reason})")


@command("annotate agree", "as_json", "form_or_csv", options=AgreeOptions)
def agree_command(o: AgreeOptions, _: Output) -> Agreements:
    """Compare annotators: F1 of events and elements, alpha of types and weights.

    Events are aligned in their order, and elements one to one, by the words that they share.
    """
    return Agreements(annotate_agree(**vars(o)))


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


@takes(MergeAnnotationsOptions)
def annotate_merge(o: MergeAnnotationsOptions) -> MergedAnnotations:
    """Merge the newest exports of all annotators into the folder's `annotations.json`.

    Raises
    ------
    InputError, UsageError
        A file is not an export of a review page or is about other videos, or no video is finished.
        Without `force` also: annotations.json was edited, or would lose confirmed videos.
    """
    folder, files = Path(o.folder), [Path(file) for file in o.files]
    target = folder / "annotations.json"
    check_output(target, files, option="FOLDER")
    known = {video.index for video in load_video_list(folder, kept=False)}
    kept = [video.index for video in load_video_list(folder)]
    drafts = read_exports(files)
    for file, draft in drafts:
        if draft.index not in known:
            message = f"is not a video of {folder / VIDEO_LIST}"
            raise InputError(message, file=file, where=f"index {shown(draft.index)}")
    merged = merge_drafts((draft for _, draft in drafts), kept)
    if not merged.annotations:
        index, reason = next(iter(merged.open.items()))
        raise UsageError(f"no video can be merged: {index}: {reason}")
    check_unedited(target, force=o.force)
    if target.exists() and not o.force:
        done = {one["index"] for one in merged.annotations}
        if lost := [one.index for one in load_annotations(target) if one.index not in done]:
            which = listed(f"{one} ({merged.open.get(one, 'not in videos.jsonl')})" for one in lost)
            what = f"{target} would lose {counted(len(lost), 'confirmed video')}: {which}"
            raise UsageError(f"{what}; add the files that confirm them, or --force")
    write_atomic(target, dumps(merged.annotations, indent=1) + "\n")
    seal(target)
    return merged


# Open videos or comments that fit on a screen; --full lists all.
_MOST_LINES = 10


@command("annotate merge", "full", options=MergeAnnotationsOptions)
def merge_command(o: MergeAnnotationsOptions, output: Output) -> Lines:
    """Merge what annotators confirmed into annotations.json.

    Videos that are unfinished, or on which annotators differ, are left out and listed.
    """
    found = annotate_merge(**vars(o))
    done, left = len(found.annotations), len(found.open)
    comments = counted(len(found.comments), "comment")
    total = counted(done + left, "video")
    lines = [f"{done:,} of {total} merged, {left:,} open; {comments}"]
    opened = [f"open: {index}: {why}" for index, why in found.open.items()]
    for part in (opened, found.comments):
        most = len(part) if output.full else _MOST_LINES
        lines += [f"  {one_line(line, 600)}" for line in part[:most]]
        if len(part) > most:
            lines.append(f"  {len(part) - most:,} more: --full")
    file = quote(str(Path(o.folder) / "annotations.json"))
    return Lines([*lines, f"{file}  Check it: capeval check {file}"])
