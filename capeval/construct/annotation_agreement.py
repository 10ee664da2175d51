"""`capeval annotate agree`: how far annotators agree on events, elements, types and weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from capeval.construct.alignment import Alignment, align
from capeval.construct.drafts import Draft, DraftElement, read_exports
from capeval.errors import UsageError
from capeval.judging.lexical import content_words, relation
from capeval.options import FilePath, command, declares, required, takes
from capeval.schema import ELEMENT_TYPES
from capeval.show.numbers import bounded, interval
from capeval.show.output import Output
from capeval.show.result import Result
from capeval.show.table import BOUNDED, COUNT, INTERVAL, LINE, Column, Page, Table
from capeval.stats.agreement import krippendorff_alpha
from capeval.stats.values import Coefficient
from capeval.stats.video_ratios import VideoRatios
from capeval.text import counted, listed

Compared = tuple[Draft, Draft, Alignment]
Pair = tuple[DraftElement, DraftElement]


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


def annotation_agreement(drafts: Iterable[Draft]) -> list[AnnotatorAgreement]:
    """Return the agreement of all pairs of annotators together, then of each.

    It is empty if no two annotators finished the same video.
    """
    by: dict[str, dict[str, Draft]] = {}
    for draft in drafts:
        by.setdefault(str(draft.annotator), {})[draft.index] = draft
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
        return []
    everyone = tuple(sorted({name for names in found for name in names}))
    together = [one for compared in found.values() for one in compared]
    pairs = [_agreement(names, of, unfinished[names]) for names, of in found.items()]
    return [_agreement(everyone, together, unfinished.total()), *pairs]


def _consistent(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs that do not contradict each other by the rules of the lexical judge.

    "The camera zooms in" and "zooms out" share most of their words, but they disagree.
    """
    return [
        (one, other)
        for one, other in pairs
        if relation(content_words(one.content), [content_words(other.content)]) != "contradiction"
    ]


def _agreement(
    annotators: tuple[str, ...], compared: Sequence[Compared], unfinished: int
) -> AnnotatorAgreement:
    indexes, video = np.unique([one.index for one, _, _ in compared], return_inverse=True)
    upper, lower = np.zeros((2, len(indexes), 2))
    matched, of = [], []
    for at, (first, second, found) in zip(video, compared, strict=True):
        pairs = [
            (first.element(one), second.element(other))
            for one, other in found.elements
            if one and other
        ]
        pairs = _consistent(pairs)
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
