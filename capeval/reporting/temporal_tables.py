"""The temporal diagnostics as one table: questions by their tag, and measures with intervals."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from capeval.files.jsonl import dumps
from capeval.mcq.breakdown import benchmark_name
from capeval.mcq.temporal import MEASURES, Measure, MeasureResult, TemporalResult
from capeval.reporting.formats import Format, csv_text, rendered
from capeval.reporting.numbers import NOTHING, percent, points, thousands
from capeval.reporting.table import COUNT, PERCENT, Column, Kind, Page, Row, Table, interval_kind
from capeval.reporting.terminal import one_screen, print_pages
from capeval.text import counted, cut, one_line

# What the default screen has by tag: that a question takes several frames, and their order.
_MAIN = ("multi_frame_gain", "frame_order_sensitivity")


def _shown(pair: tuple[MeasureResult, Measure]) -> Kind:
    return interval_kind(percent if pair[1].share else points)


_CHANGE = Kind(lambda pair: _shown(pair).show(pair[0]), after=lambda p: _shown(p).after(p[0]))
_COLUMNS = [
    Column("Measure", words=True),
    Column("Questions", kind=COUNT),
    Column("More", kind=PERCENT),
    Column("Less", kind=PERCENT),
    Column("Change [95%]", kind=_CHANGE),
]


def print_temporal(result: TemporalResult, console: Console, *, full: bool = False) -> None:
    """Print a headline and the table: every measure by tag if `full`, else what fills a screen."""
    pages, headline = [_page(result, full=full)], temporal_headline(result)
    if not full:
        pages = one_screen(pages)
    print_pages(pages, console, headline=headline)


def rendered_temporal(result: TemporalResult, form: Format) -> str:
    """Return the result as text; CSV and JSON have fractions at full precision."""
    if form == "json":
        return dumps(result.model_dump(mode="json"), indent=1)
    if form == "csv":
        return csv_text(_records(result))
    return rendered([_page(result, full=True)], form, headline=temporal_headline(result))


def temporal_headline(result: TemporalResult) -> str:
    """Return the main findings in a sentence."""
    found = result.overall
    parts = []
    shown = [one for one in MEASURES if one.name in found]
    for one in [one for one in shown if one.name in _MAIN] or shown[:1]:
        of = found[one.name]
        ends = f"[{NOTHING}]" if of.low is None else f"[{points(of.low)}, {points(of.high)}]"
        value = f"{points(of.value)}% {ends}"
        value = value if of.value is not None else f"has no value ({of.reason})"
        parts.append(f"{one.title.lower()} {value}")
    on = f" on {benchmark_name(result.benchmark)}" if result.benchmark else ""
    asked = max(of.questions for of in found.values())
    who = one_line(result.model, 80)
    return f"{who}{on}: {', '.join(parts)}; {counted(asked, 'question')}."


def _records(result: TemporalResult) -> list[dict[str, object]]:
    """Return a record for each group of questions and measure."""
    groups = [("overall", "", result.overall)]
    groups += [(result.tag or "", bucket, of) for bucket, of in result.by.items()]
    about = {"benchmark": result.benchmark, "model": result.model}
    return [
        {**about, "by": way, "bucket": bucket, "measure": name, **of.model_dump(mode="json")}
        for way, bucket, measures in groups
        for name, of in measures.items()
    ]


def _page(result: TemporalResult, *, full: bool) -> Page:
    rows: list[Row] = [["All questions"]] if result.by else []
    measures = [one for one in MEASURES if one.name in result.overall]
    rows += [_row(one.title, result.overall[one.name], one) for one in measures]
    for one in measures:
        if result.by and (full or one.name in _MAIN):
            rows.append([cut(one_line(f"{_heading(one, result)} by {result.tag}"), 100)])
            rows += [_row(name, of[one.name], one) for name, of in result.by.items()]
    more = f"by {one_line(result.tag or '')}, every measure: --full"
    table = Table(
        "Accuracy with more and with less of the video, in percent",
        _COLUMNS,
        rows,
        "; ".join([*_reasons(rows), *([more] if result.by and not full else [])]),
    )
    return Page(
        [table],
        about="95% intervals by paired bootstrap over videos",
        notes=_notes(result),
        warnings=[one_line(note, 600) for note in result.notes],
        signatures=list(
            dict.fromkeys(one_line(run.signature, 600) for run in result.runs.values())
        ),
    )


def _row(label: str, of: MeasureResult, measure: Measure) -> Row:
    sides = [correct / of.questions if of.questions else None for correct in (of.upper, of.lower)]
    return [cut(one_line(label), 60), of.questions, *sides, (of, measure)]


def _reasons(rows: Sequence[Row]) -> list[str]:
    """Return why values or intervals are missing, each reason once."""
    found = (row[-1][0] for row in rows if len(row) > 1)
    lines = (
        f"{NOTHING}: {of.reason}" if of.reason else f"[{NOTHING}]: {of.interval_reason}"
        for of in found
        if of.reason or of.interval_reason
    )
    return list(dict.fromkeys(map(one_line, lines)))


def _heading(measure: Measure, result: TemporalResult) -> str:
    """Return a measure with what its two runs show."""
    upper, lower = (result.runs[role].label for role in (measure.upper, measure.lower))
    if measure.share:
        return f"Right with {upper}, wrong with {lower}"
    # The heading names both runs, so that the name need not say which frame it is.
    return f"{measure.title.partition(',')[0]} ({upper} / {lower})"


def _notes(result: TemporalResult) -> list[str]:
    runs = result.runs.items()
    lines = [", ".join(f"{role} {one_line(run.name, 80)} ({run.label})" for role, run in runs)]
    asked = max(run.questions for _, run in runs)
    fewest = min(of.questions for of in result.overall.values())
    if fewest < asked:
        lines.append(
            "A comparison leaves out the questions that one of its runs has no score for, "
            f"{thousands(asked - fewest)} at most"
        )
    return lines
