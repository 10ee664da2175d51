"""Choose the option that a model finds most likely."""

from __future__ import annotations

from typing import Literal

from capeval.schema.question import Likelihoods

Scored = Literal["symbol", "symbol_text", "text"]

_TIE = 1e-9
"""Sums that differ by less are ties: rounding errors of floats are smaller than this."""


def most_likely(found: Likelihoods, what: Scored, *, per_token: bool = False) -> int | None:
    """Return the option with the smallest negative log-likelihood; None if several have it.

    Parameters
    ----------
    what : whether the symbol, the symbol with the text, or the text alone was scored
    per_token : divide each sum by the number of its tokens

    >>> one = {"symbol": (1.0, 2.0), "symbol_text": (9.0, 8.0), "text": (3.0, 3.0)}
    >>> found = Likelihoods(**one, tokens={"symbol_text": (3, 2)})
    >>> most_likely(found, "symbol"), most_likely(found, "text")
    (0, None)
    >>> most_likely(found, "symbol_text"), most_likely(found, "symbol_text", per_token=True)
    (1, 0)
    """
    sums = list(getattr(found, what))
    if per_token:
        sums = [one / count for one, count in zip(sums, found.tokens[what], strict=True)]
    least = min(sums)
    near = [number for number, one in enumerate(sums) if one - least <= _TIE * max(1, abs(least))]
    return near[0] if len(near) == 1 else None


def fault(found: Likelihoods, what: Scored, options: int, *, per_token: bool) -> str | None:
    """Return what is wrong with the likelihoods of a response, if something is."""
    if len(getattr(found, what)) != options:
        return f"likelihood.{what} must have {options} numbers, one for each option"
    tokens = found.tokens.get(what, ())
    if per_token and (len(tokens) != options or min(tokens) < 1):
        return f"likelihood.tokens.{what} must have {options} counts of at least 1"
    return None
