"""The tables of `capeval compare`: in a terminal, as Markdown, or as LaTeX."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from textwrap import wrap

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from capeval.reporting.flip_tables import flip_sheets
from capeval.reporting.numbers import NOTHING, p_value, percent, points, points_interval, thousands
from capeval.reporting.score_tables import BASELINE_NOTE, NO_INTERVAL_NOTE
from capeval.reporting.text_table import Format, Sheet, print_sheets, rendered
from capeval.scoring import FEWEST, GROUPS, MEASURES, Signature
from capeval.scoring.comparison import FEWEST_FOR_POWER
from capeval.scoring.comparison_result import (
    BucketDifference,
    Comparison,
    Difference,
    Differences,
    Matrix,
    PairDifference,
    Side,
)
from capeval.text import both_ends, one_line

MOST = 5
"""How many videos that moved up, that moved down, and flipped elements are shown."""

_WAYS = {
    "visual_characteristic": ("visual characteristic", "Characteristic"),
    "domain": ("domain", "Domain"),
    "events": ("number of events", "Events"),
    "elements": ("number of elements", "Elements"),
}
_NAME = 40
_LEGIBLE = 26
_LEAST = 40
_GAP = 2


def print_comparison(
    found: Comparison | Matrix,
    console: Console,
    *,
    form: Format = "table",
    power: bool = False,
    most: int = MOST,
    full: bool = False,  # noqa: ARG001
) -> None:
    """Print the tables, and below them what they are of."""
    narrow = form == "table"
    sheets = difference_sheets(
        found,
        width=console.width if narrow else None,
        power=power,
        most=most,
        paper=form == "latex",
    )
    notes = [*_coverage(found), _explained(found)]
    marks = [f"NOT COMPARABLE: {one_line(phrase)}" for phrase in found.unlike]
    marks += [one_line(note) for note in found.notes]
    runs = _runs(found)
    if any(run.baseline for run in runs):
        marks.append(BASELINE_NOTE)
    signatures = list(dict.fromkeys(one_line(run.signature, 600) for run in runs))
    if form == "latex":
        # Tables of a paper stand apart: each says what it is of, and what to beware of.
        whose = "" if isinstance(found, Matrix) else f"{_sides(found)}; "
        for number, sheet in enumerate(sheets):
            sheet.title += f" ({whose if number else ''}{_measurement(runs)})"
            sentences = [mark.removesuffix(".") for mark in (sheet.note, *marks) if mark]
            sheet.note = " ".join(f"{sentence}." for sentence in sentences)
        text = rendered(sheets, [*notes, *signatures], form)
        console.print(Text(text), soft_wrap=True)
        return
    if form == "markdown":
        text = rendered(sheets, [*notes, *marks, *signatures], form)
        console.print(Text(text), soft_wrap=True)
        return
    print_sheets(sheets, console)
    # At words: these are to be read, and only signatures and names to be copied.
    width = max(console.width, _LEAST)
    for style, lines in (("", notes), ("yellow", marks)):
        for line in lines:
            told = wrap(line, width, break_long_words=False, break_on_hyphens=False)
            console.print(Text("\n".join(told), style=style), soft_wrap=True)
    for line in signatures:
        console.print(Text(f"  {line}", style="dim"), soft_wrap=True)


def difference_sheets(
    found: Comparison | Matrix,
    *,
    width: int | None = None,
    power: bool = False,
    most: int = MOST,
    paper: bool = False,
) -> list[Sheet]:
    """Return all tables.

    Parameters
    ----------
    width : of the terminal; where a table of buckets does not fit it, precision and recall are
        without their intervals. None for no limit.
    power : also what so many videos can show
    most : how many videos each way, and how many flipped elements
    paper : to fit the text of an article: of buckets, precision and recall without their
        intervals, and of elements two lines
    """
    if isinstance(found, Matrix):
        sheets = _matrix(found, width)
    else:
        sheets = [_overall(found), *_by(found.by, width, paper=paper)]
        sheets += [_power(found, width)] if power else []
        sheets += _movers(found, most, width) + flip_sheets(found, most, width, paper=paper)
    if not found.comparable:
        for sheet in sheets:
            sheet.title = f"[not comparable] {sheet.title}"
    return sheets


def gate_lines(found: Comparison | Matrix) -> list[str]:
    """Return the gates that failed, in a line; none where all passed."""
    told = [gate.told for gate in found.gates if not gate.passed]
    return [f"gate failed: {'; '.join(told)}"] if told else []


def _runs(found: Comparison | Matrix) -> Sequence[Side]:
    return found.runs if isinstance(found, Matrix) else (found.first, found.second)


def _measurement(runs: Sequence[Side]) -> str:
    """Return the judge, its prompts and the data, as the signatures have them."""
    signatures = [Signature.parse(run.signature) for run in runs]
    told = []
    for name in ("judge", "prompts", "data"):
        values = dict.fromkeys(of.get(name) or "unknown" for of in signatures)
        told.append(f"{name} {' against '.join(one_line(value) for value in values)}")
    return ", ".join(told)


def _overall(found: Comparison) -> Sheet:
    sheet = Sheet(
        f"{_sides(found)}: B less A, in points, {thousands(found.paired)} videos",
        ["Elements", "Measure", "n", "A", "B", "B – A [95%]", "p"],
        left=2,
    )
    for group in GROUPS:
        of = getattr(found.overall, group)
        for measure in MEASURES:
            one: Difference = getattr(of, measure)
            sheet.rows.append(
                [
                    group,
                    measure if measure != "f1" else "F1",
                    thousands(of.n),
                    percent(one.first),
                    percent(one.second),
                    points_interval(one),
                    p_value(one.p),
                ]
            )
    return _explaining(sheet)


def _explaining(sheet: Sheet) -> Sheet:
    """Return a table that says below it why a value has no interval."""
    if any(cell.endswith(f"[{NOTHING}]") for row in sheet.rows for cell in row[sheet.left :]):
        sheet.note = NO_INTERVAL_NOTE
    return sheet


def _by(by: Differences, width: int | None, *, paper: bool) -> list[Sheet]:
    return [
        _buckets(way, getattr(by, way), width, paper=paper)
        for way in Differences.model_fields
        if getattr(by, way)
    ]


def _buckets(
    way: str, buckets: dict[str, BucketDifference], width: int | None, *, paper: bool
) -> Sheet:
    title, heading = _WAYS[way]

    def made(*, intervals: bool) -> Sheet:
        more = " [95%]" if intervals else ""
        sheet = Sheet(
            f"By {title}: B less A, in points, all elements",
            [heading, "n", "F1 [95%]", "p", "p (Holm)", f"precision{more}", f"recall{more}"],
        )
        for name, bucket in buckets.items():
            of = bucket.all
            sheet.rows.append(
                [
                    _short(name, width),
                    thousands(of.n),
                    points_interval(of.f1),
                    p_value(of.f1.p),
                    p_value(bucket.p_adjusted),
                    *(
                        points_interval(one) if intervals else points(one.value)
                        for one in (of.precision, of.recall)
                    ),
                ]
            )
        return _explaining(sheet)

    whole = made(intervals=not paper)
    return whole if width is None or _width(whole) <= width else made(intervals=False)


def _width(sheet: Sheet) -> int:
    columns = zip(sheet.header, *sheet.rows, strict=True)
    widths = [max(map(cell_len, column)) for column in columns]
    return _GAP * (len(widths) - 1) + sum(widths)


def _power(found: Comparison, width: int | None) -> Sheet:
    sheet = Sheet(
        "What so many videos can show (F1, points)",
        ["Videos", "n", "sd", "detectable", "videos for 1 point"],
        note="detectable: the true difference that 80% of such samples would find at p <= 0.05, by "
        "the normal approximation, from the sd of the videos' differences; of buckets before Holm",
    )
    buckets = {"all": found.overall}
    for way in Differences.model_fields:
        title = _WAYS[way][1]
        buckets |= {f"{title}: {name}": of for name, of in getattr(found.by, way).items()}
    for name, bucket in buckets.items():
        power = bucket.power
        if power.sd is None and bucket is not found.overall:
            continue
        needed = power.videos_for_one_point
        sheet.rows.append(
            [
                _short(name, width),
                thousands(bucket.all.n),
                percent(power.sd),
                percent(power.detectable),
                NOTHING if needed is None else thousands(needed),
            ]
        )
    if found.overall.power.sd is None:
        sheet.note += f". {NOTHING}: fewer than {FEWEST_FOR_POWER} videos are too few to tell"
    return sheet


def _movers(found: Comparison, most: int, width: int | None) -> list[Sheet]:
    # A stable sort: of equals, the one that comes first in the annotations.
    ordered = sorted(found.videos.items(), key=lambda item: -abs(item[1].f1.value))
    down = [item for item in ordered if item[1].f1.value < 0]
    up = [item for item in ordered if item[1].f1.value > 0]
    sheets = []
    for title, moved in (("up", up), ("down", down)):
        sheet = Sheet(
            f"F1 moved {title}: {thousands(len(moved))}",
            ["Video", "A", "B", "B – A"],
        )
        for index, of in moved[:most]:
            sheet.rows.append(
                [
                    _short(index, width),
                    percent(of.f1.first),
                    percent(of.f1.second),
                    points(of.f1.value),
                ]
            )
        if sheet.rows:
            sheets.append(sheet)
    return sheets


def _matrix(found: Matrix, width: int | None) -> list[Sheet]:
    ranks = Sheet(
        f"F1 of all elements, {thousands(found.paired)} videos",
        ["", "Run", "F1", "rank"],
        left=2,
    )
    letters = [_letter(place) for place in range(len(found.runs))]
    for letter, run in zip(letters, found.runs, strict=True):
        # In full it stands below the tables.
        name = _name(run) if width is None else both_ends(run.name, max(_LEGIBLE, width - 20))
        ranks.rows.append([letter, name, percent(run.f1), str(run.cluster)])
    square = Sheet(
        "F1, row less column, in points (p, Holm)",
        ["", *letters],
    )
    known = {frozenset((pair.first, pair.second)): pair for pair in found.pairs}
    for letter, run in zip(letters, found.runs, strict=True):
        row = [letter]
        for other in found.runs:
            pair = known.get(frozenset((run.name, other.name)))
            row.append(_paired(pair, run.name) if pair else NOTHING)
        square.rows.append(row)
    return [ranks, square]


def _paired(pair: PairDifference, row: str) -> str:
    value = pair.value if pair.second == row else -pair.value
    return f"{points(value)} ({p_value(pair.p_adjusted)})"


def _letter(place: int) -> str:
    """Return A to Z, then AA, AB and so on.

    >>> _letter(0), _letter(27)
    ('A', 'AB')
    """
    letters = ""
    place += 1
    while place:
        place, rest = divmod(place - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def _coverage(found: Comparison | Matrix) -> list[str]:
    lines = []
    for place, run in enumerate(_runs(found)):
        line = (
            f"{_letter(place)} {_name(run)}: captioned "
            f"{thousands(run.captioned)}/{thousands(run.annotated)}, scored "
            f"{thousands(run.scored)}/{thousands(run.captioned)}"
        )
        if run.left_out:
            line += f", left out {thousands(len(run.left_out))} ({_reasons(run)})"
        lines.append(line)
    return lines


def _reasons(run: Side, most: int = 3) -> str:
    reasons = Counter(one_line(left.reason, 120) for left in run.left_out).most_common()
    told = [f"{thousands(count)} {reason}" for reason, count in reasons[:most]]
    return "; ".join([*told, *(["…"] if len(reasons) > most else [])])


def _explained(found: Comparison | Matrix) -> str:
    interval = found.settings["interval"]
    if isinstance(found, Comparison):
        return (
            f"Intervals: {interval['method']}, {thousands(interval['draws'])} draws, "
            f"seed {interval['seed']}; none of fewer than {FEWEST} videos. p: "
            f"{found.settings['test']['method']}; that of all videos is not adjusted."
        )
    return (
        f"p: {found.settings['test']['method']}, {thousands(interval['draws'])} draws, "
        f"seed {interval['seed']}; adjusted by Holm over all pairs. rank: worse than every run of "
        "the rank above, at p <= 0.05."
    )


def _sides(found: Comparison) -> str:
    return f"A {_name(found.first)}, B {_name(found.second)}"


def _name(run: Side) -> str:
    return one_line(run.name)


def _short(name: str, width: int | None) -> str:
    return one_line(name) if width is None else both_ends(name, _NAME)
