"""Options are checked for Python as for the command line: type, limits and emptiness."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import capeval
from capeval.api import run_options
from capeval.captioners.options import GenerateOptions
from capeval.errors import UsageError
from capeval.judging.options import JudgeOptions
from capeval.options import options_of
from tests.typed import typed

CLASSES = [JudgeOptions, GenerateOptions] + [
    found
    for name, found in vars(run_options).items()
    if name.endswith("Options") and found.__module__ == run_options.__name__
]
FIRST: dict[str, tuple[Any, ...]] = {
    "judge": ("captions.jsonl",),
    "score": ("old",),
    "check_scores": ("old", "scores.json"),
    "compare": (["old", "new"],),
    "report": (["old"],),
    "inspect": ("a",),
    "plot": (["types"], ["old"]),
    "correlate": ("human.csv",),
    "rate_merge": (["a.csv"], "key.csv"),
    "sample_frames": ("a.mp4",),
}
WRONG: list[tuple[str, Mapping[str, Any], str]] = [
    ("judge", {"repeats": 0}, "repeats must be from 1 to 100, not 0"),
    ("judge", {"repeats": "2"}, "repeats must be a whole number, not '2'"),
    ("judge", {"limit": -1}, "limit must be at least 1, not -1"),
    ("judge", {"max_cost": math.nan}, "max_cost must be a finite number, not nan"),
    ("judge", {"max_cost": math.inf}, "max_cost must be a finite number, not inf"),
    ("judge", {"timeout": 0}, "timeout must be from 0.1 to 86,400, not 0.0"),
    ("judge", {"max_concurrency": 5000}, "max_concurrency must be from 1 to 4,096, not 5,000"),
    ("judge", {"only": 12}, "only must be a list, not 12"),
    ("judge", {"only": [12]}, "a value of only must be a string, not 12"),
    ("judge", {"only": ["a", " "]}, "a value of only is empty; give it a value, or omit it"),
    ("judge", {"ignore_unknown": "no"}, "ignore_unknown must be True or False, not 'no'"),
    ("judge", {"judge": ""}, "judge is empty; give it a value, or omit it"),
    ("judge", {"judge": 5}, "judge must be a string or an object with a method judge, not 5"),
    ("judge", {"judge": object()}, "not a value of type object"),
    ("judge", {"client": object()}, "client must be an object with a method complete"),
    ("judge", {"progress": print}, "progress must be an object with a method update"),
    ("judge", {"annotations": [{}]}, "a value of annotations must be an Annotation, not a value"),
    ("judge", {"runs": 5}, "runs must be a string or a Path, not 5"),
    ("judge", {"api_key": " "}, "api_key is empty; give it a value, or omit it"),
    ("generate", {"model": 5}, "model must be a string or an object with a method caption"),
    ("generate", {"batch_size": 0}, "batch_size must be from 1 to 4,096, not 0"),
    ("generate", {"batch_size": "big"}, "batch_size must be a whole number or 'auto', not 'big'"),
    ("generate", {"max_side": 5}, "max_side must be at least 16, not 5"),
    ("generate", {"images": "gif"}, "images must be 'jpeg', 'png' or 'video', not 'gif'"),
    ("generate", {"shuffle": -1}, "shuffle must be at least 0, not -1"),
    ("generate", {"shard": 5}, "shard must be a string, not 5"),
    ("generate", {"frames": 1.5}, "frames must be a string, a whole number or an object with a me"),
    ("generate", {"shuffle": "x"}, "shuffle must be True or False or a whole number, not 'x'"),
    ("generate", {"seed": -1}, "seed must be at least 0, not -1"),
    ("generate", {"device": ""}, "device is empty"),
    ("score", {"annotations": 5}, "annotations must be a string, a Path or a list, not 5"),
    ("check_scores", {"judge": 5}, "judge must be a string, not 5"),
    ("compare", {"resamples": 98}, "resamples must be from 99 to 100,000, not 98"),
    (
        "compare",
        {"min_coverage": 1.5},
        "`min_coverage`: 1.5 must be a share from 0% to 100%, such as 1%, or",
    ),
    (
        "compare",
        {"min_coverage": True},
        "min_coverage must be a string, a whole number or a number",
    ),
    (
        "compare",
        {"fail_under": "f1"},
        "`fail_under`: 'f1' must be like f1=-0.5 or action.recall=-1",
    ),
    ("compare", {"power": True}, "compare() has no parameter 'power'"),
    ("compare", {"min_coverag": 1}, "no parameter 'min_coverag'; did you mean \"min_coverage\"?"),
    ("judge", {"yes": True}, "judge() has no parameter 'yes'"),
    ("judge", {"captions": "other"}, "judge(): multiple values for argument 'captions'"),
    ("compare", {"out": ""}, "out is empty"),
    ("report", {"frames": 65}, "frames must be from 0 to 64, not 65"),
    ("report", {"on_notice": "x"}, "on_notice must be a function, not 'x'"),
    ("inspect", {"raw": 1}, "raw must be True or False, not 1"),
    ("plot", {"width": "page"}, "width must be 'column' or 'text', not 'page'"),
    ("leaderboard", {"min_coverage": "5"}, "'5' must be a percentage such as 99%"),
    ("leaderboard", {"min_coverage": math.nan}, "min_coverage must be a finite number, not nan"),
    (
        "leaderboard",
        {"judged_runs": {"old": 1}},
        "judged_runs must be a list, not a value of type dict",
    ),
    ("correlate", {"metric": "old"}, "metric must be a dict, not 'old'"),
    ("correlate", {"metric": {"a": 5}}, "metric.a must be a string, a Path or a list, not 5"),
    ("rate_sheet", {"per_video": 0}, "per_video must be at least 1, not 0"),
    ("rate_sheet", {"videos": 5}, "videos must be a string or a Path, not 5"),
    ("rate_merge", {"partial": None}, "partial must be True or False, not None"),
    ("sample_frames", {"frames": [3]}, "frames must be a string or a whole number, not a value"),
    ("models", {"name": 5}, "name must be a string, not 5"),
    ("clear_cache", {"model": ""}, "model is empty"),
]


@pytest.mark.parametrize(("name", "given", "message"), WRONG)
def test_a_value_that_is_wrong_is_refused_by_name(
    name: str, given: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(UsageError) as error:
        getattr(capeval, name)(*FIRST.get(name, ()), **given)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_single_text_or_path_is_one_of_several() -> None:
    assert JudgeOptions("c.jsonl", only="12").only == ("12",)
    path: Any = Path("old")
    made = run_options.PlotOptions("types", path)
    assert (made.what, made.judged_runs) == (("types",), (path,))


def test_commas_separate_values_where_they_do_for_the_command() -> None:
    assert JudgeOptions("c.jsonl", only="a, b").only == ("a", "b")
    assert JudgeOptions("c.jsonl", only=["a, b"]).only == ("a, b",)
    assert run_options.PlotOptions("types", "x,y", format="svg,png").format == ("svg", "png")
    assert run_options.PlotOptions("types,events", "x,y").judged_runs == ("x,y",)
    with pytest.raises(UsageError, match="a value of only is empty"):
        JudgeOptions("c.jsonl", only=",")


def test_arguments_by_position_are_explained() -> None:
    wrong: Any = capeval.compare
    with pytest.raises(UsageError, match=r"judged_runs.*several values of one parameter as a list"):
        wrong("old", "new")
    with pytest.raises(UsageError, match="missing a required argument: 'judged_runs'"):
        wrong()


@pytest.mark.parametrize(
    "name", [one for one in capeval.__all__ if hasattr(capeval, f"{one}_async")]
)
def test_help_names_parameters_and_no_options(name: str) -> None:
    text = getattr(capeval, name).__doc__
    assert re.findall(r"--[a-z]+", text) == []
    assert "Repeatable" not in text


def test_numbers_of_numpy_become_plain() -> None:
    numbers: dict[str, Any] = {"limit": np.int64(3), "timeout": np.float32(2)}
    made = JudgeOptions("c.jsonl", **numbers, only=np.array(["a"]))
    assert [type(each) for each in (made.limit, made.timeout, made.only)] == [int, float, tuple]


@pytest.mark.parametrize("options", CLASSES)
def test_every_default_is_valid(options: type) -> None:
    """What a default is not checked for, a caller who gives it as an argument must be allowed."""
    needed: dict[str, Any] = {"index": "a", "video": "a.mp4", "human": "h.csv", "key": "k.csv"}
    needed |= {"file": "s.json", "points": 3}
    given = {
        one.name: needed.get(one.name, "x") if one.default is not None else None
        for one in fields(options)
        if not isinstance(one.default, int | float | str | tuple) and not callable(one.default)
    }
    assert options(**given) == options(**vars(options(**given)))


COMMANDS = {
    "SheetOptions": ["rate", "sheet"],
    "MergeOptions": ["rate", "merge", "x", "--key=x"],
    "ClearOptions": ["cache", "clear", "--yes"],
    "ModelsOptions": ["models"],
    "CorrelateOptions": ["correlate", "--human=h.csv"],
    "PlotOptions": ["plot", "x", "x"],
}
EMPTY = [
    (COMMANDS.get(each.__name__, [each.__name__.removesuffix("Options").lower(), "x"]), flag)
    for each in CLASSES
    if each is not run_options.CheckOptions
    for name, (found, _) in options_of(each).items()
    if not found.positional and (found.kind in (str, str | None) or "list" in str(found.kind))
    for flag in [f"--{name.replace('_', '-')}"]
]


@pytest.mark.parametrize(
    ("command", "option"),
    [
        *EMPTY,
        (["judge", "x"], "--max-failed"),
        (["generate"], "--max-failed"),
        (["score", "x"], "--check"),
    ],
)
def test_an_option_of_text_may_not_be_empty(command: list[str], option: str) -> None:
    command = command[:1] if command[0] == "generate" else command
    said = typed(Path(), *command, f"{option}=")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert option in said.err
    assert "empty" in said.err or "must be" in said.err


@pytest.mark.parametrize("option", ["--max-cost", "--timeout"])
@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_no_option_takes_nan_or_infinity(option: str, value: str) -> None:
    said = typed(Path(), "judge", "x", f"{option}={value}")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert option in said.err
