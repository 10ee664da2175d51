"""Pure numbers: no files, no models."""

from capeval.stats.mean_intervals import (
    FEWEST_FOR_FAILURES,
    FEWEST_VIDEOS,
    difference_intervals,
    mean_intervals,
)
from capeval.stats.values import Interval, Missing, Value

__all__ = [
    "FEWEST_FOR_FAILURES",
    "FEWEST_VIDEOS",
    "Interval",
    "Missing",
    "Value",
    "difference_intervals",
    "mean_intervals",
]
