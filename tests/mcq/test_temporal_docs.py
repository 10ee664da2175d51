"""The example of docs/mcq-temporal.md prints what the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.judged_runs import capeval as type_command

PAGE = Path(__file__).resolve().parents[2] / "docs" / "mcq-temporal.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_example_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = [text for _, text in BLOCK.findall(PAGE.read_text(encoding="utf-8"))]
    at = next(number for number, text in enumerate(blocks) if text.startswith("import json"))
    make, typed, shown, show = blocks[at : at + 4]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    exec(make, {})
    code, out, err = type_command(monkeypatch, capsys, *typed.split()[1:])
    assert (code, err) == (0, "")
    assert without_version(out) == without_version(shown)
    exec(f"import capeval\n{show}", {})
    gain, low, high, questions = capsys.readouterr().out.split()
    assert f"{100 * float(gain):+.1f} [{100 * float(low):+.1f}, {100 * float(high):+.1f}]" in shown
    assert questions == "240"


def without_version(text: str) -> str:
    return re.sub(r"v:\S+", "v:", text)
