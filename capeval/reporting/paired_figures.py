"""What a forest plot of two runs' differences shows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from capeval.reporting.figures import Forest, ForestRow

__all__ = ["DifferenceLike", "forest_of"]


class DifferenceLike(Protocol):
    """A difference of fractions with its interval, whoever computed it."""

    @property
    def label(self) -> str:
        """What it is of: "Overall", a bucket."""
        ...

    @property
    def value(self) -> float | None:
        """First less second."""
        ...

    @property
    def low(self) -> float | None:
        """Lower end of the interval."""
        ...

    @property
    def high(self) -> float | None:
        """Upper end of the interval."""
        ...

    @property
    def p(self) -> float | None:
        """As it is to be shown."""
        ...

    @property
    def n(self) -> int:
        """Videos that both scored."""
        ...


def forest_of(first: str, second: str, rows: Iterable[DifferenceLike]) -> Forest:
    """Return the forest plot of `first` less `second`, in the order of `rows`."""
    return Forest(
        name="forest",
        title=f"F1 of {first} less that of {second}",
        axis=f"F1 of {first} less that of {second} (points)",
        rows=tuple(
            ForestRow(row.label, row.value, row.low, row.high, row.p, row.n) for row in rows
        ),
    )
