"""Screens compared with golden files; `CAPEVAL_GOLDEN=1 pytest` writes them: see the difference."""

import io
import os
from pathlib import Path
from typing import Any

from rich.console import Console

from capeval.version import __version__


def screen(result: Any, width: int = 80, *, full: bool = True) -> str:
    out = io.StringIO()
    result.show(Console(file=out, width=width, color_system=None), full=full)
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


def check_golden(file: Path, text: str) -> None:
    text = text.replace(f"|v:{__version__}", "")
    if os.environ.get("CAPEVAL_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")
