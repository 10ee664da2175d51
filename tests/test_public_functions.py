"""What is public is what is listed, and the names of the commands belong to functions."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from types import ModuleType

import pytest

import capeval
from capeval.errors import UsageError

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(capeval.__path__, "capeval.")
    if not module.name.endswith("__main__")
)


FUNCTIONS = (
    *("annotate_agree", "annotate_merge", "annotate_draft", "annotate_review"),
    *("annotate_filter", "cache_info", "calibrate", "check", "compare", "construct_filter"),
    *("construct_check", "construct_draft", "construct_review", "correlate", "evaluate"),
    *("generate", "inspect", "judge", "leaderboard", "list_runs", "mcq_answer", "mcq_grade"),
    *("mcq_temporal", "measure", "models", "plot", "probe", "rate_merge", "rate_sheet"),
    *("report", "sample_frames", "score"),
)
AWAITABLE = (
    *("annotate_draft", "construct_check", "construct_draft", "construct_filter", "evaluate"),
    *("generate", "judge", "mcq_answer", "mcq_grade", "measure", "probe"),
)


def test_face_is_this() -> None:
    asynchronous = [f"{name}_async" for name in AWAITABLE]
    nouns = ["Annotation", "Caption", "Correlations", "GenerateOptions", "Generation"]
    nouns += ["JudgeOptions", "Judgment", "Probing", "Scores"]
    assert dir(capeval) == sorted([*FUNCTIONS, *asynchronous, *nouns, "__version__"])
    assert set(capeval.__all__) == set(dir(capeval))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_is_documented_where_it_is(name: str) -> None:
    function = getattr(capeval, name)
    assert function.__name__ == name
    assert function.__module__.startswith("capeval.")
    assert function.__doc__.splitlines()[0].endswith((".", "?"))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_module_has_the_name_of_a_public_function(name: str) -> None:
    package = Path(capeval.__file__).parent
    assert not (package / name).exists()
    assert not (package / f"{name}.py").exists()


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nope'"):
        capeval.nope  # noqa: B018


def test_package_is_typed() -> None:
    assert (Path(capeval.__file__).parent / "py.typed").is_file()


def test_every_module_says_what_it_is_and_lists_names_that_exist() -> None:
    for module in map(imported, ["capeval", *MODULES]):
        assert module.__doc__
        assert all(hasattr(module, name) for name in getattr(module, "__all__", ()))


def imported(module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name in ("torch", "transformers"):
            pytest.skip(f"{missing.name} is not installed")
        raise


@pytest.mark.parametrize("name", [*sorted({*FUNCTIONS} - {"cache_info"}), "judge_async"])
def test_a_misspelt_parameter_is_named(name: str) -> None:
    work = getattr(capeval, name)
    known = max(inspect.signature(work).parameters, key=len)
    wrong = known[1:]
    message = f'{name.removesuffix("_async")}() has no parameter {wrong}; did you mean "{known}"?'
    with pytest.raises(UsageError, match=re.escape(message)):
        work(**{wrong: "a"})
