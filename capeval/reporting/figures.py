"""The data of figures, which the report and `capeval plot` share, and how matplotlib draws them.

Values are fractions and drawn as percentages. None is a gap, never a zero.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from capeval.comparing.comparison import Comparison, Differences
from capeval.schema import ELEMENT_TYPES
from capeval.scoring.counts import WAYS, Way
from capeval.scoring.judged_run import JudgedRun
from capeval.scoring.scores import Estimate, TypeScores, scores_by
from capeval.show.numbers import Bounded, p_value, percent, place_name, thousands
from capeval.text import both_ends, one_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

Cells = Sequence[TypeScores | None]


@dataclass(frozen=True)
class Grid:
    """Scores of several series (runs or models) at named places.

    `by` says what the places are, and `ordered` whether they have an order.
    """

    name: str
    by: str
    ordered: bool
    places: Sequence[str]
    series: Mapping[str, Cells]

    @property
    def values(self) -> list[list[Estimate | None]]:
        return [[cell.f1 if cell else None for cell in cells] for cells in self.series.values()]

    @property
    def rows(self) -> list[tuple[str, Cells]]:
        cells = zip(*self.series.values(), strict=True)
        return list(zip(self.places, cells, strict=True)) if self.series else []

    @property
    def empty(self) -> bool:
        return all(one is None or one.value is None for values in self.values for one in values)

    @property
    def few(self) -> bool:
        known = (one for values in self.values for one in values if one is not None)
        return any(one.value is not None and None in (one.low, one.high) for one in known)


@dataclass(frozen=True)
class ForestRow:
    """A difference with its interval; `p` is the one to show, `adjusted` if by Holm."""

    label: str
    of: Bounded
    p: float | None
    n: int
    adjusted: bool = False


@dataclass(frozen=True)
class Forest:
    """Differences of two runs, second − first, by bucket."""

    name: str
    axis: str
    rows: Sequence[ForestRow]

    @property
    def empty(self) -> bool:
        return all(row.of.value is None for row in self.rows)


@dataclass(frozen=True)
class Scatter:
    """A metric and human ratings: (metric, human) points by system."""

    name: str
    x: str
    y: str
    points: Mapping[str, Sequence[tuple[float, float]]]
    note: str = ""

    @property
    def empty(self) -> bool:
        return not any(self.points.values())


Figure = Grid | Forest | Scatter


def breakdowns(runs: Mapping[str, JudgedRun]) -> dict[str, Grid]:
    """Return F1 by each kind of element and video, by the name of the figure.

    `frames` (the paper's figure 11) has a series for each model with runs of different numbers of
    frames; it is left out where there is none.
    """
    # The data's own groups may be many: they come last.
    ways = sorted(WAYS.items(), key=lambda way: not way[1].groups)
    found = {
        way.plural: _grid(way, {run: scores_by(of.scores, key) for run, of in runs.items()})
        for key, way in ways
    }
    models: dict[str, dict[str, TypeScores]] = {}
    for name, run in runs.items():
        if run.frames is not None and re.fullmatch(r"[0-9]+", run.frames):
            models.setdefault(run.model or name, {})[run.frames] = run.scores.overall.all
    several = {model: by for model, by in models.items() if len(by) > 1}
    if several:
        counts = sorted({count for of in several.values() for count in of}, key=int)
        way = Way("number of frames", "Frames", "frames", tuple(counts), unit=" frames")
        found["frames"] = _grid(way, several)
    return found


def _grid(way: Way, series: Mapping[str, Mapping[str, TypeScores]]) -> Grid:
    known = {place for of in series.values() for place in of}
    places = tuple(place for place in way.groups or sorted(known) if place in known)
    cells = {one: tuple(of.get(place) for place in places) for one, of in series.items()}
    return Grid(way.plural, way.title, bool(way.unit), places, cells)


def forest_of(found: Comparison) -> Forest:
    """Return the forest plot of the F1 of a comparison: overall, by type, and in every bucket.

    The p of buckets is adjusted, that of types is not.
    """
    first, second = (both_ends(run.name, 60) for run in (found.first, found.second))
    rows = [
        ForestRow(name if name != "all" else "overall", of.f1, of.f1.p, of.n)
        for name in ("all", *ELEMENT_TYPES)
        for of in [getattr(found.overall, name)]
    ]
    for way in Differences.model_fields:
        for name, bucket in getattr(found.by, way).items():
            label, of = f"{name}{WAYS[way].unit}", bucket.all
            rows.append(ForestRow(label, of.f1, bucket.p_adjusted, of.n, adjusted=True))
    return Forest("forest", f"F1 of {second} − F1 of {first} (points)", rows)


# ---- Drawings ---------------------------------------------------------------------------------

FigureFormat = Literal["svg", "pdf", "png"]
_WIDTH = 3.3
"""Inches: the column of a two-column paper."""

# Okabe and Ito's palette, safe for the colour-blind; its yellow is too pale on white.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
_GREY = "#666666"
_LONGEST_NAME = 28
# Inches of a row, and of what is around the rows.
_ROW, _AROUND = 0.13, 0.8
_METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None},
    "svg": {"Date": None},
    "png": {"Software": None},
}
_SETTINGS: dict[Any, Any] = {
    "font.size": 7.0,
    "text.parse_math": False,  # a run may be called "$x$"
    "axes.formatter.use_mathtext": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "legend.frameon": False,
    "lines.linewidth": 1.0,
    "lines.markersize": 3.5,
    "savefig.dpi": 300,
    "pdf.fonttype": 42,
    "svg.hashsalt": "capeval",
}


def figure_file(figure: Figure, form: FigureFormat) -> bytes:
    """Return a figure as a file, drawn with matplotlib's own defaults and not the user's.

    PDF has TrueType fonts embedded; SVG has text as outlines.
    """
    import matplotlib

    # Reading the backend setting would choose one permanently.
    defaults: dict[Any, Any] = dict(dict.items(matplotlib.rcParamsDefault))
    del defaults["backend"]
    out = io.BytesIO()
    with matplotlib.rc_context({**defaults, **_SETTINGS}):
        drawn(figure).savefig(out, format=form, metadata=_METADATA[form])
    return out.getvalue()


def drawn(figure: Figure) -> Drawing:
    """Return a figure of the width of a column."""
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing(figsize=(_WIDTH, 2.4), layout="constrained")
    axes = drawing.add_subplot()
    axes.grid(visible=True)
    match figure:
        case Grid():
            named = _lines(axes, figure) if figure.ordered else _bars(axes, figure)
        case Forest():
            named = _forest(axes, figure)
        case Scatter():
            named = _scatter(axes, figure)
    if named:
        _add_legend(drawing, named)
    return drawing


_Named = list[tuple[Any, str]]


def _bars(axes: Any, grid: Grid) -> _Named:
    named = []
    high = 0.8 / len(grid.series)
    for number, (name, estimates) in enumerate(zip(grid.series, grid.values, strict=True)):
        values, ends = _percent(estimates)
        places = _beside(grid, high, number)
        error = {"xerr": ends, "error_kw": {"elinewidth": 0.8}}
        handle = axes.barh(places, values, high, color=_look(number)["color"], **error)
        # A bar of 0 would look like a missing value.
        shown = [percent(one.value) if one and one.value is not None else "" for one in estimates]
        axes.bar_label(handle, shown, padding=2, fontsize=5)
        named.append((handle, name))
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.12)
    _rows(axes, _places(grid, " "), _ROW * (len(grid.series) + 1))
    axes.set_xlabel("F1 (%)")
    return named


def _lines(axes: Any, grid: Grid) -> _Named:
    named = []
    for number, (name, estimates) in enumerate(zip(grid.series, grid.values, strict=True)):
        values, ends = _percent(estimates)
        places = _beside(grid, 0.2 / (len(grid.series) + 1), number)
        handle = axes.errorbar(places, values, yerr=ends, elinewidth=0.8, **_look(number))
        named.append((handle, name))
    axes.set_xticks(range(len(grid.places)), _places(grid, "\n"))
    axes.set_xlabel(grid.by.capitalize())
    axes.set_title("F1 (%)", fontsize=7.0, loc="left")
    return named


def _forest(axes: Any, forest: Forest) -> _Named:
    values, ends = _percent([row.of for row in forest.rows])
    axes.axvline(0, color=_GREY, linewidth=0.7)
    axes.errorbar(values, range(len(values)), xerr=ends, linestyle="none", **_look(0))
    labels = [
        f"{_text(place_name(row.label))} n={row.n:,} {'p (Holm)' if row.adjusted else 'p'} "
        f"{p_value(row.p)}"
        for row in forest.rows
    ]
    _rows(axes, labels, 1.3 * _ROW)
    # Of the figure, which is wider than the axes beside the rows' names.
    axes.figure.supxlabel(textwrap.fill(_text(forest.axis, 200), 50), fontsize=7.0)
    return []


def _scatter(axes: Any, scatter: Scatter) -> _Named:
    named = []
    for number, (system, points) in enumerate(scatter.points.items()):
        x, y = zip(*points, strict=True)
        look = {"linestyle": "none", "markerfacecolor": "none", "clip_on": False}
        named += [(handle, system) for handle in axes.plot(x, y, **_look(number), **look)]
    axes.set_xlabel(_text(scatter.x, 60))
    axes.set_ylabel(_text(scatter.y, 60))
    axes.set_title(scatter.note, fontsize=6.5, loc="right")
    axes.figure.set_figheight(_WIDTH)
    return named if len(named) > 1 else []


def _rows(axes: Any, labels: Sequence[str], inches: float) -> None:
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.figure.set_figheight(_AROUND + inches * len(labels))


def _add_legend(drawing: Drawing, named: _Named) -> None:
    handles, names = zip(*named, strict=True)
    texts = [_text(name) for name in names]
    columns = max(1, int(drawing.get_figwidth() / (0.06 * max(map(len, texts)) + 0.5)))
    # matplotlib leaves out names that begin with an underscore, so they are set afterwards.
    places = [str(place) for place in range(len(texts))]
    legend = drawing.legend(handles, places, loc="outside upper center", ncols=columns)
    for place, text in enumerate(texts):
        same = texts.count(text) > 1
        legend.get_texts()[place].set_text(f"{text} [{place + 1}]" if same else text)
    drawing.set_figheight(drawing.get_figheight() + 0.15 * math.ceil(len(texts) / columns))


def _look(number: int) -> dict[str, Any]:
    """Return the look of a series, which is the same in every figure of the same runs."""
    colour, marker = _COLOURS[number % len(_COLOURS)], _MARKERS[number % len(_MARKERS)]
    return {"color": colour, "marker": marker}


def _percent(estimates: Sequence[Bounded | None]) -> tuple[list[float], list[list[float]]]:
    """Return values in percent, and the distances of their interval ends below and above."""
    known = [(one.value, one.low, one.high) if one else (None, None, None) for one in estimates]
    values = [math.nan if value is None else 100 * value for value, _, _ in known]
    ends: list[list[float]] = [[], []]
    for value, (_, *known_ends) in zip(values, known, strict=True):
        for side, end in zip(ends, known_ends, strict=True):
            side.append(0.0 if end is None else abs(100 * end - value))
    return values, ends


def _beside(grid: Grid, step: float, number: int) -> list[float]:
    aside = step * (number - (len(grid.series) - 1) / 2)
    return [place + aside for place in range(len(grid.places))]


def _places(grid: Grid, joint: str) -> list[str]:
    labels = []
    for place, cells in grid.rows:
        sizes = [cell.n if cell else 0 for cell in cells]
        ends = dict.fromkeys((thousands(min(sizes)), thousands(max(sizes))))
        labels.append(f"{_text(place_name(place))}{joint}n={'–'.join(ends)}")
    return labels


def _text(text: str, longest: int = _LONGEST_NAME) -> str:
    """Return one line, shortened in the middle; characters that the font lacks are escaped."""
    has = _font().get_char_index
    escaped = (c if has(ord(c)) else c.encode("unicode_escape").decode() for c in one_line(text))
    return both_ends("".join(escaped), longest)


@lru_cache(maxsize=1)
def _font() -> Any:
    from matplotlib.font_manager import FontProperties, findfont, get_font

    return get_font(findfont(FontProperties(family=["DejaVu Sans"])))
