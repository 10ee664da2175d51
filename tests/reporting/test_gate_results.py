"""What is said of a gate, above all where it fails by little."""

from __future__ import annotations

import pytest

from capeval.reporting.gate_results import gate_results
from capeval.scoring.gates import apply_gates, read_gates
from tests.runs.comparing import comparison


@pytest.mark.parametrize(
    ("gate", "value", "low", "sentence"),
    [
        (
            "f1=-0.5", -0.005, -0.02,
            "F1 of B is 0.50 points below A; f1=-0.5 allows at most 0.5 points below",
        ),
        (
            "f1=-0.5", -0.00500001, -0.02,
            "F1 of B is 0.500001 points below A; f1=-0.5 allows at most 0.5 points below",
        ),
        ("f1=0", -0.0001, 0.0, "F1 of B is 0.01 points below A; f1=0 allows no loss"),
        (
            "f1=1", 0.004, 0.0,
            "F1 of B is 0.40 points above A; f1=1 requires at least 1 point above",
        ),
        (
            "action.recall=-100", None, None,
            "B has no recall of action elements to compare; action.recall=-100 allows at most 100",
        ),
    ],
)  # fmt: skip
def test_the_sentence_names_the_value_and_the_limit(
    gate: str,
    value: float | None,
    low: float | None,
    sentence: str,
) -> None:
    group, _, measure = gate.partition("=")[0].rpartition(".")
    found = comparison(group or "all", measure, value=value, low=low)
    (result,) = gate_results(found, apply_gates(found, read_gates([gate])))
    assert result.message.startswith(sentence)
    assert result.gate == gate.partition("=")[0]
