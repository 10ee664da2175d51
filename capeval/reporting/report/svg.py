"""Charts as plain inline SVG, coloured by the page's style sheet alone.

Series are told apart by their letter, the shape of their marks and their dashes; colour only adds
to that. A value that is missing is a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from capeval.errors import one_line
from capeval.reporting.figures import Grid, Series
from capeval.reporting.numbers import interval, percent, thousands
from capeval.scoring import Estimate

__all__ = ["Share", "chart", "place_name", "shares"]

_WIDTH = 360
_LEFT, _RIGHT = 122, 300
_COLOURS = 6
_DASHES = ("", "6 3", "2 2", "8 3 2 3", "4 4", "1 3")
_LONGEST_LABEL = 19


@dataclass(frozen=True)
class Share:
    """A row of a stacked bar: whole numbers that add up to the row's total."""

    label: str
    entailed: int
    contradicted: int
    lacked: int

    @property
    def total(self) -> int:
        """The whole."""
        return self.entailed + self.contradicted + self.lacked


def chart(grid: Grid, letters: Sequence[str]) -> Markup:
    """Return a grid as an SVG element; `letters` name its series.

    Places without an order become rows of marks with whiskers, an order becomes curves.
    """
    body, height = _curves(grid, letters) if grid.kind == "curves" else _rows(grid, letters)
    return _svg(grid.name, grid.title, _told(grid, letters), body, height)


def shares(name: str, title: str, rows: Sequence[Share]) -> Markup:
    """Return stacked bars of what was entailed, contradicted and lacked."""
    body: list[Markup] = []
    told: list[str] = []
    for place, row in enumerate(rows):
        y = 4 + 22 * place
        body.append(_text(_LEFT - 8, y + 12, row.label, anchor="end"))
        start = float(_LEFT)
        end = _WIDTH - 4
        for kind, sign, part in (
            ("e", "✓", row.entailed),
            ("c", "✗", row.contradicted),
            ("l", "–", row.lacked),
        ):
            wide = (end - _LEFT) * part / row.total if row.total else 0.0
            if wide > 0:
                shape = _tag("rect", x=start, y=y, width=wide, height=16, class_=f"part {kind}")
                body.append(shape)
            share = percent(part / row.total) if row.total else ""
            if wide >= 46:
                body.append(_text(start + 4, y + 12, f"{sign} {share}", class_=f"on {kind}"))
            elif wide >= 12:
                body.append(_text(start + 3, y + 12, sign, class_=f"on {kind}"))
            start += wide
        told.append(
            f"{row.label}: entailed {_of(row.entailed, row)}, contradicted "
            f"{_of(row.contradicted, row)}, lacking {_of(row.lacked, row)}"
        )
    return _svg(name, title, "; ".join(told), body, 6 + 22 * len(rows))


def _of(part: int, row: Share) -> str:
    return f"{percent(part / row.total)}%" if row.total else "–"


def _told(grid: Grid, letters: Sequence[str]) -> str:
    """Return what a chart shows, in words."""
    parts = []
    for letter, series in zip(letters, grid.series, strict=True):
        values = ", ".join(
            f"{place_name(place, 80)} {interval(value) if value else 'no value'}"
            for place, value in zip(grid.places, series.values, strict=True)
        )
        parts.append(f"{letter} ({one_line(series.name, 80)}): {values}")
    return "F1 in percent with 95% intervals. " + "; ".join(parts)


def _rows(grid: Grid, letters: Sequence[str]) -> tuple[list[Markup], float]:
    several = len(grid.series) > 1
    step = 14 if several else 16
    high = max(step * len(grid.series) + 8, 30)
    top_value = _most(grid)
    body = _scale(len(grid.places) * high, top_value)
    for place, label in enumerate(grid.places):
        top = place * high
        middle = top + high / 2
        body.append(_text(_LEFT - 8, middle - 1, _cut(label), anchor="end", tip=label))
        body.append(
            _text(_LEFT - 8, middle + 10, _videos(grid.sizes[place]), anchor="end", class_="soft")
        )
        first = middle - step * (len(grid.series) - 1) / 2
        for number, (letter, series) in enumerate(zip(letters, grid.series, strict=True)):
            y = first + step * number
            value = series.values[place]
            if value is None or value.value is None:
                body.append(_text(_LEFT + 4, y + 4, "no value", class_="soft"))
                continue
            body.append(_row_mark(value, y, number, top_value, bar=not several))
            shown = f"{letter} {percent(value.value)}" if several else percent(value.value)
            body.append(_text(_WIDTH - 4, y + 4, shown, anchor="end", class_="value"))
    return body, len(grid.places) * high + 18


def _row_mark(value: Estimate, y: float, number: int, most: float, *, bar: bool) -> Markup:
    parts = []
    at = _across(value.value or 0, most)
    if bar:
        parts.append(_tag("rect", x=_LEFT, y=y - 6, width=at - _LEFT, height=12, class_="bar"))
    if value.low is not None and value.high is not None:
        low, high = _across(value.low, most), _across(value.high, most)
        parts.append(
            _tag(
                "path",
                d=f"M{low:.1f} {y:.1f}H{high:.1f}M{low:.1f} {y - 3:.1f}v6M{high:.1f} {y - 3:.1f}v6",
                class_="whisker",
            )
        )
    parts.append(_mark(at, y, number))
    return _tag("g", *parts, class_=f"s{number % _COLOURS}")


def _scale(height: float, most: float) -> list[Markup]:
    parts = []
    for tick in range(5):
        value = most * tick / 4
        x = _across(value, most)
        parts.append(_tag("path", d=f"M{x:.1f} 0V{height:.1f}", class_="rule"))
        parts.append(_text(x, height + 13, f"{100 * value:g}", anchor="middle", class_="soft"))
    return parts


def _across(value: float, most: float) -> float:
    return _LEFT + (_RIGHT - _LEFT) * value / most


_TOP, _BOTTOM, _START, _END = 12.0, 168.0, 34.0, 336.0


def _curves(grid: Grid, letters: Sequence[str]) -> tuple[list[Markup], float]:
    top = _most(grid)
    gap = (_END - _START) / max(len(grid.places), 1)
    body = []
    for tick in range(5):
        value = top * tick / 4
        y = _up(value, top)
        body.append(_tag("path", d=f"M{_START} {y:.1f}H{_END}", class_="rule"))
        body.append(_text(_START - 5, y + 4, f"{100 * value:g}", anchor="end", class_="soft"))
    for place, label in enumerate(grid.places):
        x = _START + gap * (place + 0.5)
        body.append(_text(x, _BOTTOM + 15, _cut(label), anchor="middle"))
        body.append(
            _text(
                x, _BOTTOM + 27, f"n {thousands(grid.sizes[place])}", anchor="middle", class_="soft"
            )
        )
    body.append(_text((_START + _END) / 2, _BOTTOM + 43, grid.axis, anchor="middle", class_="soft"))
    shift = min(9.0, gap / (len(grid.series) + 1))
    for number, (letter, series) in enumerate(zip(letters, grid.series, strict=True)):
        offset = (number - (len(grid.series) - 1) / 2) * shift
        xs = [_START + gap * (place + 0.5) + offset for place in range(len(grid.places))]
        label = letter if len(grid.series) > 1 else ""
        body.append(_curve(series, xs, top, number, label))
    return body, _BOTTOM + 48


def _curve(series: Series, xs: Sequence[float], top: float, number: int, letter: str) -> Markup:
    parts: list[Markup] = []
    line = ""
    last: tuple[float, float] | None = None
    for x, value in zip(xs, series.values, strict=True):
        if value is None or value.value is None:
            # What is not known is not bridged.
            line += " "
            continue
        y = _up(value.value, top)
        line += f"{'L' if line and line[-1] != ' ' else 'M'}{x:.1f} {y:.1f}"
        if value.low is not None and value.high is not None:
            low, high = _up(value.low, top), _up(value.high, top)
            parts.append(
                _tag(
                    "path",
                    d=f"M{x:.1f} {low:.1f}V{high:.1f}"
                    f"M{x - 3:.1f} {low:.1f}h6M{x - 3:.1f} {high:.1f}h6",
                    class_="whisker",
                )
            )
        parts.append(_mark(x, y, number, tip=interval(value)))
        if not letter:
            parts.append(_text(x + 6, y - 5, percent(value.value), class_="value small"))
        last = (x, y)
    dash = _DASHES[number % len(_DASHES)]
    drawn = _tag("path", d=line.strip(), class_="line", stroke_dasharray=dash or None)
    if letter and last:
        parts.append(_text(last[0] + 7, last[1] + 4, letter, class_="value"))
    return _tag("g", drawn, *parts, class_=f"s{number % _COLOURS}")


def _most(grid: Grid) -> float:
    """Return where the scale of a grid ends: scales begin at 0 and end at 50 or 100 percent."""
    known = [v for series in grid.series for v in series.values if v is not None]
    highest = max((v.high or v.value or 0 for v in known), default=1.0)
    return 0.5 if highest <= 0.5 else 1.0


def _up(value: float, top: float) -> float:
    return _BOTTOM - (_BOTTOM - _TOP) * value / top


def _mark(x: float, y: float, number: int, tip: str = "") -> Markup:
    """Return the mark of a series: circle, square, triangle, diamond, cross, ring."""
    title = [_tag("title", tip)] if tip else []
    match number % _COLOURS:
        case 0:
            return _tag("circle", *title, cx=x, cy=y, r=4, class_="mark")
        case 1:
            return _tag("rect", *title, x=x - 3.5, y=y - 3.5, width=7, height=7, class_="mark")
        case 5:
            return _tag("circle", *title, cx=x, cy=y, r=3.5, class_="mark open")
        case shape:
            paths = {
                2: f"M{x:.1f} {y - 4.5:.1f}l4.5 8h-9z",
                3: f"M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z",
                4: f"M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8",
            }
            return _tag(
                "path", *title, d=paths[shape], class_="mark open" if shape == 4 else "mark"
            )


def _videos(count: int) -> str:
    return f"{thousands(count)} video" + ("" if count == 1 else "s")


def place_name(place: str, limit: int = 300) -> str:
    """Return a bucket's name for people.

    >>> place_name("<=15"), place_name(">=31"), place_name("16-20")
    ('≤15', '≥31', '16-20')
    """
    if place[:2] in ("<=", ">="):
        place = {"<": "≤", ">": "≥"}[place[0]] + place[2:]
    return one_line(place, limit)


def _cut(label: str) -> str:
    return place_name(label, _LONGEST_LABEL)


def _svg(name: str, title: str, told: str, body: Sequence[Markup], height: float) -> Markup:
    return _tag(
        "svg",
        _tag("title", title, id=f"{name}-title"),
        _tag("desc", told, id=f"{name}-desc"),
        *body,
        viewBox=f"0 0 {_WIDTH} {height:g}",
        role="img",
        class_="chart",
        aria_labelledby=f"{name}-title {name}-desc",
    )


def _text(
    x: float,
    y: float,
    told: str,
    *,
    anchor: str | None = None,
    class_: str | None = None,
    tip: str = "",
) -> Markup:
    title = [_tag("title", one_line(tip))] if tip and tip != told else []
    return _tag("text", *title, told, x=x, y=y, text_anchor=anchor, class_=class_)


def _tag(name: str, *children: str, **attributes: str | float | None) -> Markup:
    """Return an element; text and attributes are escaped, attributes of None are left out."""
    given = Markup("").join(
        Markup(' {}="{}"').format(
            key.removesuffix("_").replace("_", "-"),
            value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0"),
        )
        for key, value in attributes.items()
        if value is not None
    )
    inside = Markup("").join(escape(child) for child in children)
    return Markup("<{}{}>{}</{}>").format(name, given, inside, name)
