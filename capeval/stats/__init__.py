"""Pure numbers: no files, no models."""

from capeval.stats.bootstrap import bootstrap_means

__all__ = ["bootstrap_means"]
