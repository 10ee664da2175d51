"""Scores calibrated with labels, beside those of the judge alone."""

from __future__ import annotations

from rich.console import Console

from capeval.scoring import GROUPS, MEASURES, Signature
from capeval.show.formats import Format, rendered
from capeval.show.numbers import NOTHING, interval, percent, share
from capeval.show.table import INTERVAL, PERCENT, SHARE, Page, Table, columns
from capeval.show.terminal import print_line, print_pages
from capeval.text import one_line
from capeval.trust.calibrated import Calibrated, CalibratedEstimate

_NOTE = (
    "Labels alone: the labelled videos without the judge. The labelled videos must be a random "
    "sample of those judged."
)


def print_calibrated(found: Calibrated, console: Console, *, form: Format = "table") -> None:
    """Print the headline and the table."""
    page = _page(found)
    if form == "table":
        print_pages([page], console, headline=_headline(found))
    else:
        print_line(rendered([page], form), console)


def _headline(found: Calibrated) -> str:
    """Return the calibrated score and the judge's own in a sentence."""
    measure = _measure(found)
    one: CalibratedEstimate = getattr(found.overall.all, measure)
    judge = one_line(Signature.parse(found.signature).get("judge") or "an unknown judge")
    return (
        f"{one_line(found.run)}: {_name(measure)} {interval(one)} calibrated with {_labels(found)} "
        f"of {share(one.labelled, one.n)} videos; {percent(one.judge)} by {judge} alone."
    )


def _page(found: Calibrated) -> Page:
    table = Table(
        f"{one_line(found.run)}, calibrated with {_labels(found)}, %",
        columns(
            *("Elements", "Measure", ("Labelled", SHARE), ("Judge", PERCENT)),
            *(("Calibrated [95%]", INTERVAL), ("Labels alone [95%]", INTERVAL)),
            words=2,
        ),
    )
    reasons: dict[str, None] = {}
    for group in GROUPS:
        for measure in MEASURES:
            one: CalibratedEstimate = getattr(getattr(found.overall, group), measure)
            row = [group, _name(measure), (one.labelled, one.n), one.judge, one, one.labels_alone]
            table.rows.append(row)
            reasons |= {one.reason: None} if one.reason else {}
    why = f"[{NOTHING}]: no interval, as {'; '.join(reasons)}. " if reasons else ""
    table.note = why + _NOTE
    return Page(
        [table],
        warnings=[one_line(line) for line in found.warnings],
        signatures=[one_line(found.signature, 600)],
    )


def _labels(found: Calibrated) -> str:
    origin = found.labels.origin
    return "human labels" if origin == "human" else f"labels by {one_line(origin.judge)}"


def _measure(found: Calibrated) -> str:
    """Return the measure that is shown first: F1, or recall where labels give nothing else."""
    return "recall" if found.labels.scale == "binary" else "f1"


def _name(measure: str) -> str:
    return "F1" if measure == "f1" else measure
