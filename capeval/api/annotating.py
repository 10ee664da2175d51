"""`capeval.annotate_*`: from a folder of videos to annotations, in the order of the work."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager as Opening
from pathlib import Path
from shlex import quote

from capeval.api.construct_session import ConstructSession, open_construct
from capeval.construct.annotation_agreement import AnnotatorAgreement, annotation_agreement
from capeval.construct.annotation_drafting import LABELS, captions_by_index, draft_items
from capeval.construct.annotation_merging import MergedAnnotations, merge_drafts
from capeval.construct.drafts import DRAFTS, Draft, check_unedited, read_drafts, read_exports, seal
from capeval.construct.options import (
    AgreeOptions,
    DraftOptions,
    FilterOptions,
    MergeAnnotationsOptions,
    ReviewOptions,
)
from capeval.construct.review import (
    ReviewFiles,
    ReviewPages,
    check_names,
    difference_items,
    draft_item,
    drafts_to_review,
)
from capeval.construct.video_filter import FilterWork, VideoRow
from capeval.errors import InputError, UsageError
from capeval.files.annotations import VIDEO_LIST, load_annotations, load_video_list
from capeval.files.jsonl import dumps, write_atomic
from capeval.files.outputs import check_output
from capeval.options import CountOrShare, takes
from capeval.runs.engine import execute
from capeval.runs.long_work import finished
from capeval.runs.sync_async import blocking
from capeval.text import Loss, counted, listed, shown


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
        [str(file), f"Next: capeval annotate review {quote(str(folder))} --annotators NAMES"],
        offline=offline,
    )


@takes(ReviewOptions)
def annotate_review(o: ReviewOptions) -> ReviewFiles:
    """Write the pages on which annotators review drafts, or decide where two of them differ.

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
