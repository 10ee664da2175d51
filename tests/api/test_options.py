"""Options are checked for Python as for the command line: type, limits and emptiness."""

import inspect
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.errors import UsageError
from capeval.judging.protocol import JudgeOptions
from capeval.reporting.plot import PlotOptions
from tests.judged_runs import score_run, write_annotations

FIRST: dict[str, tuple[Any, ...]] = {"judge": ("captions.jsonl",), "sample_frames": ("none.mp4",)}
WRONG: list[tuple[str, Mapping[str, Any], str]] = [
    ("judge", {"repeats": 0}, "repeats must be greater than or equal to 1, not 0"),
    ("judge", {"max_cost": math.nan}, "max_cost must be a finite number, not nan"),
    ("judge", {"only": 12}, "only must be"),
    ("judge", {"only": ["a", " "]}, "only is empty; give it a value, or omit it"),
    ("judge", {"judge": 5}, "judge must be a string or an object with a method judge"),
    ("judge", {"client": object()}, "client must be an object with a method complete"),
    (
        "generate",
        {"batch_size": "big"},
        "batch_size must be a valid integer or be 'auto', not 'big'",
    ),
    ("report", {"judged_runs": ["old"], "on_notice": "x"}, "on_notice must be callable, not 'x'"),
]


@pytest.mark.parametrize(("name", "given", "message"), WRONG)
def test_a_value_that_is_wrong_is_refused_by_name(
    name: str, given: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(UsageError) as error:
        getattr(capeval, name)(*FIRST.get(name, ()), **given)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_single_text_is_one_of_several_and_commas_separate_as_for_the_command() -> None:
    path: Any = Path("old")
    made = PlotOptions("types", path)
    assert (made.what, made.judged_runs) == (("types",), (path,))
    assert JudgeOptions("c.jsonl", only="a, b").only == ("a", "b")
    assert JudgeOptions("c.jsonl", only=["a, b"]).only == ("a, b",)
    with pytest.raises(UsageError, match="only is empty"):
        JudgeOptions("c.jsonl", only=",")


def test_a_share_is_a_text_or_a_number(alone: None) -> None:
    del alone
    write_annotations(Path("a.json"))
    for name in ("old", "new"):
        score_run(name, "+0- 0++ | 0+- | 00 +")
    shares: list[Any] = ["100%", 1.0, 5, "5"]
    for share in shares:
        (gate,) = capeval.compare(["old", "new"], min_coverage=share, resamples=99).gates
        assert gate.passed


def test_help_shows_the_parameters_of_a_function() -> None:
    parameters = inspect.signature(capeval.judge).parameters
    assert list(parameters)[:2] == ["captions", "annotations"]
    assert parameters["judge"].default is None
    assert all(f"\n{name} : " in str(capeval.judge.__doc__) for name in parameters)
