"""`capeval.annotate_agree` and `capeval.annotate_merge`: what annotators exported."""

from __future__ import annotations

from pathlib import Path

from capeval.construct.annotation_agreement import AnnotatorAgreement, annotation_agreement
from capeval.construct.drafts import Draft, read_reviewed
from capeval.construct.merging import MergedAnnotations, merge_drafts
from capeval.construct.options import AgreeOptions, MergeAnnotationsOptions
from capeval.errors import InputError, UsageError
from capeval.files.annotations import VIDEO_LIST, load_video_list
from capeval.files.jsonl import dumps, write_atomic
from capeval.options import takes
from capeval.runs.outputs import check_output
from capeval.text import shown


@takes(AgreeOptions)
def annotate_agree(o: AgreeOptions) -> list[AnnotatorAgreement]:
    """Compare annotators on the videos that two of them finished: all together, then each pair.

    Raises
    ------
    InputError, UsageError
        A file is not an export of a review page, or no video was finished by two annotators.
    """
    drafts: dict[tuple[str, str | None], Draft] = {}
    for file in map(Path, o.files):
        for draft in read_reviewed(file):
            if drafts.setdefault((draft.index, draft.annotator), draft) != draft:
                message = f"another file has a different version of {draft.annotator}"
                raise InputError(message, file=file, where=f"index {shown(draft.index)}")
    # One who decides between two annotators has seen both.
    found = annotation_agreement(one for one in drafts.values() if not one.adjudicates)
    if not found:
        raise UsageError("no video was finished by two annotators; finish it, and export again")
    return found


@takes(MergeAnnotationsOptions)
def annotate_merge(o: MergeAnnotationsOptions) -> MergedAnnotations:
    """Merge what annotators confirmed into the folder's `annotations.json`.

    Raises
    ------
    InputError, UsageError
        A file is not an export of a review page or is about other videos, no video is finished, or
        annotations.json has other contents.
    """
    folder, files = Path(o.folder), [Path(file) for file in o.files]
    target = folder / "annotations.json"
    check_output(target, files, option="FOLDER")
    known = {video.index for video in load_video_list(folder)}
    drafts = [(file, draft) for file in files for draft in read_reviewed(file)]
    for file, draft in drafts:
        if draft.index not in known:
            message = f"is not a video that {folder / VIDEO_LIST} keeps"
            raise InputError(message, file=file, where=f"index {shown(draft.index)}")
    merged = merge_drafts(draft for _, draft in drafts)
    if not merged.annotations:
        index, reason = next(iter(merged.open.items()), ("", "the files have no videos"))
        raise UsageError(f"no video can be merged: {index}: {reason}")
    text = dumps(merged.annotations, indent=1) + "\n"
    if target.is_file() and not o.force and target.read_bytes() != text.encode("utf-8"):
        raise UsageError(f"{target} exists with other contents; replace it with --force")
    write_atomic(target, text)
    return merged
