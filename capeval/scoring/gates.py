"""Gates for continuous integration: how far one run may fall below another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from capeval.errors import UsageError
from capeval.scoring import GROUPS, MEASURES
from capeval.scoring.comparison_result import Compared, Comparison

_SPEC = re.compile(r"(?:(?P<group>[a-z]+)\.)?(?P<measure>[a-z0-9]+)=(?P<points>[^=]*)")
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)\s*", re.ASCII)
# A difference of exactly -0.5 points must not fail f1=-0.5 by the last bit of its mean.
_SLACK = 1e-9
# More than any data set has: larger numbers are typing errors.
_MOST_VIDEOS = 10**9


@dataclass(frozen=True)
class DifferenceGate:
    """The least difference, second − first, in `points`: negative if a loss is allowed.

    `group` is "all" or a type of element.
    """

    group: str
    measure: str
    points: float

    @property
    def name(self) -> str:
        """The measure as it is typed."""
        return self.measure if self.group == "all" else f"{self.group}.{self.measure}"


@dataclass(frozen=True)
class CountOrShare:
    """How many of some items: a number, or a percentage of all."""

    number: Decimal
    is_share: bool

    @classmethod
    def read(cls, value: str | float, option: str) -> CountOrShare:
        """Read `5` or `0.5%`, as given to `option`; of numbers, an int or a fraction.

        >>> CountOrShare.read("99.5%", "--min-coverage")
        CountOrShare(number=Decimal('99.5'), is_share=True)
        >>> CountOrShare.read(0.5, "--min-coverage") == CountOrShare.read("50%", "--min-coverage")
        True
        """
        if isinstance(value, float):
            # The digits of a float are those that were typed.
            share = True
            number: Decimal | None = 100 * Decimal(repr(value))
        else:
            text = str(value).strip()
            share = text.endswith("%")
            number = _number(text.removesuffix("%"))
        if (
            number is None
            or not 0 <= number <= (100 if share else _MOST_VIDEOS)
            or (not share and number != int(number))
        ):
            fraction = ", or a fraction from 0 to 1" if isinstance(value, float) else ""
            raise UsageError(
                f"{option}: {value!r} must be a share from 0% to 100%, such as 1%, or a whole "
                f"number of 0 or more, such as 5{fraction}"
            )
        return cls(number, share)

    def of(self, total: int) -> Decimal:
        """Return how many of so many items this is."""
        return self.number * total / 100 if self.is_share else self.number


def read_gates(texts: Sequence[str]) -> list[DifferenceGate]:
    """Read `f1=-0.5` or `action.recall=-1`, in points.

    >>> read_gates(["action.f1=-1"])[0].name
    'action.f1'
    """
    gates: list[DifferenceGate] = []
    for text in texts:
        found = _SPEC.fullmatch(text.strip().lower())
        if found is None:
            raise UsageError(f"--fail-under: {text!r} must be like f1=-0.5 or action.recall=-1")
        group, measure = found["group"] or "all", found["measure"]
        if measure not in MEASURES or group not in GROUPS:
            raise UsageError(
                f"--fail-under: {text!r} names no measure; use {', '.join(MEASURES)}, "
                f"alone or after one of {', '.join(f'{group}.' for group in GROUPS)}"
            )
        points = _number(found["points"])
        if points is None or abs(points) > 100:
            raise UsageError(
                f"--fail-under: {text!r} must end in points from -100 to 100, such as -0.5"
            )
        gate = DifferenceGate(group, measure, float(points))
        if any(gate.name == other.name for other in gates):
            raise UsageError(f"--fail-under: {gate.name} is named twice")
        gates.append(gate)
    return gates


@dataclass(frozen=True)
class GateOutcome:
    """Whether a gate passed, and the `value` that decided it; None if there is none.

    The value is in points, or in the unit of the gate's own number: videos or percent.
    """

    gate: DifferenceGate | CountOrShare
    value: float | None
    passed: bool


def apply_gates(
    found: Compared,
    gates: Sequence[DifferenceGate] = (),
    coverage: CountOrShare | None = None,
) -> tuple[GateOutcome, ...]:
    """Check a comparison against gates; a missing value fails."""
    if gates and not isinstance(found, Comparison):
        raise UsageError("--fail-under compares two runs; name two")
    outcomes = [_coverage(found, coverage)] if coverage else []
    if isinstance(found, Comparison):
        outcomes += [_difference(found, gate) for gate in gates]
    return tuple(outcomes)


def _difference(found: Comparison, gate: DifferenceGate) -> GateOutcome:
    difference = getattr(getattr(found.overall, gate.group), gate.measure)
    value = None if difference.value is None else 100 * difference.value
    return GateOutcome(gate, value, value is not None and value >= gate.points - _SLACK)


def _coverage(found: Compared, least: CountOrShare) -> GateOutcome:
    value = 100 * found.paired / found.annotated if least.is_share else float(found.paired)
    return GateOutcome(least, value, found.paired >= least.of(found.annotated))


def _number(text: str) -> Decimal | None:
    # Decimal() accepts "1_0" and "nan" as well.
    return Decimal(text.strip()) if _NUMBER.fullmatch(text) else None
