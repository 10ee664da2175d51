"""Gates as they are typed, what they let pass, and what they say."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from capeval.comparing.compare import coverage_gate, read_gates
from capeval.errors import UsageError
from capeval.options import CountOrShare
from tests.comparing.making import comparison, matrix


@pytest.mark.parametrize(
    ("text", "group", "measure", "points"),
    [
        ("f1=-0.5", "all", "f1", -0.5),
        ("F1=-0.5", "all", "f1", -0.5),
        (" precision=0 ", "all", "precision", 0.0),
        ("recall=+1.25", "all", "recall", 1.25),
        ("all.f1=-.5", "all", "f1", -0.5),
        ("action.f1=-1", "action", "f1", -1.0),
        ("attribute.recall=100", "attribute", "recall", 100.0),
    ],
)
def test_gates_are_read(text: str, group: str, measure: str, points: float) -> None:
    (gate,) = read_gates([text])
    assert (gate.group, gate.measure, gate.points) == (group, measure, points)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["f1"], "must be like f1=-0.5"),
        (["f1==1"], "must be like"),
        (["f1<-0.5"], "must be like"),
        (["f2=-1"], "names no measure; use precision, recall, f1"),
        (["sound.f1=-1"], "names no measure"),
        (["action=-1"], "names no measure"),
        (["f1="], "must end in points"),
        (["f1=half"], "must end in points"),
        (["f1=nan"], "must end in points"),
        (["f1=-0.5%"], "must end in points"),
        (["f1=-101"], "must end in points"),
        (["f1=0", "all.f1=1"], "f1 is named twice"),
    ],
)
def test_malformed_gates_are_refused(texts: list[str], message: str) -> None:
    with pytest.raises(UsageError) as error:
        read_gates(texts)
    assert str(error.value).startswith("--fail-under: ")
    assert message in str(error.value)
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "gate"),
    [
        ("99%", CountOrShare(Decimal(99), True)),
        (" 99.5 %", CountOrShare(Decimal("99.5"), True)),
        ("0%", CountOrShare(Decimal(0), True)),
        ("997", CountOrShare(Decimal(997), False)),
        ("0", CountOrShare(Decimal(0), False)),
    ],
)
def test_coverage_is_read(text: str, gate: CountOrShare) -> None:
    assert CountOrShare.read(text, "--min-coverage") == gate


@pytest.mark.parametrize(
    "text", ["", "%", "all", "101%", "-1%", "-1", "0.99", "nan%", "9e1%", "9" * 40]
)
def test_malformed_coverage_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--min-coverage: .* must be a share"):
        CountOrShare.read(text, "--min-coverage")


@pytest.mark.parametrize(
    ("text", "captioned", "allowed"),
    [("0", 10, 0), ("5", 10, 5), ("10%", 10, 1), ("0.5%", 1000, 5), ("100%", 10, 10), ("1%", 0, 0)],
)
def test_a_share_allows_so_many_failures(text: str, captioned: int, allowed: int) -> None:
    limit = CountOrShare.read(text, "--max-failed").of(captioned)
    assert allowed <= limit < allowed + 1


@pytest.mark.parametrize(
    ("text", "paired", "annotated", "passed"),
    [
        ("99%", 990, 1000, True),
        ("99%", 989, 1000, False),
        ("99.9%", 999, 1000, True),
        ("33.3%", 1, 3, True),
        ("33.4%", 1, 3, False),
        ("100%", 1000, 1000, True),
        ("990", 990, 1000, True),
        ("991", 990, 1000, False),
        ("0", 1, 1000, True),
    ],
)
@pytest.mark.parametrize("make", [comparison, matrix])
def test_coverage_is_of_the_annotated_videos(
    text: str, paired: int, annotated: int, passed: bool, make: Any
) -> None:
    found = make().model_copy(update={"paired": paired, "annotated": annotated})
    outcome = coverage_gate(found, CountOrShare.read(text, "--min-coverage"))
    assert outcome.passed is passed


@pytest.mark.parametrize(
    ("gate", "value", "passed", "sentence"),
    [
        (
            "f1=-0.5", -0.005, True,
            "F1 of B is 0.50 points below A; f1=-0.5 allows at most 0.5 points below",
        ),
        # The last bit of a mean decides nothing.
        (
            "f1=-0.5", -0.0050000000000000044, True,
            "F1 of B is 0.50 points below A; f1=-0.5 allows at most 0.5 points below",
        ),
        (
            "f1=-0.5", -0.00500001, False,
            "F1 of B is 0.500001 points below A; f1=-0.5 allows at most 0.5 points below",
        ),
        ("f1=0", -0.0001, False, "F1 of B is 0.01 points below A; f1=0 allows no loss"),
        (
            "f1=1", 0.004, False,
            "F1 of B is 0.40 points above A; f1=1 requires at least 1 point above",
        ),
        (
            "action.recall=-100", None, False,
            "B has no recall of action elements to compare; action.recall=-100 allows at most 100",
        ),
    ],
)  # fmt: skip
def test_a_result_names_the_value_and_the_limit(
    gate: str, value: float | None, passed: bool, sentence: str
) -> None:
    name = gate.partition("=")[0]
    group, _, measure = name.rpartition(".")
    (asked,) = read_gates([gate])
    result = asked.result(comparison(group or "all", measure, value=value, low=None))
    assert result.message.startswith(sentence)
    assert (result.gate, result.passed, result.value is None) == (name, passed, value is None)
