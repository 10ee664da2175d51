"""How results show themselves: a sentence as text, tables in a notebook, rows for pandas.

Results are in packages that know nothing of tables. `capeval.reporting`, which does, is imported
when a result is shown.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from capeval.errors import UsageError


def _reporting() -> Any:
    return import_module("capeval.reporting.notebook")


class Displayed:
    """A result that can be shown; `rows` are what `to_frame` makes a table of."""

    def __str__(self) -> str:
        return str(_reporting().sentence_of(self))

    def _repr_html_(self) -> str:
        return str(_reporting().html_of(self))

    def rows(self) -> list[dict[str, Any]]:
        """Return the values as flat records, nothing rounded."""
        raise NotImplementedError

    def to_frame(self) -> Any:
        """Return the values as a pandas DataFrame; UsageError if pandas is not installed."""
        try:
            import pandas as pd
        except ModuleNotFoundError:
            raise UsageError("to_frame needs pandas: pip install pandas") from None
        return pd.DataFrame(self.rows())
