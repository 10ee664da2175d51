"""The page: sizes, type, styles that keep series apart without their colours, and files."""

from __future__ import annotations

import importlib
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from capeval.errors import MissingExtra
from capeval.reporting.figures import Confusion, Figure, Forest, Grid, Scatter
from capeval.reporting.numbers import place_name
from capeval.schema import ELEMENT_TYPES
from capeval.text import both_ends, one_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

Format = Literal["svg", "pdf", "png"]
FORMATS: tuple[Format, ...] = ("svg", "pdf", "png")

WIDTHS = {"column": 3.3, "text": 6.9}
"""Inches of a column of a two-column paper, and of the whole text."""

GREY = "#666666"

# Okabe and Ito's palette, safe for the colour-blind; its yellow is too pale on white.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
_DASHES: tuple[Any, ...] = (
    "-",
    (0, (4, 1.5)),
    (0, (1, 1)),
    (0, (5, 1, 1, 1)),
    (0, (3, 1, 1, 1, 1, 1)),
)
_HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "||||", "++++", "oo")

# Longer names of series and places are shortened in the middle.
_LONGEST_NAME, _LONGEST_PLACE = 26, 28


@dataclass(frozen=True)
class Paper:
    """The room for a figure: `width` in inches."""

    width: float = WIDTHS["column"]

    @property
    def square(self) -> float:
        """The width of a square figure, which is at most a column's."""
        return min(self.width, WIDTHS["column"])


@dataclass(frozen=True)
class Style:
    """How one series looks; each of these differs from its neighbours'."""

    colour: str
    marker: str
    dash: Any
    hatch: str


def style_of(place: int) -> Style:
    """Return the style of a series by its place, which is the same in every figure.

    No two of the first 63 have both one colour and one marker, or both one colour and one hatch.
    """
    return Style(
        _COLOURS[place % len(_COLOURS)],
        _MARKERS[place % len(_MARKERS)],
        _DASHES[place % len(_DASHES)],
        _HATCHES[place % len(_HATCHES)],
    )


def require_plot_extra() -> None:
    """Import what drawing needs.

    Raises
    ------
    MissingExtra
        matplotlib is not installed.
    """
    try:
        importlib.import_module("matplotlib")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "matplotlib":
            raise
        raise MissingExtra("figures need matplotlib", "plot") from error


@contextmanager
def settings() -> Iterator[None]:
    """Draw with matplotlib's defaults and ours, and restore the user's settings afterwards.

    The font is the one that comes with matplotlib, so that every machine draws alike. Text is
    never read as mathematics.
    """
    import matplotlib

    # Reading the backend's setting would choose a backend for good.
    defaults: dict[Any, Any] = dict(dict.items(matplotlib.rcParamsDefault))
    del defaults["backend"]
    ours: dict[Any, Any] = {
        "font.family": ["DejaVu Sans"],
        "font.size": 7.0,
        "axes.labelsize": 7.0,
        "axes.titlesize": 7.5,
        "xtick.labelsize": 6.5,
        "ytick.labelsize": 6.5,
        "legend.fontsize": 6.5,
        "text.parse_math": False,
        "text.usetex": False,
        "axes.formatter.use_mathtext": False,
        "axes.linewidth": 0.6,
        "axes.edgecolor": "#333333",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.unicode_minus": True,
        "grid.color": "#dddddd",
        "grid.linewidth": 0.5,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "xtick.major.size": 2.5,
        "ytick.major.size": 2.5,
        "lines.linewidth": 1.1,
        "lines.markersize": 3.5,
        "hatch.linewidth": 0.5,
        "legend.frameon": False,
        "legend.handlelength": 2.2,
        "savefig.dpi": 300,
        "pdf.fonttype": 42,
        "svg.fonttype": "path",
        "svg.hashsalt": "capeval",
    }
    with matplotlib.rc_context({**defaults, **ours}):
        yield


def printable(text: str) -> str:
    """Return text on one line, with characters that the font lacks as escapes."""
    has = _font().get_char_index
    return "".join(
        c if has(ord(c)) else c.encode("unicode_escape").decode("ascii") for c in one_line(text)
    )


def place_label(place: str) -> str:
    """Return the name of a bucket or type as every figure has it.

    >>> place_label("<=2"), place_label("action")
    ('≤2', 'Action')
    """
    name = printable(place_name(place))
    return both_ends(name.title() if name in ELEMENT_TYPES else name, _LONGEST_PLACE)


@lru_cache(maxsize=1)
def _font() -> Any:
    from matplotlib.font_manager import FontProperties, findfont, get_font

    return get_font(findfont(FontProperties(family=["DejaVu Sans"])))


def short_names(names: Sequence[str]) -> list[str]:
    """Return names short enough for a legend and still different; a long one keeps both its ends.

    >>> short_names(["a-model-with-a-very-long-name-2024-08-06", "b"])
    ['a-model-with-…e-2024-08-06', 'b']
    """
    short = [both_ends(printable(name), _LONGEST_NAME) for name in names]
    return [
        name if short.count(name) == 1 else f"{name} [{place}]"
        for place, name in enumerate(short, start=1)
    ]


# Inches of a letter of a legend, of its handle and gaps, and of a row.
_LETTER, _HANDLE, _ROW = 0.058, 0.45, 0.15
# More series, in a wide figure, have the legend beside the axes.
_MANY = 8


def add_legend(drawing: Drawing, handles: Sequence[Any], names: Sequence[str]) -> None:
    """Add the legend above the axes, or beside them where there are many series and room.

    Above, the drawing grows by the legend's further rows, so that the axes keep their height.
    """
    count = len(names)
    if not count:
        return
    width = drawing.get_figwidth()
    # Names are set afterwards: matplotlib drops those that begin with an underscore.
    places = [str(place) for place in range(count)]
    if count > _MANY and width > 5:
        legend = drawing.legend(handles, places, loc="outside right upper")
        drawing.set_figheight(max(drawing.get_figheight(), _ROW * (count + 2)))
    else:
        longest = max(map(len, names))
        columns = min(count, max(1, int(width / (_LETTER * longest + _HANDLE))))
        legend = drawing.legend(
            handles, places, loc="outside upper center", ncols=columns, columnspacing=1.0
        )
        rows = -(-count // columns)
        drawing.set_figheight(drawing.get_figheight() + _ROW * (rows - 1))
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_text(name)


_DOCTYPE = re.compile(rb"<!DOCTYPE svg[^>]*>\s*")
_METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "Creator": "capeval", "Producer": None},
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "png": {"Software": None},
}


def rendered(figure: Figure, form: Format, paper: Paper | None = None) -> bytes:
    """Return a figure as a file. PDF has TrueType fonts embedded; SVG has text as outlines.

    Raises
    ------
    MissingExtra
        matplotlib is not installed.
    """
    require_plot_extra()
    out = io.BytesIO()
    with settings():
        drawn(figure, paper).savefig(out, format=form, metadata=_METADATA[form])
    # matplotlib names a DTD on the web, which a strict reader would fetch.
    return _DOCTYPE.sub(b"", out.getvalue(), count=1) if form == "svg" else out.getvalue()


def drawn(figure: Figure, paper: Paper | None = None) -> Drawing:
    """Return a figure drawn at paper size.

    Raises
    ------
    MissingExtra
        matplotlib is not installed.
    """
    require_plot_extra()
    from capeval.reporting.plots import comparisons, grids

    paper = paper or Paper()
    with settings():
        match figure:
            case Grid(kind="radar"):
                return grids.radar(figure, paper)
            case Grid(kind="curves"):
                return grids.curves(figure, paper)
            case Grid():
                return grids.bars(figure, paper)
            case Forest():
                return comparisons.forest(figure, paper)
            case Scatter():
                return comparisons.scatter(figure, paper)
            case Confusion():
                return comparisons.confusion(figure, paper)


def is_empty(figure: Figure) -> bool:
    """Return whether a figure would show nothing."""
    match figure:
        case Grid():
            estimates = (value for series in figure.series for value in series.values)
            return all(one is None or one.value is None for one in estimates)
        case Forest():
            return all(row.value is None for row in figure.rows)
        case Scatter():
            return not any(figure.points.values())
        case Confusion():
            return not any(map(any, figure.counts))
