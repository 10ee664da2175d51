"""Pure numbers: no files, no models."""

from capeval.stats.agreement import accuracy, cohen_kappa, confusion_matrix, macro_f1
from capeval.stats.bootstrap import bootstrap_means

__all__ = ["accuracy", "bootstrap_means", "cohen_kappa", "confusion_matrix", "macro_f1"]
