"""Completion of the command line, as the scripts for bash, zsh and fish ask for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.world import typed

FILES = ""
"""No completions: the shell offers files."""

CASES = {
    "capeval lea": "leaderboard",
    "capeval mcq te": "temporal",
    "capeval judge --reas": "--reasoning",
    "capeval judge --reasoning lo": "low",
    "capeval -q compare --format mark": "markdown",
    "capeval compare --format la": "latex",
    "capeval judge --annotations ": FILES,
    "capeval judge cap": FILES,
}


@pytest.mark.parametrize("line", CASES)
def test_zsh_and_fish_complete(line: str, tmp_path: Path) -> None:
    # A line about it would be in the middle of what is typed.
    (tmp_path / "capeval.toml").write_text("not TOML")
    asked = {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    zsh, fish = (
        typed(tmp_path, env={**os.environ, **asked, "_CAPEVAL_COMPLETE": f"complete_{name}"})
        for name in ("zsh", "fish")
    )
    assert {(one.code, one.err) for one in (zsh, fish)} == {(0, "")}
    expected = CASES[line]
    assert fish.out.partition("\t")[0].strip() == expected
    assert f'(("{expected}"' in zsh.out if expected else zsh.out.strip() == "_files"
