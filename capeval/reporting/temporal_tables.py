"""The temporal diagnostics as one table: questions by their tag, and measures with intervals."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console

from capeval.files.jsonl import dumps
from capeval.mcq.temporal import MEASURES, Measure
from capeval.mcq.temporal_result import (
    AverageMeasure,
    MeasureResult,
    ModelTemporal,
    TemporalResult,
)
from capeval.reporting.formats import Format, csv_text, rendered
from capeval.reporting.mcq_names import benchmark_name
from capeval.reporting.numbers import NOTHING, percent, points, thousands
from capeval.reporting.table import Cell, Column, Page, Row, Table
from capeval.reporting.terminal import one_screen, print_pages
from capeval.text import counted, cut, one_line

_NAMES = {
    "multi_frame_gain": "Multi-frame gain",
    "multi_frame_gain_picked": "Multi-frame gain, hand-picked frame",
    "frame_order_sensitivity": "Frame order sensitivity",
    "frame_information_disparity": "Frame information disparity",
    "needs_frames": "Right with many frames, not with one",
    "needs_frames_picked": "Right with many, not with picked one",
}
# What the default screen has by tag: that a question takes several frames, and their order.
_MAIN = ("multi_frame_gain", "frame_order_sensitivity")


def print_temporal(result: TemporalResult, console: Console, *, full: bool = False) -> None:
    """Print a headline and the table.

    Parameters
    ----------
    full : every measure by tag; otherwise as much as fills a screen
    """
    pages, headline = [_page(result, full=full)], temporal_headline(result)
    if not full:
        pages = one_screen(pages, console.width, headline=headline)
    print_pages(pages, console, headline=headline)


def rendered_temporal(result: TemporalResult, form: Format) -> str:
    """Return the result as text; CSV and JSON have fractions at full precision."""
    if form == "json":
        return dumps(result.model_dump(mode="json"), indent=1)
    if form == "csv":
        return _csv(result)
    return rendered([_page(result, full=True)], form, headline=temporal_headline(result))


def temporal_headline(result: TemporalResult) -> str:
    """Return the main findings in a sentence."""
    first = result.models[0]
    found: Mapping[str, AverageMeasure | MeasureResult] = first.overall.measures
    who = one_line(first.model, 80)
    if result.average is not None:
        found = result.average.overall
        who = f"Mean of {counted(len(result.models), 'model')}"
    shown = [name for name in _MAIN if name in found] or [*found][:1]
    parts = [f"{_NAMES[name].lower()} {_told(found[name])}" for name in shown]
    on = f" on {benchmark_name(result.benchmark)}" if result.benchmark else ""
    asked = max((m.questions for m in first.overall.measures.values()), default=0)
    return f"{who}{on}: {', '.join(parts)}; {counted(asked, 'question')}."


def _told(of: AverageMeasure | MeasureResult) -> str:
    if of.value is None:
        return f"has no value ({of.reason})"
    ends = ""
    if isinstance(of, MeasureResult) and of.low is not None and of.high is not None:
        ends = f" [{points(of.low)}, {points(of.high)}]"
    return f"{points(of.value)}%{ends}"


def _csv(result: TemporalResult) -> str:
    """Return a row for each model, group of questions and measure."""
    facts = tuple(MeasureResult.model_fields)
    rows: list[list[object]] = []
    for model in result.models:
        groups = [("overall", "", model.overall)]
        groups += [(result.way or "", bucket, of) for bucket, of in model.by.items()]
        for way, bucket, of in groups:
            for name, found in of.measures.items():
                numbers = [getattr(found, fact) for fact in facts]
                rows.append([result.benchmark, model.model, way, bucket, name, *numbers])
    return csv_text(["benchmark", "model", "by", "bucket", "measure", *facts], rows)


class _Rows:
    """The rows of the table, and the reasons why numbers are missing."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.reasons: list[str] = []

    def heading(self, text: str) -> None:
        self.rows.append([cut(one_line(text), 100)])

    def add(self, label: str, of: MeasureResult, *, is_share: bool) -> None:
        reason = of.reason or of.interval_reason
        notes: tuple[int, ...] = ()
        if reason is not None:
            if reason not in self.reasons:
                self.reasons.append(reason)
            notes = (self.reasons.index(reason) + 1,)
        number = percent if is_share else points
        after = f" [{NOTHING}]"
        if of.value is None:
            after = ""
        elif of.low is not None and of.high is not None:
            after = f" [{number(of.low)}, {number(of.high)}]"
        sides = [
            percent(correct / of.questions if of.questions else None)
            for correct in (of.upper, of.lower)
        ]
        value = Cell(number(of.value), after=after, notes=notes)
        self.rows.append([_short(label), thousands(of.questions), *sides, value])


def _short(label: str) -> str:
    return cut(one_line(label), 60)


def _page(result: TemporalResult, *, full: bool) -> Page:
    made = _Rows()
    several = len(result.models) > 1
    if result.average is not None:
        made.heading("Mean of the models' values, all questions")
        for name, mean in result.average.overall.items():
            made.rows.append([_NAMES[name], *[NOTHING] * 3, _mean(mean, name)])
    for model in result.models:
        if several or model.by:
            made.heading(f"{model.model}, all questions" if several else "All questions")
        _add_overall(made, model)
    for model in result.models:
        if full or not several:
            _add_groups(made, model, result.way, several=several, full=full)
    if result.average is not None and full:
        for name in result.average.overall:
            groups = result.average.by.items()
            if any(name in means for _, means in groups):
                made.heading(f"Mean of the models' values: {_NAMES[name]} by {result.way}")
            for bucket, means in groups:
                if name in means:
                    cells = [*[NOTHING] * 3, _mean(means[name], name)]
                    made.rows.append([_short(bucket), *cells])
    more = any(model.by for model in result.models) and not full
    return Page(
        [
            Table(
                "Accuracy with more and with less of the video, in percent",
                [
                    Column("Measure", words=True),
                    Column("Questions"),
                    Column("More"),
                    Column("Less"),
                    Column("Change [95%]"),
                ],
                made.rows,
                f"by {one_line(result.way or '')}, every measure: --full" if more else "",
            )
        ],
        about="95% intervals by paired bootstrap over videos",
        footnotes=made.reasons,
        notes=_notes(result),
        warnings=[one_line(note, 600) for note in result.notes],
        signatures=list(
            dict.fromkeys(
                one_line(run.signature, 600)
                for model in result.models
                for run in model.runs.values()
            )
        ),
    )


def _add_overall(made: _Rows, model: ModelTemporal) -> None:
    for measure in MEASURES:
        if measure.name in model.overall.measures:
            found = model.overall.measures[measure.name]
            made.add(_NAMES[measure.name], found, is_share=measure.share)
    blind = model.overall.accuracies.get("blind")
    if blind is not None:
        cells = [thousands(blind.questions), NOTHING, percent(blind.accuracy), NOTHING]
        made.rows.append(["Accuracy without the video", *cells])


def _add_groups(
    made: _Rows, model: ModelTemporal, way: str | None, *, several: bool, full: bool
) -> None:
    for measure in MEASURES:
        if measure.name not in model.overall.measures or not (full or measure.name in _MAIN):
            continue
        if model.by:
            of = f"{model.model}, " if several else ""
            made.heading(f"{of}{_label(measure, model)} by {way}")
        for bucket, found in model.by.items():
            made.add(bucket, found.measures[measure.name], is_share=measure.share)


def _label(measure: Measure, model: ModelTemporal) -> str:
    """Return a measure with what its two runs show."""
    upper, lower = (model.runs[role].label for role in (measure.upper, measure.lower))
    if measure.share:
        return f"Right with {upper}, wrong with {lower}"
    # The heading names both runs, so that the name need not say which frame it is.
    return f"{_NAMES[measure.name].partition(',')[0]} ({upper} / {lower})"


def _mean(of: AverageMeasure, name: str) -> str:
    return (percent if name.startswith("needs") else points)(of.value)


def _notes(result: TemporalResult) -> list[str]:
    lines = []
    for model in result.models:
        who = one_line(model.model, 80)
        given = ", ".join(
            f"{role} {one_line(run.name, 80)} ({run.label})" for role, run in model.runs.items()
        )
        lines.append(f"{who}: {given}")
        asked = max(of.questions for of in model.overall.accuracies.values())
        fewest = min(of.questions for of in model.overall.measures.values())
        if fewest < asked:
            lines.append(
                f"{who}: a comparison leaves out the questions that one of its runs has no score "
                f"for, {thousands(asked - fewest)} at most"
            )
    return lines
