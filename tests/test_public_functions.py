"""What is public is what is listed, and the names of the commands belong to functions."""

import inspect
import re
from pathlib import Path

import pytest

import capeval
from capeval.errors import UsageError

PACKAGE = Path(capeval.__file__).parent
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
    nouns += ["Judge", "JudgeOptions", "Judgment", "Probing", "Scores"]
    assert dir(capeval) == sorted([*FUNCTIONS, *asynchronous, *nouns, "__version__"])
    assert set(capeval.__all__) == set(dir(capeval))
    assert (PACKAGE / "py.typed").is_file()
    with pytest.raises(AttributeError, match="has no attribute 'nope'"):
        capeval.nope  # noqa: B018
    with pytest.raises(UsageError, match=r"compare\(\): too many positional arguments; see help"):
        capeval.compare("a", "b")  # type: ignore[call-arg]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_is_documented_and_names_a_misspelt_parameter(name: str) -> None:
    function = getattr(capeval, name)
    assert function.__name__ == name
    assert function.__doc__.splitlines()[0].endswith((".", "?"))
    # No module hides the function.
    assert not (PACKAGE / name).exists()
    assert not (PACKAGE / f"{name}.py").exists()
    if parameters := inspect.signature(function).parameters:
        known = max(parameters, key=len)
        message = f'{name}() has no parameter {known[1:]}; did you mean "{known}"?'
        with pytest.raises(UsageError, match=re.escape(message)):
            function(**{known[1:]: "a"})
