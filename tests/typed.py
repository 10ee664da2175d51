"""`capeval` as it is typed, in this very process: for what needs no process of its own."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from capeval.cli import main

__all__ = ["Said", "Typed"]


@dataclass(frozen=True)
class Said:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What stands on stdout, all of it."""
        return json.loads(self.out)


class Typed:
    """Types `capeval ...` in the folder that the test is in."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, *arguments: object, columns: int = 120) -> Said:
        with self._monkeypatch.context() as patched:
            patched.setattr(sys, "argv", ["capeval", *map(str, arguments)])
            patched.setenv("COLUMNS", str(columns))
            self._capsys.readouterr()
            with pytest.raises(SystemExit) as ended:
                main()
        out, err = self._capsys.readouterr()
        code = ended.value.code
        return Said(code if isinstance(code, int) else 0, out, err)
