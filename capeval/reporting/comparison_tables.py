"""The tables of `capeval compare` and the sentence that sums them up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rich.console import Console

from capeval.reporting.flip_tables import flip_line, flip_table
from capeval.scoring import FEWEST_VIDEOS, GROUPS, MEASURES
from capeval.scoring.comparison import FEWEST_FOR_POWER
from capeval.scoring.comparison_result import (
    BucketDifference,
    Compared,
    Comparison,
    Difference,
    Differences,
    Matrix,
    PairDifference,
    Side,
)
from capeval.scoring.scores import (
    BASELINE_NOTE,
    FEW_VIDEOS_NOTE,
    NO_INTERVAL_NOTE,
    is_narrow,
)
from capeval.scoring.signature import Signature
from capeval.show.formats import Format, rendered
from capeval.show.numbers import (
    letter_of,
    p_equation,
    p_value,
    percent,
    plain_number,
    points,
    share,
    thousands,
)
from capeval.show.table import (
    COUNT,
    P_VALUE,
    PERCENT,
    POINTS,
    POINTS_INTERVAL,
    Kind,
    Page,
    Table,
    columns,
)
from capeval.show.terminal import print_line, print_pages
from capeval.text import counted, one_line

MOST = 5
"""How many videos that moved up, that moved down, and flipped elements are shown."""

ALPHA = 0.05
"""A difference with a smaller p is called significant, as in the ranks of several runs."""

_WAYS = {
    "visual_characteristic": ("visual characteristic", "Characteristic"),
    "domain": ("domain", "Domain"),
    "events": ("number of events", "Events"),
    "elements": ("number of elements", "Elements"),
}

_PAIR = Kind(
    lambda pair: points(pair[0]),
    after=lambda pair: f" ({p_value(pair[1])})",
    parts=lambda pair: {"": pair[0], "_p": pair[1]},
)


def confidence(gap: Difference | PairDifference, *, negative: bool = False) -> str:
    """Return the 95% interval of a difference, or of its negative, as a sentence has it."""
    if gap.low is None or gap.high is None:
        return f"no interval: fewer than {FEWEST_VIDEOS} videos"
    low, high = (-gap.high, -gap.low) if negative else (gap.low, gap.high)
    return f"95% CI {points(low)} to {points(high)}".replace("+", "")


def print_comparison(
    found: Compared,
    console: Console,
    *,
    form: Format = "table",
    most: int = MOST,
    full: bool = False,
) -> None:
    """Print a headline, the tables, and notes on the runs.

    Parameters
    ----------
    most : how many videos each way, and how many flipped elements
    full : all tables; otherwise those of all videos, and the videos that changed most. Formats
        other than "table" always have all.
    """
    page = comparison_page(found, form=form, most=most, full=full)
    if form != "table":
        print_line(rendered([page], form), console)
        return
    if isinstance(found, Comparison) and not full:
        hint = "--full also shows buckets of videos and flipped elements."
        page = replace(page, notes=[*page.notes, hint])
    print_pages([page], console, headline=comparison_headline(found))


def comparison_page(
    found: Compared,
    *,
    form: Format = "table",
    most: int = MOST,
    full: bool = False,
) -> Page:
    """Return the tables, and notes on the runs; the parameters are those of `print_comparison`."""
    tables = difference_tables(found, most=most, full=full or form != "table")
    runs = _runs(found)
    warnings = [f"NOT COMPARABLE: {one_line(phrase)}" for phrase in found.unlike]
    warnings += [one_line(note) for note in found.notes]
    if any(run.baseline for run in runs):
        warnings.append(BASELINE_NOTE)
    notes = [*_coverage(found), _explained(found)]
    if isinstance(found, Comparison) and not full and form == "table":
        notes += [flip_line(found)] if found.flips.videos else []
    elif isinstance(found, Comparison):
        notes.append(_detectable(found))
    whose = f"{_sides(found)}; " if isinstance(found, Comparison) else ""
    return Page(
        tables,
        about=f"{whose}{_measurement(runs)}" if form == "latex" else "",
        notes=notes,
        warnings=warnings,
        signatures=list(dict.fromkeys(run.signature for run in runs)),
    )


def comparison_headline(found: Compared) -> str:
    """Return which run is better, by how much and how surely, in a sentence."""
    mark = "" if found.comparable else "[not comparable] "
    over = f"over the {counted(found.paired, 'video')} scored in"
    part = "; ".join(
        f"{_name(run)} scored {share(run.scored, run.captioned)}"
        for run in _runs(found)
        if run.scored < run.captioned
    )
    part = f" ({part})" if part else ""
    if isinstance(found, Comparison):
        f1 = found.overall.all.f1
        better, other = _name(found.second), _name(found.first)
        if f1.value is None:
            return f"{mark}{better} and {other} cannot be compared: no video was scored in both."
        if f1.value < 0:
            better, other = other, better
        size = points(abs(f1.value)).removeprefix("+")
        how = f"is {size} points of F1 better than" if float(size) else "has the same F1 as"
        ends = confidence(f1, negative=f1.value < 0)
        p = "" if f1.p is None else f", {p_equation(f1.p)}"
        unsure = ", not significant" if f1.p is not None and f1.p >= ALPHA else ""
        return f"{mark}{better} {how} {other} ({ends}{p}{unsure}) {over} both runs{part}."
    ranked = sorted(found.runs, key=lambda run: -run.f1)
    best, *others = ranked
    pair = _pairs(found)[frozenset((best.name, others[0].name))]
    gap = points(abs(pair.value)).removeprefix("+")
    unsure = ", not significant" if pair.p_adjusted >= ALPHA else ""
    return (
        f"{mark}{_name(best)} has the highest F1 of {len(ranked)} runs, {percent(best.f1)}, "
        f"{gap} points above {_name(others[0])} ({p_equation(pair.p_adjusted)}, Holm{unsure}) "
        f"{over} all runs{part}."
    )


def difference_tables(
    found: Compared,
    *,
    most: int = MOST,
    full: bool = True,
) -> list[Table]:
    """Return the tables; the parameters are those of `print_comparison`."""
    if isinstance(found, Matrix):
        tables = _matrix(found)
    else:
        tables = [_overall(found, full=full)]
        if full:
            tables += [
                _buckets(way, getattr(found.by, way))
                for way in Differences.model_fields
                if getattr(found.by, way)
            ]
        tables += _moved(found, most, full=full)
        tables += flip_table(found, most) if full else []
        notes = (tables[0].note, _few_videos_note(found, full=full))
        tables[0].note = ". ".join(filter(None, notes))
    if not found.comparable:
        for table in tables:
            table.title = f"[not comparable] {table.title}"
    return tables


def _runs(found: Compared) -> Sequence[Side]:
    return (found.first, found.second) if isinstance(found, Comparison) else found.runs


def _measurement(runs: Sequence[Side]) -> str:
    """Return the judge, its prompts and the data, as the signatures have them."""
    signatures = [Signature.parse(run.signature) for run in runs]
    parts = []
    for name in ("judge", "prompts", "reasoning", "data"):
        if name == "reasoning" and not any(of.get(name) for of in signatures):
            continue
        values = dict.fromkeys(one_line(of.get(name) or "unknown") for of in signatures)
        parts.append(f"{name} {' and '.join(values)}")
    return ", ".join(parts)


def _overall(found: Comparison, *, full: bool) -> Table:
    table = Table(
        f"{_sides(found)}: B − A, in points, {counted(found.paired, 'video')}",
        columns(
            *("Elements", "Measure", ("n", COUNT), ("A", PERCENT), ("B", PERCENT)),
            *(("B − A [95%]", POINTS_INTERVAL), ("p", P_VALUE)),
            words=2,
        ),
    )
    for group in GROUPS:
        of = getattr(found.overall, group)
        for measure in MEASURES if full or group == "all" else ("f1",):
            one: Difference = getattr(of, measure)
            name = "F1" if measure == "f1" else measure
            table.rows.append([group, name, of.n, one.first, one.second, one, one.p])
            table.note = table.note or _no_interval(one)
    return table


def _no_interval(*shown: Difference) -> str:
    """Return the note on values without an interval, if there is one."""
    return (
        NO_INTERVAL_NOTE if any(one.value is not None and one.low is None for one in shown) else ""
    )


def _few_videos_note(found: Comparison, *, full: bool) -> str:
    """Return the note if some table shows an interval from few videos."""
    shown = [getattr(found.overall, group) for group in GROUPS]
    if full:
        ways = (getattr(found.by, way) for way in Differences.model_fields)
        shown += [bucket.all for buckets in ways for bucket in buckets.values()]
    return FEW_VIDEOS_NOTE if any(is_narrow(of.f1, of.n) for of in shown) else ""


def _buckets(way: str, buckets: Mapping[str, BucketDifference]) -> Table:
    title, heading = _WAYS[way]
    table = Table(
        f"By {title}: B − A, in points, all elements",
        columns(
            *(heading, ("n", COUNT), ("F1 [95%]", POINTS_INTERVAL), ("p", P_VALUE)),
            *(
                ("p (Holm)", P_VALUE),
                ("precision [95%]", POINTS_INTERVAL),
                ("recall [95%]", POINTS_INTERVAL),
            ),
        ),
    )
    for name, bucket in buckets.items():
        of = bucket.all
        cells = (of.f1, of.f1.p, bucket.p_adjusted, of.precision, of.recall)
        table.rows.append([one_line(name), of.n, *cells])
        table.note = table.note or _no_interval(of.f1, of.precision, of.recall)
    return table


def _detectable(found: Comparison) -> str:
    if found.detectable is None:
        return f"Smallest detectable difference: needs at least {FEWEST_FOR_POWER} videos."
    return (
        f"Smallest detectable difference in F1: {percent(found.detectable)} points, found at "
        "p <= 0.05 with a power of 80% (normal approximation)."
    )


def _moved(found: Comparison, most: int, *, full: bool) -> list[Table]:
    """Return the videos whose F1 changed most, with `full` a table for each direction."""
    # A stable sort: of equals, the one that comes first in the annotations.
    ordered = sorted(found.videos.items(), key=lambda item: -abs(item[1].f1.value))
    moved = {
        "up": [(index, of.f1) for index, of in ordered if of.f1.value > 0],
        "down": [(index, of.f1) for index, of in ordered if of.f1.value < 0],
    }
    titles = {
        way: f"Largest {noun} in F1 ({counted(len(moved[way]), 'video')} {way})"
        for way, noun in (("up", "increases"), ("down", "decreases"))
    }
    if not full:
        up, down = (thousands(len(moved[way])) for way in ("up", "down"))
        title = f"Largest changes in F1 ({up} videos up, {down} down)"
        moved = {"either": [(index, of.f1) for index, of in ordered if of.f1.value]}
        titles = {"either": title}
    tables = []
    for way, videos in moved.items():
        rows = [[one_line(index), f1.first, f1.second, f1.value] for index, f1 in videos[:most]]
        shown = columns("Video", ("A", PERCENT), ("B", PERCENT), ("B − A", POINTS))
        tables += [Table(titles[way], shown, [*rows])] if rows else []
    return tables


def _matrix(found: Matrix) -> list[Table]:
    letters = [letter_of(place) for place in range(len(found.runs))]
    ranks = Table(
        f"Precision, recall and F1 of all elements, {counted(found.paired, 'video')}; rank by F1",
        columns(
            "", "Run", ("P", PERCENT), ("R", PERCENT), ("F1", PERCENT), ("rank", COUNT), words=2
        ),
        [
            [letter, one_line(run.name), run.precision, run.recall, run.f1, run.cluster]
            for letter, run in zip(letters, found.runs, strict=True)
        ],
    )
    pairs = _pairs(found)
    of_pairs = columns("", *((letter, _PAIR) for letter in letters))
    square = Table("F1, row − column, in points (p, Holm)", of_pairs)
    for letter, run in zip(letters, found.runs, strict=True):
        cells = []
        for other in found.runs:
            pair = pairs.get(frozenset((run.name, other.name)))
            cells.append(_paired(pair, run.name) if pair else None)
        square.rows.append([letter, *cells])
    return [ranks, square]


def _pairs(found: Matrix) -> dict[frozenset[str], PairDifference]:
    return {frozenset((pair.first, pair.second)): pair for pair in found.pairs}


def _paired(pair: PairDifference, row: str) -> tuple[float, float]:
    return pair.value if pair.second == row else -pair.value, pair.p_adjusted


def _coverage(found: Compared) -> list[str]:
    lines = []
    for place, run in enumerate(_runs(found)):
        line = (
            f"{letter_of(place)} {_name(run)}: captioned {share(run.captioned, run.annotated)}, "
            f"scored {share(run.scored, run.captioned)}"
        )
        if run.left_out:
            line += f", left out {thousands(len(run.left_out))} ({_reasons(run)})"
        lines.append(line)
    return lines


def _reasons(run: Side, most: int = 3) -> str:
    reasons = Counter(one_line(left.reason, 120) for left in run.left_out).most_common()
    shown = [f"{thousands(count)} {reason}" for reason, count in reasons[:most]]
    return "; ".join([*shown, *(["…"] if len(reasons) > most else [])])


def _explained(found: Compared) -> str:
    interval = found.settings["interval"]
    test = found.settings["test"]
    resamples = f"{thousands(test['resamples'])} resamples, seed {test['seed']}"
    if isinstance(found, Comparison):
        return (
            f"Intervals: {interval['method']}; none for fewer than {FEWEST_VIDEOS} videos. "
            f"p: {test['method']}, {resamples}; the p of buckets is also adjusted (Holm), that of "
            "all videos is not."
        )
    return (
        f"p: {test['method']}, {resamples}; adjusted by Holm over all pairs. rank: a run ranks "
        f"lower if it is worse than every run of the rank above (p <= {plain_number(ALPHA)})."
    )


def _sides(found: Comparison) -> str:
    return f"A {_name(found.first)}, B {_name(found.second)}"


def _name(run: Side) -> str:
    return one_line(run.name)
