"""Tests of questions run in a folder of their own, and type commands there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.judged_runs import capeval

__all__ = ["Typed"]

Typed = Callable[..., tuple[int, str, str]]
"""Types `capeval ...`; returns the exit code, stdout and stderr."""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    return lambda *arguments: capeval(monkeypatch, capsys, *map(str, arguments))
