"""Exceptions that are as unhelpful as code of another package can make them."""

from __future__ import annotations

__all__ = ["ERRORS"]


ERRORS: dict[str, tuple[Exception, str]] = {
    "huge": (ValueError("x\n" * 1_000_000), "ValueError: x x x"),
    "group": (ExceptionGroup("many", [OSError("no\ndisk"), ValueError()]), "OSError: no disk"),
}
"""By a name: an exception, and how its description begins."""
