from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capeval.cli.options import listed
from capeval.errors import UsageError
from capeval.scoring.gates import CountOrShare


@pytest.mark.parametrize(
    ("text", "unscored", "captioned", "allowed"),
    [
        ("0", 0, 10, True),
        ("0", 1, 10, False),
        ("5", 5, 10, True),
        ("5", 6, 10, False),
        (" 5 ", 5, 10, True),
        ("5.0", 5, 10, True),
        ("10%", 1, 10, True),
        ("10%", 2, 10, False),
        ("0.5%", 5, 1000, True),
        ("0.5%", 6, 1000, False),
        ("0%", 0, 10, True),
        ("0%", 1, 10, False),
        ("100%", 10, 10, True),
        ("1%", 0, 0, True),
    ],
)
def test_allowance_is_a_number_or_a_share_of_the_captioned(
    text: str, unscored: int, captioned: int, allowed: bool
) -> None:
    limit = CountOrShare.read(text, "--max-failed").of(captioned)
    assert (unscored <= limit) is allowed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "%",
        "x",
        "-1",
        "-1%",
        "101%",
        "1.5",
        "nan",
        "inf",
        "nan%",
        "inf%",
        "5 %%",
        "1,5",
    ],
)
def test_what_is_no_allowance_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--max-failed"):
        CountOrShare.read(text, "--max-failed")


@settings(deadline=None)
@given(st.integers(1, 99), st.integers(0, 5000))
def test_whole_share_of_the_captioned_is_allowed_exactly(percent: int, hundreds: int) -> None:
    allowance = CountOrShare.read(f"{percent}%", "--max-failed")
    assert allowance.of(100 * hundreds) == percent * hundreds


@pytest.mark.parametrize(
    ("values", "read"),
    [
        ([], []),
        (["a"], ["a"]),
        (["a, b", "c"], ["a", "b", "c"]),
        ([",a,,", " "], ["a"]),
    ],
)
def test_indexes_are_repeated_or_separated_by_commas(values: list[str], read: list[str]) -> None:
    assert listed(values, "--only") == read


def test_an_option_that_names_no_index_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="--only is empty"):
        listed([" , "], "--only")
