"""`capeval annotate agree` and `merge`: compare and merge the annotators' exported files.

Texts are compared by the stems of their words, without function words, as the lexical judge does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from operator import attrgetter
from pathlib import Path
from shlex import quote
from typing import Any, ClassVar

import numpy as np

from capeval.construct.asked_items import check_unedited, seal
from capeval.construct.drafts import Draft, Place
from capeval.errors import InputError, UsageError
from capeval.files.annotations import VIDEO_LIST, load_annotations, load_video_list
from capeval.files.jsonl import check_output, dumps, parse_json, read_text, validated, write_atomic
from capeval.judging.lexical import content_words, relation
from capeval.options import FilePath, command, declares, required, takes
from capeval.schema import CHARACTERISTICS, ELEMENT_TYPES
from capeval.show.numbers import bounded, interval
from capeval.show.result import Result
from capeval.show.table import (
    BOUNDED,
    COUNT,
    INTERVAL,
    LINE,
    Column,
    Page,
    Row,
    Table,
    columns,
)
from capeval.stats.agreement import krippendorff_alpha
from capeval.stats.values import Coefficient, Floats
from capeval.stats.video_ratios import VideoRatios
from capeval.text import counted, listed, shown


def read_exports(files: Iterable[Path]) -> list[Draft]:
    """Return each annotator's newest version of each video; raises `InputError`."""
    newest: dict[tuple[str, str, bool], Draft] = {}
    for file in files:
        value = parse_json(read_text(file), file=file)
        if not isinstance(value, list):
            raise InputError("must be the JSON that a review page exports", file=file)
        for number, one in enumerate(value, start=1):
            draft = validated(Draft, one, file=file, where=f"video {number}")
            if draft.annotator is None or not draft.exported:
                message = "has no annotator or time; export it again"
                raise InputError(message, file=file, where=f"index {shown(draft.index)}")
            key = (draft.index, draft.annotator, bool(draft.adjudicates))
            if draft.exported >= newest.setdefault(key, draft).exported:
                newest[key] = draft
    return [*newest.values()]


# ---- Agreement -----------------------------------------------------------------------------------

# The least similarity of two texts with the same meaning. In TUNA's published example and the
# bundled sample, all pairs of events of one video are less similar, and so are 99% of the pairs of
# elements of different videos.
_SAME = 0.4
# Pairs of elements in matched events come before all pairs in neighbouring events.
_TOGETHER = 1000


@dataclass(frozen=True)
class Alignment:
    """Pairs of events and elements of two annotations; None for a missing counterpart.

    `events` are in order in both. `elements` are in the order of the first; elements of the second
    annotation alone follow.
    """

    events: list[tuple[int | None, int | None]]
    elements: list[tuple[Place | None, Place | None]]


def align(first: Draft, second: Draft) -> Alignment:
    """Align the events of two annotations in their order, and their elements one to one.

    Elements are paired within matched events, and the others with elements of neighbouring events:
    annotators may end the same event at different moments. Beyond a matched event, the same words
    describe another moment.
    """
    from scipy.optimize import linear_sum_assignment

    both = (first, second)
    texts = (
        [" ".join([e.event, *(part.content for part in e.visual_elements)]) for e in one.events]
        for one in both
    )
    events = _in_order(_similarities(*texts))
    places = [
        [(i, e) for i, event in enumerate(one.events) for e in range(len(event.visual_elements))]
        for one in both
    ]
    alike = _similarities(*([e.content for e in one.elements] for one in both))
    weights = np.where(alike >= _SAME, alike, 0.0)
    of = [np.array([i for i, _ in side], int) for side in places]
    for i, j in events:
        if i is not None and j is not None:
            before, after = of[0][:, None] - i, of[1] - j
            weights[(before == 0) & (after == 0)] *= _TOGETHER
            weights[before * after < 0] = 0.0
    pairs = zip(*linear_sum_assignment(weights, maximize=True), strict=True)
    counterpart = {places[0][i]: places[1][j] for i, j in pairs if weights[i, j]}
    found = {*counterpart.values()}
    elements: list[tuple[Place | None, Place | None]] = [
        (one, counterpart.get(one)) for one in places[0]
    ]
    return Alignment(events, [*elements, *((None, one) for one in places[1] if one not in found)])


def _similarities(first: Sequence[str], second: Sequence[str]) -> Floats:
    """Return the F1 of the content words of each pair of texts: (first, second)."""
    sides = [[content_words(text) for text in side] for side in (first, second)]
    found = np.zeros((len(first), len(second)))
    for i, one in enumerate(sides[0]):
        for j, other in enumerate(sides[1]):
            whole = len(one) + len(other)
            # An equal text comes before another with the same words.
            alike = 0.999 * 2 * len(one & other) / whole if whole else 0.0
            found[i, j] = 1.0 if first[i] == second[j] else alike
    return found


def _in_order(alike: Floats) -> list[tuple[int | None, int | None]]:
    """Return the alignment with the greatest sum of similarities of at least `_SAME`."""
    rows, columns = alike.shape
    best = np.zeros((rows + 1, columns + 1))
    for i in reversed(range(rows)):
        for j in reversed(range(columns)):
            paired = alike[i, j] + best[i + 1, j + 1] if alike[i, j] >= _SAME else 0.0
            best[i, j] = max(best[i + 1, j], best[i, j + 1], paired)
    found: list[tuple[int | None, int | None]] = []
    i = j = 0
    while i < rows and j < columns:
        if best[i, j] == best[i + 1, j]:
            found.append((i, None))
            i += 1
        elif best[i, j] == best[i, j + 1]:
            found.append((None, j))
            j += 1
        else:
            found.append((i, j))
            i, j = i + 1, j + 1
    return [*found, *((n, None) for n in range(i, rows)), *((None, n) for n in range(j, columns))]


Compared = tuple[Draft, Draft, Alignment]


@declares
class AgreeOptions:
    """The arguments of `capeval.annotate_agree`."""

    files: Sequence[FilePath] = required(
        "Files that the review pages exported.", positional=True, metavar="FILE..."
    )


@dataclass(frozen=True)
class AnnotatorAgreement:
    """Agreement of two annotators, or of all pairs, on the videos that both finished.

    `events` and `elements` are F1; contradicting elements are not matched. `type` and `weight` are
    Krippendorff's alpha over the matched elements, nominal and ordinal. `drafted` videos began with
    a model's draft; `unfinished` ones are left out.
    """

    annotators: tuple[str, ...]
    videos: int
    drafted: int
    unfinished: int
    events: Coefficient
    elements: Coefficient
    matched: int
    type: Coefficient
    weight: Coefficient


def by_annotators(drafts: Iterable[Draft]) -> dict[str, dict[str, Draft]]:
    found: dict[str, dict[str, Draft]] = {}
    for draft in drafts:
        found.setdefault(str(draft.annotator), {})[draft.index] = draft
    return found


def _agreements(drafts: Iterable[Draft]) -> list[AnnotatorAgreement]:
    by = by_annotators(drafts)
    found: dict[tuple[str, ...], list[Compared]] = {}
    unfinished = Counter[tuple[str, ...]]()
    for names in combinations(sorted(by), 2):
        first, second = (by[name] for name in names)
        for index in sorted(first.keys() & second.keys()):
            one, other = first[index], second[index]
            if one.open or other.open:
                unfinished[names] += 1
            else:
                found.setdefault(names, []).append((one, other, align(one, other)))
    if not found:
        raise UsageError("no video was finished by two annotators; finish it, and export again")
    everyone = tuple(sorted({name for names in found for name in names}))
    together = [one for compared in found.values() for one in compared]
    pairs = [_agreement(names, of, unfinished[names]) for names, of in found.items()]
    return [_agreement(everyone, together, unfinished.total()), *pairs]


def _agreement(
    annotators: tuple[str, ...], compared: Sequence[Compared], unfinished: int
) -> AnnotatorAgreement:
    indexes, video = np.unique([one.index for one, _, _ in compared], return_inverse=True)
    upper, lower = np.zeros((2, len(indexes), 2))
    matched, of = [], []
    for at, (first, second, found) in zip(video, compared, strict=True):
        pairs = []
        for a, b in found.elements:
            if a and b:
                mine, theirs = first.element(a), second.element(b)
                # "Zooms in" and "zooms out" share most of their words.
                own, other = content_words(mine.content), content_words(theirs.content)
                if relation(own, [other]) != "contradiction":
                    pairs.append((mine, theirs))
        upper[at] += sum(None not in pair for pair in found.events), len(pairs)
        # A matched pair is one observation, although F1 counts it for both sides.
        for one in (first, second):
            lower[at] += len(one.events) / 2, len(one.elements) / 2
        matched += pairs
        of += [at] * len(pairs)
    # Resampling videos gives an interval for perfect agreement, too; the jackknife does not.
    ratios = VideoRatios(upper, lower)
    shares = upper.sum(axis=0) / lower.sum(axis=0)
    events, elements = (Coefficient.of(float(shares[at]), ratios.share(at)) for at in (0, 1))
    codes = np.array(
        [[(ELEMENT_TYPES.index(e.type), e.weight) for e in pair] for pair in matched], float
    ).reshape(-1, 2, 2)
    return AnnotatorAgreement(
        annotators=annotators,
        videos=len(indexes),
        drafted=len({one.index for one, _, _ in compared if one.drafted_by}),
        unfinished=unfinished,
        events=events,
        elements=elements,
        matched=len(matched),
        type=krippendorff_alpha(codes[:, :, 0].T, np.array(of, int), "nominal"),
        weight=krippendorff_alpha(codes[:, :, 1].T, np.array(of, int), "ordinal"),
    )


# The headline and JSON have the interval; 80 columns have no room for it.
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


class Agreements(list[AnnotatorAgreement], Result):
    """The annotators' agreement: overall, then by pair."""

    def headline(self) -> str:
        of = self[0]
        return (
            f"Event F1 {interval(of.events)}, element F1 {interval(of.elements)} "
            f"over {counted(of.videos, 'video')} of {listed(of.annotators)}; Krippendorff's alpha "
            f"of type {_alpha(of.type)}, of weight {_alpha(of.weight)} over "
            f"{counted(of.matched, 'matched element')}"
        )

    def pages(self, *, full: bool = False) -> list[Page]:
        together, *pairs = self
        note = (
            "F1 in percent, intervals over videos. matched: elements of both; α: Krippendorff's "
            "over these, nominal for the type, ordinal for the weight."
        )
        rows = [(" – ".join(one.annotators), one) for one in pairs]
        rows += [("all pairs", together)] if len(pairs) > 1 else []
        values = attrgetter("videos", "events", "elements", "matched", "type", "weight")
        cells: list[Row] = [[name, *values(one)] for name, one in rows]
        table = Table("Agreement of annotators", _COLUMNS, cells, note)
        warnings = []
        if together.drafted:
            drafted = counted(together.drafted, "video")
            what = f"For {drafted} both started from a model's draft"
            warnings.append(f"{what}, so agreement is higher than by hand.")
        if together.unfinished:
            left = counted(together.unfinished, "video")
            warnings.append(f"Left out: {left} that one of two annotators has not finished.")
        return [Page([table], warnings=warnings)]


def _alpha(found: Coefficient) -> str:
    return bounded(found) + ("" if found.value is not None else f" ({found.reason})")


@command("annotate agree", "as_json")
@takes(AgreeOptions)
def annotate_agree(o: AgreeOptions) -> Agreements:
    """Compare annotators: F1 of events and elements, Krippendorff's alpha of types and weights.

    Events are aligned in their order, and elements one to one, by the words that they share.

    Raises
    ------
    InputError, UsageError
        A file is not an export of a review page, or no video was finished by two annotators.
    """
    drafts = read_exports(map(Path, o.files))
    # An adjudicator has seen both versions.
    return Agreements(_agreements(one for one in drafts if not one.adjudicates))


# ---- Merging -------------------------------------------------------------------------------------

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
    """

    folder: FilePath = required("The folder of the videos.", positional=True, metavar="FOLDER")
    files: Sequence[FilePath] = required(positional=True, metavar="FILE...")


@dataclass(frozen=True)
class MergedAnnotations(Result):
    """Annotations in TUNA's layout, and the annotators' comments.

    `open` says by index why other videos have no annotation; `file` has the annotations.
    """

    screen: ClassVar = 30

    annotations: tuple[Mapping[str, Any], ...]
    open: Mapping[str, str]
    comments: tuple[str, ...]
    file: Path

    def headline(self) -> str:
        done, left = len(self.annotations), len(self.open)
        comments = counted(len(self.comments), "comment")
        return f"{done:,} of {counted(done + left, 'video')} merged, {left:,} open; {comments}"

    def pages(self, *, full: bool = False) -> list[Page]:
        heads = columns(("Video", LINE), ("Open", LINE), words=2)
        left = Table("", heads, [[index, why] for index, why in self.open.items()])
        said = Table("", columns(("Comment", LINE), words=1), [[one] for one in self.comments])
        file = quote(str(self.file))
        notes = [f"Next: capeval check {file}"]
        return [Page([table for table in (left, said) if table.rows], notes=notes)]


def _merged(drafts: Iterable[Draft], videos: Collection[str], file: Path) -> MergedAnnotations:
    versions: dict[str, list[Draft]] = {}
    for draft in sorted(drafts, key=lambda one: (one.index, str(one.annotator))):
        versions.setdefault(draft.index, []).append(draft)
    annotations, left = [], dict[str, str]()
    for index, given in versions.items():
        chosen = [one for one in given if one.adjudicates] or given
        if reason := _why_open(chosen) if index in videos else f"not kept in {VIDEO_LIST}":
            left[index] = reason
        else:
            annotations.append(_annotation(chosen))
    left |= {index: "not in any file" for index in videos if index not in versions}
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
    return f"missing from the exports of {' and '.join(missing)}" if missing else ""


def _claims(draft: Draft) -> tuple[Any, ...]:
    """Return the claims of an annotation, without their sources, times and order in an event."""
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
    """Merge the annotators' confirmed annotations into annotations.json.

    Videos that are unfinished, or on which annotators differ, are left out and listed.

    Raises
    ------
    InputError, UsageError
        A file is not an export of a review page, no video of the folder is finished, or
        annotations.json was edited or would lose confirmed videos.
    """
    folder, files = Path(o.folder), [Path(file) for file in o.files]
    target = folder / "annotations.json"
    check_output(target, files, option="FOLDER")
    kept = [video.index for video in load_video_list(folder)]
    merged = _merged(read_exports(files), kept, target)
    if not merged.annotations:
        index, reason = next(iter(merged.open.items()))
        raise UsageError(f"no video can be merged: {index}: {reason}")
    check_unedited(target)
    if target.exists():
        done = {one["index"] for one in merged.annotations}
        if lost := [one.index for one in load_annotations(target) if one.index not in done]:
            which = listed(f"{one} ({merged.open.get(one, 'not in videos.jsonl')})" for one in lost)
            what = f"{target} would lose {counted(len(lost), 'confirmed video')}: {which}"
            raise UsageError(f"{what}; add the files that confirm them, or rename {target.name}")
    write_atomic(target, dumps(merged.annotations, indent=1) + "\n")
    seal(target)
    return merged
