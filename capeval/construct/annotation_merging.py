"""`capeval annotate merge`: what annotators confirmed becomes one set; what is open is left out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from rich.console import Console

from capeval.construct.drafts import Draft, check_unedited, read_exports, seal
from capeval.errors import InputError, UsageError
from capeval.files.annotations import VIDEO_LIST, load_annotations, load_video_list
from capeval.files.jsonl import dumps, write_atomic
from capeval.files.outputs import check_output
from capeval.options import OUTPUT, FilePath, command, declares, option, required, takes
from capeval.schema import CHARACTERISTICS
from capeval.show.formats import print_line
from capeval.show.result import Result
from capeval.text import counted, listed, one_line, shown

# Open videos or comments that fit on a screen; --full lists all.
_MOST_LINES = 10

_NOT_WRITTEN: Any = {
    **dict.fromkeys(("annotator", "reviewers", "exported", "adjudicates", "comment"), True),
    "events": {"__all__": {"visual_elements": {"__all__": {"other"}}}},
}


@declares
class MergeAnnotationsOptions:
    """The arguments of `capeval.annotate_merge`.

    Parameters
    ----------
    files : Files that the review pages exported.
    force : Replace annotations.json although videos are dropped or it was edited.
    """

    folder: FilePath = required("The folder of the videos.", positional=True, metavar="FOLDER")
    files: Sequence[FilePath] = required(positional=True, metavar="FILE...")
    _: KW_ONLY
    force: bool = option(False, panel=OUTPUT)


@dataclass(frozen=True)
class MergedAnnotations(Result):
    """Annotations in TUNA's layout, why other videos have none, and the annotators' comments.

    `file` is where the annotations are.
    """

    annotations: tuple[Mapping[str, Any], ...]
    open: Mapping[str, str]
    comments: tuple[str, ...]
    file: Path

    def headline(self) -> str:
        done, left = len(self.annotations), len(self.open)
        comments = counted(len(self.comments), "comment")
        return f"{done:,} of {counted(done + left, 'video')} merged, {left:,} open; {comments}"

    def show(self, console: Console, *, full: bool = False) -> None:
        print_line(self.headline(), console)
        for lines in ([f"open: {index}: {why}" for index, why in self.open.items()], self.comments):
            most = len(lines) if full else _MOST_LINES
            for line in lines[:most]:
                print_line(f"  {one_line(line, 600)}", console)
            if len(lines) > most:
                print_line(f"  {len(lines) - most:,} more: --full", console)
        file = quote(str(self.file))
        print_line(f"{file}  Check it: capeval check {file}", console)


def _merged(drafts: Iterable[Draft], videos: Collection[str], file: Path) -> MergedAnnotations:
    """Merge the annotations of each video, in the order of the indexes.

    All annotators of a video must agree. Where they do not, the adjudicator's version counts.
    `drafts` has one version of each annotator; `videos` are the indexes of the kept videos.
    """
    versions: dict[str, list[Draft]] = {}
    for draft in sorted(drafts, key=lambda one: (one.index, str(one.annotator))):
        versions.setdefault(draft.index, []).append(draft)
    annotations, left = [], dict[str, str]()
    for index, given in versions.items():
        chosen = [one for one in given if one.adjudicates] or given
        if reason := _why_open(chosen) if index in videos else "keep is false":
            left[index] = reason
        else:
            annotations.append(_annotation(chosen))
    left |= {index: "no file has it" for index in videos if index not in versions}
    comments = tuple(
        f"{index}: {one.annotator}: {one.comment}"
        for index, given in versions.items()
        for one in given
        if one.comment.strip()
    )
    return MergedAnnotations(tuple(annotations), left, comments, file)


def _why_open(versions: Sequence[Draft]) -> str:
    if unfinished := [f"{one.annotator}: {listed(one.open)}" for one in versions if one.open]:
        return "; ".join(unfinished)
    differing = {_claims(one): str(one.annotator) for one in versions}
    if len(differing) > 1:
        names = sorted(differing.values())
        return f"{' and '.join(names)} differ: capeval annotate review --differences"
    needed = {name for one in versions if not one.adjudicates for name in one.reviewers}
    missing = sorted(needed.difference(one.annotator for one in versions))
    return f"no file of {' and '.join(missing)} has it" if missing else ""


def _claims(draft: Draft) -> tuple[Any, ...]:
    """Return what an annotation states: not who stated it, nor at which frame an event begins."""
    # The order of the elements of an event states nothing.
    events = ((one.event, sorted(e.claim for e in one.visual_elements)) for one in draft.events)
    held = frozenset(draft.visual_characteristic)
    return held, draft.domain, tuple((sentence, *elements) for sentence, elements in events)


def _annotation(versions: Sequence[Draft]) -> dict[str, Any]:
    first, *_ = versions
    value = first.model_dump(exclude=_NOT_WRITTEN, exclude_none=True)
    held = value["visual_characteristic"]
    value["visual_characteristic"] = ",".join(one for one in CHARACTERISTICS if one in held)
    value["drafted_by"] = sorted({name for one in versions for name in one.drafted_by})
    names = {name for one in versions for name in (*one.adjudicates, str(one.annotator))}
    value["annotators"] = sorted(names)
    for number, event in enumerate(value["events"]):
        same = [e for one in versions for e in one.events[number].visual_elements]
        for element in event["visual_elements"]:
            claim = tuple(element[name] for name in ("content", "type", "weight"))
            names = {name for one in same if one.claim == claim for name in one.confirmed_by}
            element["confirmed_by"] = sorted(names)
    return value


@command("annotate merge", "full")
@takes(MergeAnnotationsOptions)
def annotate_merge(o: MergeAnnotationsOptions) -> MergedAnnotations:
    """Merge what annotators confirmed into annotations.json.

    Videos that are unfinished, or on which annotators differ, are left out and listed.

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
    merged = _merged((draft for _, draft in drafts), kept, target)
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
