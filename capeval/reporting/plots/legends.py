"""The legend: outside the axes, so that it never covers what it explains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

__all__ = ["add_legend"]

# Inches of a letter of a legend, of its handle and gaps, and of a row.
_LETTER, _HANDLE, _ROW = 0.058, 0.45, 0.15

_MANY = 8


def add_legend(drawing: Drawing, handles: Sequence[Any], names: Sequence[str]) -> None:
    """Add the legend above the axes, or beside them where there are many series and room.

    Above, the drawing grows by the legend's further rows, so that the axes keep their height.
    """
    count = len(names)
    if not count:
        return
    width = drawing.get_figwidth()
    # Names come in afterwards: matplotlib drops those that begin with an underscore.
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
