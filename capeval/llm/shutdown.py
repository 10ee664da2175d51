"""When an endpoint ends a model: the day in its record, whatever form it has, and today's."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

# Other numbers are no unix times, and a date of the year 1 is what servers in Go write for none.
_YEARS = range(2015, 2200)


def today() -> date:
    """Return the current day in UTC."""
    return datetime.now(UTC).date()


def shutdown_of(record: Mapping[str, Any] | None) -> date | None:
    """Return the `shutdown_date` of a model's record, None if there is none or it is no date.

    It is documented as YYYY-MM-DD or null; dates with a time and unix times are read as well.

    >>> shutdown_of({"id": "m", "shutdown_date": "2027-01-14"})
    datetime.date(2027, 1, 14)
    >>> shutdown_of({"id": "m", "shutdown_date": None}) is None
    True
    """
    value = (record or {}).get("shutdown_date")
    try:
        if isinstance(value, str) and value.strip()[:4].isdecimal() and "-" in value:
            day = datetime.fromisoformat(value.strip()).date()
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            day = datetime.fromtimestamp(float(value), UTC).date()
        else:
            return None
    except (ValueError, OverflowError, OSError):
        return None
    return day if day.year in _YEARS else None
