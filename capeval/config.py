"""The user's configuration file: own prices, models, names of endpoints, judges and metrics.

Only `capeval.toml` in the working directory is read. One in a parent directory, which another
user may have written, can set neither an address nor the name of a key.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from capeval.errors import InputError
from capeval.text import nearest, shown

CONFIG = Path("capeval.toml")
"""In the working directory; it need not exist."""

_TABLES = ("endpoints", "judges", "metrics", "models", "prices")


def read_config(file: Path, table: str) -> Mapping[str, Any]:
    """Return one table of a configuration file by entry; empty if there is no file."""
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=file) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"not valid TOML: {error}", file=file) from None
    for name in content:
        if name not in _TABLES:
            known = f"is unknown; the tables are {', '.join(_TABLES)}"
            raise InputError(f"{known}{nearest(name, _TABLES)}", file=file, field=name)
    entries = content.get(table, {})
    if not isinstance(entries, dict):
        raise InputError(f"must be a table, not {shown(entries)}", file=file, field=table)
    return entries
