"""The agreement of annotators, as a table and in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from capeval.construct.annotation_agreement import AnnotatorAgreement
from capeval.correlation.result import Coefficient
from capeval.reporting.numbers import bounded, interval
from capeval.reporting.table import BOUNDED, COUNT, INTERVAL, LINE, Column, Page, Table
from capeval.stats.agreement import Estimate
from capeval.text import counted, listed

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


def agreement_headline(found: Sequence[AnnotatorAgreement]) -> str:
    """Return how far all annotators agree, in a sentence."""
    of = found[0]
    return (
        f"Event F1 {interval(_shown(of.events))}, element F1 {interval(_shown(of.elements))} over "
        f"{counted(of.videos, 'video')} of {listed(of.annotators)}; Krippendorff's alpha of type "
        f"{_alpha(of.type)}, of weight {_alpha(of.weight)} over "
        f"{counted(of.matched, 'matched element')}"
    )


def agreement_page(found: Sequence[AnnotatorAgreement]) -> Page:
    """Return the agreement of each pair of annotators, and of all."""
    together, *pairs = found
    note = (
        "F1 in percent, intervals over videos. matched: elements that both have; α: Krippendorff's "
        "over these, nominal for the type, ordinal for the weight."
    )
    table = Table("Agreement of annotators", _COLUMNS, note=note)
    named = [(" – ".join(one.annotators), one) for one in pairs]
    for name, one in [*named, ("all pairs", together)] if len(pairs) > 1 else named:
        values = map(_shown, (one.events, one.elements, one.type, one.weight))
        events, elements, of_type, weight = values
        table.rows.append([name, one.videos, events, elements, one.matched, of_type, weight])
    warnings = []
    if together.drafted:
        warnings.append(
            f"Of {counted(together.drafted, 'video')} the annotators reviewed a model's draft: "
            "they agree more than annotators who write by hand."
        )
    if together.unfinished:
        left = counted(together.unfinished, "video")
        warnings.append(f"Left out: {left} that one of two annotators has not finished.")
    return Page([table], warnings=warnings)


def _shown(found: Estimate) -> Coefficient:
    return Coefficient.of(found.value, found.interval)


def _alpha(found: Estimate) -> str:
    one = _shown(found)
    return bounded(one) if one.value is not None else f"{bounded(one)} ({one.reason})"
