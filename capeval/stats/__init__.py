"""Pure numbers: no files, no models."""

from capeval.stats.agreement import accuracy, cohen_kappa, confusion_matrix, macro_f1
from capeval.stats.bootstrap import bootstrap_means
from capeval.stats.resampling import FEWEST
from capeval.stats.values import Interval, Missing, Value

__all__ = [
    "FEWEST",
    "Interval",
    "Missing",
    "Value",
    "accuracy",
    "bootstrap_means",
    "cohen_kappa",
    "confusion_matrix",
    "macro_f1",
]
