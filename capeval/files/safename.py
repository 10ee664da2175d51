"""Names that every file system takes."""

from __future__ import annotations

import hashlib
import re

__all__ = ["safe_name"]

_RESERVED = re.compile(r"^(con|prn|aux|nul|com\d|lpt\d)(\.|$)", re.IGNORECASE)

# A plain name that looks like a changed one must not be taken for it.
_HASHED = re.compile(r"-[0-9a-f]{6}$")


def safe_name(name: str) -> str:
    """Return `name` as one path component; what had to change is told apart by a hash.

    >>> safe_name("gpt-4o-2024-08-06@tuna-cap-v1")
    'gpt-4o-2024-08-06@tuna-cap-v1'
    >>> safe_name("Qwen/Qwen3-8B@v1")
    'Qwen-Qwen3-8B@v1-ab265f'
    """
    safe = re.sub(r"[^A-Za-z0-9._@+-]", "-", name)[:100].strip(".-") or "x"
    if safe == name and not _RESERVED.match(safe) and not _HASHED.search(safe):
        return safe
    return f"{safe}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:6]}"
