"""Elements of inline SVG, with all text escaped; the page's style sheet has their colours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from capeval.text import one_line

COLOURS = 6
"""The number of series with a colour and a mark of their own."""


@dataclass(frozen=True)
class Scale:
    """Maps fractions from `low` to `high` to the coordinates from `start` to `end`."""

    low: float
    high: float
    ticks: tuple[float, ...]
    start: float = 0.0
    end: float = 1.0

    @classmethod
    def around(cls, values: Iterable[float]) -> Scale:
        """Return a scale around all values.

        >>> Scale.around([0.62, 0.71]).ticks
        (0.6, 0.65, 0.7, 0.75, 0.8)
        """
        known = list(values) or [0.0, 1.0]
        for step in (5, 10, 20, 25):
            low = math.floor(100 * min(known) / step + 1e-9) * step
            high = math.ceil(100 * max(known) / step - 1e-9) * step
            while high - low < 4 * step:
                # Add a step above and, if more is needed, one below.
                high += step if high < 100 else 0
                low -= step if low > 0 and high - low < 4 * step else 0
            if (high - low) / step <= 5:
                break
        ticks = range(low, high + 1, step)
        return cls(low / 100, high / 100, tuple(tick / 100 for tick in ticks))

    def over(self, start: float, end: float) -> Scale:
        """Return the same scale between two coordinates."""
        return Scale(self.low, self.high, self.ticks, start, end)

    def __call__(self, value: float) -> float:
        """Return the coordinate of a value."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + (self.end - self.start) * share


def px(coordinate: float) -> str:
    """Return a coordinate with at most one decimal, more than which cannot be seen.

    >>> px(12.345), px(12.0)
    ('12.3', '12')
    """
    return f"{coordinate:.1f}".removesuffix(".0")


def tag(name: str, *children: str, **attributes: str | float | None) -> Markup:
    """Return an element; text and attributes are escaped, attributes of None are left out.

    >>> tag("text", "a < b", x=1, class_="soft", stroke_width=None)
    Markup('<text x="1" class="soft">a &lt; b</text>')
    """
    given = Markup("").join(
        Markup(' {}="{}"').format(
            key.removesuffix("_").replace("_", "-"),
            value if isinstance(value, str) else px(value),
        )
        for key, value in attributes.items()
        if value is not None
    )
    inside = Markup("").join(escape(child) for child in children)
    return Markup("<{}{}>{}</{}>").format(name, given, inside, name)


def text(
    x: float,
    y: float,
    content: str,
    *,
    anchor: str | None = None,
    class_: str | None = None,
    tip: str = "",
) -> Markup:
    """Return a line of text; `tip` is the whole text where it had to be cut."""
    title = [tag("title", one_line(tip))] if tip and tip != content else []
    return tag("text", *title, content, x=x, y=y, text_anchor=anchor, class_=class_)


def mark(x: float, y: float, number: int, *, hollow: bool = False) -> Markup:
    """Return the mark of a series: circle, square, triangle, diamond, triangle on its tip, plus.

    `hollow` is a value without an interval.
    """
    kind = "mark hollow" if hollow else "mark"
    top = f"M{px(x)} {px(y - 4.5)}"
    match number % COLOURS:
        case 0:
            return tag("circle", cx=x, cy=y, r=3.5, class_=kind)
        case 1:
            return tag("rect", x=x - 3.2, y=y - 3.2, width=6.4, height=6.4, class_=kind)
        case 2:
            d = f"{top}l4.5 8h-9z"
        case 3:
            d = f"{top}l4.5 4.5l-4.5 4.5l-4.5 -4.5z"
        case 4:
            d = f"M{px(x)} {px(y + 4.5)}l4.5 -8h-9z"
        case _:
            d = f"M{px(x - 1.5)} {px(y - 4.5)}h3v3h3v3h-3v3h-3v-3h-3v-3h3z"
    return tag("path", d=d, class_=kind)


def picture(
    name: str, title: str, description: str, body: Sequence[Markup], size: tuple[float, float]
) -> Markup:
    """Return an SVG element with a title and a description; `name` must be unique on the page."""
    return tag(
        "svg",
        tag("title", title, id=f"{name}-title"),
        tag("desc", description, id=f"{name}-desc"),
        *body,
        viewBox=f"0 0 {px(size[0])} {px(size[1])}",
        role="img",
        class_="chart",
        aria_labelledby=f"{name}-title {name}-desc",
    )
