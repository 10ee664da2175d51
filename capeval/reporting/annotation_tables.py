"""The agreement of annotators, and what was merged, as tables and lines."""

from __future__ import annotations

from dataclasses import replace

from capeval.construct.annotation_agreement import Agreement, AnnotationAgreement, Measure
from capeval.reporting.numbers import bounded, interval
from capeval.reporting.table import BOUNDED, COUNT, INTERVAL, LINE, Page, Table, columns
from capeval.text import counted, listed

# The headline and JSON have its interval: with it, the table would not fit 80 columns.
_ALPHA = replace(BOUNDED, after=lambda _: "")


def agreement_headline(found: AnnotationAgreement) -> str:
    """Return how far all annotators agree, in a sentence."""
    of = found.overall
    return (
        f"Event F1 {interval(of.events)}, element F1 {interval(of.elements)} over "
        f"{counted(of.videos, 'video')} of {listed(of.annotators)}; Krippendorff's alpha of type "
        f"{_alpha(of.type)}, of weight {_alpha(of.weight)} over "
        f"{counted(of.matched, 'matched element')}"
    )


def agreement_page(found: AnnotationAgreement) -> Page:
    """Return the agreement of each pair of annotators, and of all."""
    table = Table(
        "Agreement of annotators",
        columns(
            ("Annotators", LINE),
            ("videos", COUNT),
            ("event F1 [95%]", INTERVAL),
            ("element F1 [95%]", INTERVAL),
            ("matched", COUNT),
            ("type α", _ALPHA),
            ("weight α", _ALPHA),
        ),
        [_row(" – ".join(pair.annotators), pair) for pair in found.pairs],
        note="F1 in percent. matched: elements that both have; α: Krippendorff's over these, "
        "nominal for the type and ordinal for the weight. Intervals are over videos.",
    )
    if len(found.pairs) > 1:
        table.rows.append(_row("all pairs", found.overall))
    drafted, notes = found.overall.same_draft, []
    if drafted:
        notes.append(
            f"Of {counted(drafted, 'video')} both annotators reviewed a model's draft: they agree "
            "more than annotators who write by hand."
        )
    if found.unfinished:
        each = (f"{name} {count:,}" for name, count in found.unfinished.items())
        notes.append(f"Unfinished videos are left out: {listed(each)}.")
    return Page([table], warnings=notes)


def _alpha(of: Measure) -> str:
    return bounded(of) if of.value is not None else f"{bounded(of)} ({of.reason})"


def _row(name: str, of: Agreement) -> list[object]:
    return [name, of.videos, of.events, of.elements, of.matched, of.type, of.weight]
