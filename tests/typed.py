"""`capeval` as it is typed, in this very process: for what needs no process of its own."""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack, chdir, redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from capeval.cli import main

__all__ = ["Said", "here", "typed"]


class Said(NamedTuple):
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """What stands on stderr, line by line."""
        return self.err.splitlines()

    @property
    def json(self) -> Any:
        """What stands on stdout, all of it."""
        return json.loads(self.out)


def typed(
    folder: Path, *arguments: object, columns: int = 120, env: dict[str, str] | None = None
) -> Said:
    """Type `capeval ...` in a folder; `env` is the whole environment, by default that of the test.

    Both streams are what a process has that writes to a pipe.
    """
    out, err = (TextIOWrapper(BytesIO(), encoding="utf-8") for _ in range(2))
    with ExitStack() as stack:
        patched = stack.enter_context(pytest.MonkeyPatch.context())
        if env is not None:
            for name in os.environ.keys() - env.keys():
                patched.delenv(name)
            for name, value in env.items():
                patched.setenv(name, value)
        patched.setenv("COLUMNS", str(columns))
        patched.setattr(sys, "argv", ["capeval", *map(str, arguments)])
        stack.enter_context(chdir(folder))
        stack.enter_context(redirect_stdout(out))
        stack.enter_context(redirect_stderr(err))
        ended = stack.enter_context(pytest.raises(SystemExit))
        main()
    code = ended.value.code
    return Said(code if isinstance(code, int) else 0, _written(out), _written(err))


def _written(stream: TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.detach()
    assert isinstance(buffer, BytesIO)
    return buffer.getvalue().decode()


def here(*arguments: object, columns: int | None = None) -> Said:
    """Type `capeval ...` in the folder that the test is in, as wide as COLUMNS says."""
    return typed(Path(), *arguments, columns=columns or int(os.environ["COLUMNS"]))
