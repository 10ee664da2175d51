"""`capeval.annotate_agree` and `capeval.annotate_merge`: what annotators exported."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from capeval.construct.annotation_agreement import AnnotationAgreement, annotation_agreement
from capeval.construct.drafts import Draft, read_reviewed
from capeval.construct.merging import Merging, merge_drafts
from capeval.construct.options import AgreeOptions, MergeAnnotationsOptions
from capeval.errors import InputError, UsageError
from capeval.files.annotations import VIDEO_LIST, load_video_list
from capeval.files.jsonl import dumps, write_atomic
from capeval.options import takes
from capeval.runs.outputs import check_output
from capeval.text import shown


@dataclass(frozen=True)
class MergedAnnotations:
    """Annotations that were merged into `file`."""

    file: Path
    merging: Merging


@takes(AgreeOptions)
def annotate_agree(o: AgreeOptions) -> AnnotationAgreement:
    """Compare annotators on the videos that two of them finished.

    Raises
    ------
    InputError, UsageError
        A file is not an export of a review page, or no video was finished by two annotators.
    """
    drafts: dict[tuple[str, str | None], Draft] = {}
    for file in map(Path, o.files):
        for draft in read_reviewed(file):
            # One who decides between two annotators has seen both.
            if draft.adjudicates:
                continue
            if drafts.setdefault((draft.index, draft.annotator), draft) != draft:
                message = f"another file has a different version of {draft.annotator}"
                raise InputError(message, file=file, where=f"index {shown(draft.index)}")
    found = annotation_agreement(drafts.values())
    if found is None:
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
    known = {video.index for video in load_video_list(folder / VIDEO_LIST)}
    drafts: list[Draft] = []
    for file in files:
        for draft in read_reviewed(file):
            if draft.index not in known:
                message = f"is not a video that {folder / VIDEO_LIST} keeps"
                raise InputError(message, file=file, where=f"index {shown(draft.index)}")
            drafts.append(draft)
    merging = merge_drafts(drafts)
    if not merging.annotations:
        index, reason = next(iter(merging.open.items()), ("", "there are no videos in the files"))
        raise UsageError(f"no video can be merged: {index}: {reason}")
    text = dumps(merging.annotations, indent=1) + "\n"
    if target.is_file() and not o.force and target.read_bytes() != text.encode("utf-8"):
        raise UsageError(f"{target} exists with other contents; replace it with --force")
    write_atomic(target, text)
    return MergedAnnotations(target, merging)
