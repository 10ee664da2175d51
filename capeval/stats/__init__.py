"""Pure numbers: no files, no models."""

from capeval.stats.bootstrap import bootstrap_means
from capeval.stats.resampling import FEWEST
from capeval.stats.values import Interval, Missing, Value

__all__ = [
    "FEWEST",
    "Interval",
    "Missing",
    "Value",
    "bootstrap_means",
]
