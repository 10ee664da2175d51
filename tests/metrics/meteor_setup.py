"""What tests of METEOR share: a fake Java, and the real program where it is installed."""

from __future__ import annotations

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

FAKE = Path(__file__).with_name("fake_meteor.py")


def fake_program(folder: Path) -> list[str]:
    """Return the options of a command with which a fake runs in place of METEOR."""
    folder.mkdir(parents=True, exist_ok=True)
    java = folder / "java"
    java.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "$@"\n', encoding="utf-8")
    java.chmod(0o755)
    jar = folder / "meteor-1.5.jar"
    jar.write_bytes(b"jar")
    (folder / "data").mkdir(exist_ok=True)
    (folder / "data" / "paraphrase-en.gz").write_bytes(b"table")
    return ["--java", str(java), "--meteor-jar", str(jar)]


def needs_meteor() -> None:
    """Skip a test where Java or the jar is not installed."""
    if shutil.which("java") is None:
        pytest.skip("Java is not installed (Debian: default-jre-headless)")
    if find_spec("pycocoevalcap") is None:
        pytest.skip("pycocoevalcap, which has METEOR's jar, is not installed")
