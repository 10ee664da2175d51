"""What the README shows is what the commands print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```\w*\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def printed(folder: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "capeval", *command],
        cwd=folder,
        env=os.environ | {"COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=True,
    )
    return "\n".join(line.rstrip() for line in done.stdout.splitlines())


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("readme")
    return folder, printed(folder, "judge", "sample", "--judge", "lexical")


def block(beginning: str) -> str:
    (found,) = (text for text in BLOCKS if text.startswith(beginning))
    return str(found)


def test_the_demo_prints_what_is_shown(judged: tuple[Path, str]) -> None:
    assert block("Judge: lexical-1").rstrip() in judged[1]


def test_correlate_prints_what_is_shown(judged: tuple[Path, str]) -> None:
    human = str(ROOT / "annotations" / "sample" / "human.csv")
    out = printed(judged[0], "correlate", "--human", human)
    assert block("lexical-1:f1 has Kendall tau-b").rstrip() in out


def test_pictures_and_pages_are_there() -> None:
    targets = re.findall(r"\]\(((?!https?:)[^)#]+)", README)
    assert [name for name in targets if not (ROOT / name).is_file()] == []
