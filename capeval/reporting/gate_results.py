"""The results of gates in words, as `capeval compare` prints and stores them."""

from __future__ import annotations

from collections.abc import Sequence

from capeval.scoring.comparison_result import Compared, Comparison, GateResult
from capeval.scoring.gates import CountOrShare, DifferenceGate, GateOutcome
from capeval.show.numbers import beside_limit, plain_number, thousands
from capeval.text import one_line


def gate_results(found: Compared, outcomes: Sequence[GateOutcome]) -> tuple[GateResult, ...]:
    """Return each outcome with a sentence that compares its value with what the gate allows."""
    results = []
    for outcome in outcomes:
        gate = outcome.gate
        if isinstance(gate, CountOrShare):
            results.append(_of_coverage(found, outcome, gate))
        elif isinstance(found, Comparison):
            results.append(_of_difference(found, outcome, gate))
    return tuple(results)


def gate_lines(found: Compared) -> list[str]:
    """Return a line for each gate that failed."""
    return [f"gate failed: {gate.message}" for gate in found.gates if not gate.passed]


def _of_difference(found: Comparison, outcome: GateOutcome, gate: DifferenceGate) -> GateResult:
    measure = "F1" if gate.measure == "f1" else gate.measure
    what = measure if gate.group == "all" else f"{measure} of {gate.group} elements"
    first, second = one_line(found.first.name), one_line(found.second.name)
    value = outcome.value
    if value is not None:
        size = beside_limit(abs(value), abs(gate.points))
        way = "below" if value < 0 else "above"
        sentence = f"{what} of {second} is {size} points {way} {first}"
    else:
        sentence = f"{second} has no {what} to compare"
    return GateResult(
        gate=gate.name,
        value=value,
        at_least=gate.points,
        passed=outcome.passed,
        message=f"{sentence}; {_allowed(gate)}",
    )


def _allowed(gate: DifferenceGate) -> str:
    size = plain_number(abs(gate.points))
    points = f"{size} point" if size == "1" else f"{size} points"
    typed = f"{gate.name}={plain_number(gate.points)}"
    if gate.points < 0:
        return f"{typed} allows at most {points} below"
    return f"{typed} requires at least {points} above" if gate.points else f"{typed} allows no loss"


def _of_coverage(found: Compared, outcome: GateOutcome, least: CountOrShare) -> GateResult:
    number = float(least.number)
    share = beside_limit(100 * found.paired / found.annotated, number)
    all_runs = "both runs" if isinstance(found, Comparison) else "all runs"
    required = f"{plain_number(number)}%" if least.is_share else thousands(number)
    return GateResult(
        gate="coverage",
        value=outcome.value,
        at_least=number,
        passed=outcome.passed,
        message=f"{thousands(found.paired)} of {thousands(found.annotated)} annotated videos "
        f"({share}%) are scored in {all_runs}; --min-coverage requires at least {required}",
    )
