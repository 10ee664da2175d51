"""The temporal diagnostics as one table: questions by their tag, and measures with intervals."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from capeval.mcq.temporal import MEASURES, ROLES, Role
from capeval.mcq.temporal_result import (
    AverageMeasure,
    MeasureResult,
    ModelTemporal,
    TemporalBucket,
    TemporalResult,
)
from capeval.reporting.formats import Format, rendered
from capeval.reporting.numbers import NOTHING, percent, points, thousands
from capeval.reporting.table import Cell, Column, Page, Row, Table
from capeval.reporting.terminal import one_screen, print_pages
from capeval.text import counted, cut, one_line

_HEADINGS = {
    "multi_frame_gain": "Gain",
    "multi_frame_gain_picked": "Gain [H]",
    "frame_order_sensitivity": "Order",
    "frame_information_disparity": "Disparity",
    "needs_frames": "Needs",
    "needs_frames_picked": "Needs [H]",
}
_SENTENCES = {
    "multi_frame_gain": "multi-frame gain",
    "multi_frame_gain_picked": "multi-frame gain over a hand-picked frame",
    "frame_order_sensitivity": "frame order sensitivity",
    "frame_information_disparity": "frame information disparity",
}
_EXPLAINED = {
    "multi_frame_gain": "Gain: accuracy with all frames relative to one frame",
    "multi_frame_gain_picked": "Gain [H]: relative to the hand-picked frame",
    "frame_order_sensitivity": "Order: all frames relative to the same frames shuffled",
    "frame_information_disparity": "Disparity: the hand-picked frame relative to the single one",
    "needs_frames": "Needs: share of questions right with all frames and wrong with one",
    "needs_frames_picked": "Needs [H]: and wrong with the hand-picked frame",
}
_SHARES = {one.name for one in MEASURES if one.share}


def print_temporal(result: TemporalResult, console: Console, *, full: bool = False) -> None:
    """Print a headline and the table.

    Parameters
    ----------
    full : all rows; otherwise as many as fill a screen
    """
    pages, headline = [_page(result)], temporal_headline(result)
    if not full:
        pages = one_screen(pages, console.width, headline=headline)
    print_pages(pages, console, headline=headline)


def rendered_temporal(result: TemporalResult, form: Format) -> str:
    """Return the table as text."""
    return rendered([_page(result)], form, headline=temporal_headline(result))


def temporal_headline(result: TemporalResult) -> str:
    """Return the main finding in a sentence."""
    first = result.models[0]
    if result.average is not None:
        shown: dict[str, AverageMeasure | MeasureResult] = {**result.average.overall}
        who = f"Mean of {counted(len(result.models), 'model')}"
    else:
        shown = {**first.overall.measures}
        who = one_line(first.model, 80)
    parts = [
        f"{text} {_change(shown[name])}" for name, text in _SENTENCES.items() if name in shown
    ]
    on = f" on {one_line(result.benchmark, 60)}" if result.benchmark else ""
    asked = max((m.questions for m in first.overall.measures.values()), default=0)
    return f"{who}{on}: {', '.join(parts) or 'no measure'}; {counted(asked, 'question')}."


def _change(of: AverageMeasure | MeasureResult) -> str:
    if of.value is None:
        return f"has no value ({of.reason})"
    ends = ""
    if isinstance(of, MeasureResult) and of.low is not None and of.high is not None:
        ends = f" [{points(of.low)}, {points(of.high)}]"
    return f"{points(of.value)}%{ends}"


def _page(result: TemporalResult) -> Page:
    roles = [role for role in ROLES if any(role in model.runs for model in result.models)]
    names = [m.name for m in MEASURES if any(m.name in of.overall.measures for of in result.models)]
    several = len(result.models) > 1
    rows: list[Row] = []
    reasons: list[str] = []
    for model in result.models:
        if several:
            rows.append([one_line(model.model, 120)])
        rows += [
            _row(label, bucket, roles, names, reasons)
            for label, bucket in (("All questions", model.overall), *model.by.items())
        ]
    if result.average is not None:
        rows.append(["Mean of the models' values"])
        averages = [("All questions", result.average.overall), *result.average.by.items()]
        for label, means in averages:
            cells = [_average_cell(means.get(name), name) for name in names]
            rows.append([cut(one_line(label), 40), NOTHING, *[NOTHING] * len(roles), *cells])
    headings = [_role_heading(role, result.models) for role in roles]
    by = f" by {one_line(result.way)}" if result.way else ""
    table = Table(
        f"Accuracy and its relative changes{by}, in percent",
        [
            Column("", words=True),
            Column("n"),
            *(Column(heading) for heading in headings),
            *(Column(_HEADINGS[name]) for name in names),
        ],
        rows,
        "; ".join(_EXPLAINED[name] for name in names),
    )
    return Page(
        [table],
        about=f"{one_line(result.benchmark, 60) or 'questions'}; 95% intervals by paired bootstrap "
        "over videos",
        footnotes=reasons,
        notes=_notes(result),
        warnings=[one_line(note, 600) for note in result.notes],
        signatures=list(
            dict.fromkeys(
                one_line(run.signature, 600) for model in result.models for run in model.runs.values()
            )
        ),
    )


def _role_heading(role: Role, models: Sequence[ModelTemporal]) -> str:
    labels = {model.runs[role].label for model in models if role in model.runs}
    return one_line(labels.pop()) if len(labels) == 1 else role


def _row(
    label: str,
    bucket: TemporalBucket,
    roles: Sequence[Role],
    names: Sequence[str],
    reasons: list[str],
) -> Row:
    asked = [measure.questions for measure in bucket.measures.values()]
    n = NOTHING.join(map(thousands, dict.fromkeys((min(asked), max(asked)))))
    return [
        cut(one_line(label), 40),
        n,
        *(
            percent(bucket.accuracies[role].accuracy) if role in bucket.accuracies else NOTHING
            for role in roles
        ),
        *(_cell(bucket.measures.get(name), name, reasons) for name in names),
    ]


def _cell(of: MeasureResult | None, name: str, reasons: list[str]) -> Cell | str:
    if of is None:
        return NOTHING
    reason = of.reason or of.interval_reason
    notes: tuple[int, ...] = ()
    if reason is not None:
        if reason not in reasons:
            reasons.append(reason)
        notes = (reasons.index(reason) + 1,)
    number = percent if name in _SHARES else points
    if of.value is None:
        return Cell(NOTHING, notes=notes)
    if of.low is None or of.high is None:
        return Cell(number(of.value), after=f" [{NOTHING}]", notes=notes)
    return Cell(number(of.value), after=f" [{number(of.low)}, {number(of.high)}]")


def _average_cell(of: AverageMeasure | None, name: str) -> str:
    if of is None:
        return NOTHING
    return (percent if name in _SHARES else points)(of.value)


def _notes(result: TemporalResult) -> list[str]:
    lines = []
    for model in result.models:
        given = ", ".join(
            f"{role} {one_line(run.name, 80)} ({run.label})" for role, run in model.runs.items()
        )
        lines.append(f"{one_line(model.model, 80)}: {given}")
        left = max(
            (
                model.overall.accuracies[role].questions - measure.questions
                for measure_of in MEASURES
                if (measure := model.overall.measures.get(measure_of.name))
                for role in (measure_of.upper, measure_of.lower)
            ),
            default=0,
        )
        if left:
            lines.append(
                f"{one_line(model.model, 80)}: up to {counted(left, 'question')} of a run left out "
                "of a comparison, because the other run has no score for it"
            )
        if model.unpaired:
            were = "was" if model.unpaired == 1 else "were"
            lines.append(
                f"{one_line(model.model, 80)}: {counted(model.unpaired, 'question')} {were} not "
                "asked in all of the runs"
            )
    return lines
