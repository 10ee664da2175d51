"""How a file begins: enough to tell what kind it is, whatever its end is like."""

from __future__ import annotations

import codecs
import stat
from pathlib import Path

from capeval.files.text import read_text

__all__ = ["first_line"]


def first_line(path: Path) -> str:
    """Return the first line that is not blank of a UTF-8 file, a byte order mark removed.

    The rest is not looked at: the last line may be torn where it is still written.

    Raises
    ------
    InputError
        As `read_text`: the file is missing, a folder, unreadable, empty, or not UTF-8.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return _told(path)
        with path.open("rb") as file:
            for line in file:
                text = _decoded(line.removeprefix(codecs.BOM_UTF8)).strip()
                if text:
                    return _told(path) if "\0" in text[:4] else text
    except (OSError, ValueError):
        pass
    return _told(path)


def _decoded(line: bytes) -> str:
    # Only a line that has no end may have a torn character at its end.
    return codecs.getincrementaldecoder("utf-8")().decode(line, final=line.endswith(b"\n"))


def _told(path: Path) -> str:
    # It knows what is wrong, and says so.
    return read_text(path).strip().split("\n", 1)[0]
