"""The ids of videos, captions and questions."""

from __future__ import annotations

import unicodedata
from typing import Annotated, Any

from pydantic import BeforeValidator, StringConstraints


def id_text(value: Any) -> Any:
    """Return an id as text in the Unicode form NFC; what is no id is returned as it is.

    A whole number is its digits: parquet and pandas store 12 as 12.0 where a cell is empty.

    >>> id_text(12), id_text(12.0), id_text("e\\u0301") == "\\xe9", id_text(1.5), id_text(True)
    ('12', '12', True, 1.5, True)
    """
    if type(value) is int or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    return unicodedata.normalize("NFC", value) if isinstance(value, str) else value


Id = Annotated[str, StringConstraints(strict=True, pattern=r"\S"), BeforeValidator(id_text)]
"""An id in a user's file: text that is not blank, or a whole number."""
