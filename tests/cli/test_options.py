from __future__ import annotations

import pytest

from capeval.errors import UsageError
from capeval.scoring.gates import CountOrShare


@pytest.mark.parametrize(
    ("text", "unscored", "captioned", "allowed"),
    [
        ("0", 0, 10, True),
        ("0", 1, 10, False),
        ("5", 5, 10, True),
        ("5", 6, 10, False),
        ("10%", 1, 10, True),
        ("10%", 2, 10, False),
        ("0.5%", 5, 1000, True),
        ("0.5%", 6, 1000, False),
        ("100%", 10, 10, True),
        ("1%", 0, 0, True),
    ],
)
def test_allowance_is_a_number_or_a_share_of_the_captioned(
    text: str, unscored: int, captioned: int, allowed: bool
) -> None:
    limit = CountOrShare.read(text, "--max-failed").of(captioned)
    assert (unscored <= limit) is allowed


@pytest.mark.parametrize("text", ["", "%", "x", "-1", "101%", "1.5", "nan", "1,5"])
def test_what_is_no_allowance_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--max-failed"):
        CountOrShare.read(text, "--max-failed")
