"""Choose the option that a model finds most likely."""

from __future__ import annotations

from typing import Literal

from capeval.schema.question import Likelihoods

Scored = Literal["symbol", "symbol_text", "text"]

_TIE = 1e-9
"""Sums that differ by less are ties: rounding errors of floats are smaller than this."""


def most_likely(found: Likelihoods, what: Scored) -> int | None:
    """Return the option with the smallest negative log-likelihood; None if several have it.

    `what` says whether the symbol, the symbol with the text, or the text alone was scored.

    >>> one = {"symbol": (1.0, 2.0), "symbol_text": (9.0, 8.0), "text": (3.0, 3.0)}
    >>> found = Likelihoods(**one, tokens={})
    >>> most_likely(found, "symbol"), most_likely(found, "text")
    (0, None)
    """
    sums = getattr(found, what)
    least = min(sums)
    near = [number for number, one in enumerate(sums) if one - least <= _TIE * max(1, abs(least))]
    return near[0] if len(near) == 1 else None


def fault(found: Likelihoods, what: Scored, options: int) -> str | None:
    """Return what is wrong with the likelihoods of a response, if something is."""
    if len(getattr(found, what)) != options:
        return f"likelihood.{what} must have {options} numbers, one for each option"
    return None
