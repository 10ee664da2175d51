"""How the numbers of results are printed. No other module rounds one.

Fractions are shown in percent, their differences in points, coefficients with three decimals:

>>> percent(0.5849), whole_percent(0.1551), hundredths(0.1312), tenths(12.345)
('58.5', '16%', '13.12', '12.3')
>>> points(0.0123), points(-0.2), points(-0.0001), signed(0.0312), signed(-0.0001)
('+1.2', '-20.0', '0.0', '+0.031', '0.000')
>>> coefficient(0.57249), coefficient(-0.0001), p_value(0.0312), p_value(1e-9)
('0.572', '0.000', '0.031', '<0.001')
>>> p_equation(0.0312), p_equation(1e-9)
('p = 0.031', 'p < 0.001')
>>> thousands(1234567), thousands(12.0), share(990, 1000), billions(8.0), plain_number(76.26)
('1,234,567', '12', '990/1,000', '8B', '76.26')
>>> money(12.3), money(0.01234), money(0.00001), file_size(491_800), file_size(1_250_000)
('$12.30', '$0.0123', 'less than $0.0001', '492 kB', '1.2 MB')
>>> place_name("<=15"), place_name("16-20")
('≤15', '16-20')

Unknown values are a dash:

>>> percent(None), points(None), coefficient(None), p_value(None), share(None, 1000)
('–', '–', '–', '–', '–')
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from capeval.text import one_line

NOTHING = "–"


class Bounded(Protocol):
    """A value with its interval; None is missing."""

    @property
    def value(self) -> float | None: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


def percent(value: float | None) -> str:
    """Return a fraction as percent with one decimal."""
    return NOTHING if value is None else f"{100 * value:.1f}"


def whole_percent(value: float | None) -> str:
    """Return a fraction as percent without decimals."""
    return NOTHING if value is None else f"{100 * value:.0f}%"


def plain_number(value: float) -> str:
    """Return a number that was typed or configured, as short as possible."""
    return f"{value:g}"


def billions(parameters: float | None) -> str:
    return NOTHING if parameters is None else f"{plain_number(parameters)}B"


def beside_limit(value: float, limit: float) -> str:
    """Return a number with two decimals, or as many as it takes to differ from a limit.

    >>> beside_limit(57.608, 0.5), beside_limit(0.5004, 0.5), beside_limit(0.5, 0.5)
    ('57.61', '0.5004', '0.50')
    """
    texts = [f"{value:.{decimals}f}" for decimals in range(2, 10)]
    return next((text for text in texts if float(text) != limit), texts[0])


def tenths(value: float) -> str:
    """Return a measured number, such as seconds or videos a second, with one decimal."""
    return f"{value:.1f}"


def hundredths(value: float) -> str:
    """Return a fraction as percent with two decimals, such as a standard deviation."""
    return f"{100 * value:.2f}"


def file_size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"


def with_ends(
    number: Callable[[float | None], str], of: Bounded, missing: str = f" [{NOTHING}]"
) -> str:
    """Return a value with its 95% interval, or with what is `missing`.

    >>> from types import SimpleNamespace as Estimate
    >>> with_ends(percent, Estimate(value=0.5849, low=0.57, high=0.601))
    '58.5 [57.0, 60.1]'
    >>> interval(Estimate(value=0.5849, low=None, high=None))
    '58.5 [–]'
    """
    return number(of.value) + ends(number, of, missing)


def ends(number: Callable[[float | None], str], of: Bounded, missing: str) -> str:
    """Return the interval alone; nothing where there is no value."""
    if of.value is None:
        return ""
    if of.low is None or of.high is None:
        return missing
    return f" [{number(of.low)}, {number(of.high)}]"


def interval(of: Bounded) -> str:
    """Return a fraction with its interval in percent; few videos have no interval."""
    return with_ends(percent, of)


def bounded(of: Bounded) -> str:
    """Return a coefficient with its interval, if it has one."""
    return with_ends(coefficient, of, missing="")


def p_equation(p: float | None) -> str:
    """Return a p-value for a sentence."""
    return f"p {p_value(p)}".replace("p <", "p < ") if p and p < 0.001 else f"p = {p_value(p)}"


def money(dollars: float) -> str:
    """Return US dollars with two decimals, or with four below ten cents."""
    if 0 < dollars < 0.0001:
        return "less than $0.0001"
    return f"${dollars:.2f}" if dollars >= 0.1 or dollars == 0 else f"${dollars:.4f}"


def thousands(count: float) -> str:
    """Return a count with separators; a sum of counts may be a float."""
    return f"{count:,.0f}"


def letter_of(place: int) -> str:
    """Return the letter of a run by its place from 0: A to Z, then AA, AB and so on.

    >>> letter_of(0), letter_of(27)
    ('A', 'AB')
    """
    rounds, letter = divmod(place, 26)
    return (letter_of(rounds - 1) if rounds else "") + chr(ord("A") + letter)


def place_name(place: str, limit: int = 300) -> str:
    """Return the name of a bucket for figures and pages."""
    if place[:2] in ("<=", ">="):
        place = {"<": "≤", ">": "≥"}[place[0]] + place[2:]
    return one_line(place, limit)


def share(part: int | None, whole: int | None) -> str:
    if part is None or whole is None:
        return NOTHING
    return f"{thousands(part)}/{thousands(whole)}"


def coefficient(value: float | None) -> str:
    """Return a coefficient with three decimals."""
    return NOTHING if value is None else f"{round(value, 3) + 0.0:.3f}"


def points(value: float | None) -> str:
    """Return a difference of fractions in points, signed, with one decimal."""
    return NOTHING if value is None else signed_tenths(100 * value)


def signed_tenths(difference: float) -> str:
    """Return a difference with its sign and one decimal."""
    rounded = round(difference, 1)
    return f"{rounded:+.1f}" if rounded else "0.0"


def signed(value: float | None) -> str:
    """Return a difference of coefficients with its sign."""
    rounded = 0.0 if value is None else round(value, 3)
    return f"{rounded:+.3f}" if rounded else coefficient(value)


def p_value(p: float | None) -> str:
    """Return a p-value, a small one as a bound and never as 0."""
    if p is None:
        return NOTHING
    return "<0.001" if p < 0.001 else f"{p:.3f}"
