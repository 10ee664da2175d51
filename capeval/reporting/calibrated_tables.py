"""Scores calibrated with labels, beside those of the judge alone."""

from __future__ import annotations

from rich.console import Console

from capeval.reporting.formats import Format, rendered
from capeval.reporting.numbers import NOTHING, interval, percent, share
from capeval.reporting.table import INTERVAL, PERCENT, SHARE, Kind, Page, Table, columns
from capeval.reporting.terminal import print_line, print_pages
from capeval.scoring import GROUPS, MEASURES, Signature
from capeval.text import one_line
from capeval.trust.calibrated import Calibrated, CalibratedEstimate

_NOTE = (
    "Labels alone: the labelled videos without the judge. The labelled videos must be a random "
    "sample of those judged."
)
_FULL_NOTE = (
    f"{_NOTE} these videos: the interval for the mean label of these same videos; r²: the share of "
    "the variance of labels that the judge explains, %."
)
_ENDS = Kind(
    lambda ends: NOTHING if ends.low is None else f"[{percent(ends.low)}, {percent(ends.high)}]",
    parts=lambda ends: {"_low": ends.low, "_high": ends.high},
)


def print_calibrated(
    found: Calibrated, console: Console, *, form: Format = "table", full: bool = False
) -> None:
    """Print the headline and the table.

    Parameters
    ----------
    full : also precision and recall, and the interval for these same videos
    """
    page = _page(found, full=full)
    if form != "table":
        print_line(rendered([page], form), console)
        return
    print_pages([page], console, headline=calibrated_headline(found))


def calibrated_headline(found: Calibrated) -> str:
    """Return the calibrated score and the judge's own in a sentence."""
    measure, of = _measure(found), found.overall.all
    one: CalibratedEstimate = getattr(of, measure)
    judge = one_line(Signature.parse(found.signature).get("judge") or "an unknown judge")
    return (
        f"{one_line(found.run)}: {_name(measure)} {interval(one)} calibrated with {_labels(found)} "
        f"of {share(of.labelled, of.n)} videos; {percent(one.judge)} by {judge} alone."
    )


def _page(found: Calibrated, *, full: bool) -> Page:
    table = Table(
        f"{one_line(found.run)}, calibrated with {_labels(found)}, %",
        columns(
            *("Elements", "Measure", ("Labelled", SHARE), ("Judge", PERCENT)),
            *(("Calibrated [95%]", INTERVAL), ("Labels alone [95%]", INTERVAL)),
            *((("these videos", _ENDS), ("r²", PERCENT)) if full else ()),
            words=2,
        ),
    )
    reasons: dict[str, None] = {}
    for group in GROUPS:
        of = getattr(found.overall, group)
        for measure in MEASURES if full else (_measure(found),):
            one: CalibratedEstimate = getattr(of, measure)
            row = [group, _name(measure), (of.labelled, of.n), one.judge, one, one.labels_alone]
            table.rows.append([*row, one.same_videos, one.r2] if full else row)
            reasons |= {one.reason: None} if one.reason else {}
    why = f"[{NOTHING}]: no interval, as {'; '.join(reasons)}. " if reasons else ""
    table.note = why + (_FULL_NOTE if full else _NOTE)
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
