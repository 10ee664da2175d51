"""`capeval annotate agree`: how far annotators agree on events, elements, types and weights.

Texts are compared by the stems of their words, without function words, as the lexical judge does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from operator import attrgetter
from pathlib import Path

import numpy as np

from capeval.construct.drafts import Draft, DraftElement, DraftEvent, Place, read_exports
from capeval.errors import UsageError
from capeval.judging.lexical import content_words, relation
from capeval.options import FilePath, command, declares, required, takes
from capeval.schema import ELEMENT_TYPES
from capeval.show.numbers import bounded, interval
from capeval.show.result import Result
from capeval.show.table import BOUNDED, COUNT, INTERVAL, LINE, Column, Page, Row, Table
from capeval.stats.agreement import krippendorff_alpha
from capeval.stats.values import Coefficient, Floats
from capeval.stats.video_ratios import VideoRatios
from capeval.text import counted, listed

SAME = 0.4
"""The least similarity of two texts that state the same.

In TUNA's published example and the bundled sample, all pairs of events of one video have less, and
so have 99% of the pairs of elements of different videos.
"""


@dataclass(frozen=True)
class Alignment:
    """Pairs of a first and a second annotation; None where one of them has no counterpart.

    `events` are in order in both. `elements` are in the order of the first; elements that only the
    second has follow.
    """

    events: list[tuple[int | None, int | None]]
    elements: list[tuple[Place | None, Place | None]]


def align(first: Draft, second: Draft) -> Alignment:
    """Align the events of two annotations in their order, and their elements one to one.

    Elements are paired within matched events, and what is left then with elements of neighbouring
    events: who ends an event later than the other still states the same. Beyond a matched event,
    the same words are about another moment.
    """
    events = _in_order(_similarities(*([_text(e) for e in one.events] for one in (first, second))))
    matched = [(i, j) for i, j in events if i is not None and j is not None]
    places = [
        [(i, e) for i, event in enumerate(one.events) for e in range(len(event.visual_elements))]
        for one in (first, second)
    ]
    alike = _similarities(*([e.content for e in one.elements] for one in (first, second)))
    of = [np.array([i for i, _ in side], int) for side in places]
    together = np.zeros(alike.shape, bool)
    apart = np.zeros(alike.shape, bool)
    for i, j in matched:
        before, after = of[0][:, None] - i, of[1] - j
        together |= (before == 0) & (after == 0)
        apart |= before * after < 0
    pairs = _assigned(np.where(together, alike, 0.0))
    left = np.where(apart, 0.0, alike)
    left[[*pairs]] = 0.0
    left[:, [*pairs.values()]] = 0.0
    pairs |= _assigned(left)
    counterpart = {places[0][i]: places[1][j] for i, j in pairs.items()}
    found = {*counterpart.values()}
    return Alignment(
        events,
        [
            *((one, counterpart.get(one)) for one in places[0]),
            *((None, one) for one in places[1] if one not in found),
        ],
    )


def _text(event: DraftEvent) -> str:
    return " ".join([event.event, *(element.content for element in event.visual_elements)])


def _similarities(first: Sequence[str], second: Sequence[str]) -> Floats:
    """Return F1 of the content words of each pair of texts: (first, second)."""
    sides = [[content_words(text) for text in side] for side in (first, second)]
    found = np.zeros((len(first), len(second)))
    for i, one in enumerate(sides[0]):
        for j, other in enumerate(sides[1]):
            whole = len(one) + len(other)
            # The same text comes before another of the same words.
            alike = 0.999 * 2 * len(one & other) / whole if whole else 0.0
            found[i, j] = 1.0 if first[i] == second[j] else alike
    return found


def _in_order(alike: Floats) -> list[tuple[int | None, int | None]]:
    """Return the alignment with the greatest sum of similarities of at least `SAME`."""
    rows, columns = alike.shape
    best = np.zeros((rows + 1, columns + 1))
    for i in reversed(range(rows)):
        for j in reversed(range(columns)):
            paired = alike[i, j] + best[i + 1, j + 1] if alike[i, j] >= SAME else 0.0
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


def _assigned(alike: Floats) -> dict[int, int]:
    """Return the one-to-one pairs with the greatest sum of similarities of at least `SAME`."""
    from scipy.optimize import linear_sum_assignment

    allowed = np.where(alike >= SAME, alike, 0.0)
    rows, columns = linear_sum_assignment(allowed, maximize=True)
    return {int(i): int(j) for i, j in zip(rows, columns, strict=True) if allowed[i, j]}


Compared = tuple[Draft, Draft, Alignment]


@declares
class AgreeOptions:
    """The arguments of `capeval.annotate_agree`."""

    files: Sequence[FilePath] = required(
        "Files that the review pages exported.", positional=True, metavar="FILE..."
    )


@dataclass(frozen=True)
class AnnotatorAgreement:
    """How far two annotators agree, or all pairs of several, on the videos that both annotated.

    Attributes
    ----------
    drafted : of how many of the `videos` a model's draft was reviewed
    unfinished : videos that one of two annotators has not finished; they are left out
    events, elements : F1: matched ones, divided by half of those of both together; elements that
        contradict each other are not matched
    matched : the number of elements that both have
    type, weight : Krippendorff's alpha over the matched elements, nominal and ordinal
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
    """Return the drafts of each annotator by index."""
    found: dict[str, dict[str, Draft]] = {}
    for draft in drafts:
        found.setdefault(str(draft.annotator), {})[draft.index] = draft
    return found


def _agreements(drafts: Iterable[Draft]) -> list[AnnotatorAgreement]:
    """Return the agreement of all pairs of annotators together, then of each."""
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


def _agree(one: DraftElement, other: DraftElement) -> bool:
    """Return whether two elements do not contradict each other by the rules of the lexical judge.

    "The camera zooms in" and "zooms out" share most of their words, but they disagree.
    """
    return relation(content_words(one.content), [content_words(other.content)]) != "contradiction"


def _agreement(
    annotators: tuple[str, ...], compared: Sequence[Compared], unfinished: int
) -> AnnotatorAgreement:
    indexes, video = np.unique([one.index for one, _, _ in compared], return_inverse=True)
    upper, lower = np.zeros((2, len(indexes), 2))
    matched, of = [], []
    for at, (first, second, found) in zip(video, compared, strict=True):
        same = ((first.element(a), second.element(b)) for a, b in found.elements if a and b)
        pairs = [pair for pair in same if _agree(*pair)]
        upper[at] += sum(None not in pair for pair in found.events), len(pairs)
        # A matched pair is one observation, although F1 counts it for both sides.
        for one in (first, second):
            lower[at] += len(one.events) / 2, len(one.elements) / 2
        matched += pairs
        of += [at] * len(pairs)
    # An interval by resampled videos, which a perfect agreement has, too; the jackknife has none.
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


class Agreements(list[AnnotatorAgreement], Result):
    """How far annotators agree: all together, then each pair."""

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
            "F1 in percent, intervals over videos. matched: elements that both have; α: "
            "Krippendorff's over these, nominal for the type, ordinal for the weight."
        )
        rows = [(" – ".join(one.annotators), one) for one in pairs]
        rows += [("all pairs", together)] if len(pairs) > 1 else []
        values = attrgetter("videos", "events", "elements", "matched", "type", "weight")
        cells: list[Row] = [[name, *values(one)] for name, one in rows]
        table = Table("Agreement of annotators", _COLUMNS, cells, note)
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


@command("annotate agree", "as_json", "form_or_csv")
@takes(AgreeOptions)
def annotate_agree(o: AgreeOptions) -> Agreements:
    """Compare annotators: F1 of events and elements, alpha of types and weights.

    Events are aligned in their order, and elements one to one, by the words that they share.

    Raises
    ------
    InputError, UsageError
        A file is not an export of a review page, or no video was finished by two annotators.
    """
    drafts = (draft for _, draft in read_exports(map(Path, o.files)))
    # One who decides between two annotators has seen both.
    return Agreements(_agreements(one for one in drafts if not one.adjudicates))
