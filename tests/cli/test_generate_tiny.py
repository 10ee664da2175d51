"""A tiny model of transformers captions the sample, and the lexical judge scores it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from capeval.cli import main
from tests.captioners import tiny


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    monkeypatch.setattr(sys, "argv", ["capeval", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_the_sample_is_captioned_by_a_tiny_model_and_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tiny.make("llava-onevision", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    made = run(
        monkeypatch, "generate", "--model", f"hf:{model}", "--device", "cpu", "--frames", "4",
        "--max-new-tokens", "24", "--batch-size", "4", "--run", "tiny",
    )  # fmt: skip
    assert made == 0
    text = (tmp_path / "runs" / "tiny" / "captions.jsonl").read_text(encoding="utf-8")
    captions = [json.loads(line) for line in text.splitlines()]
    assert len({line["caption"] for line in captions}) == 10
    assert [len(line["frames"]["indices"]) for line in captions] == [4] * 10
    capsys.readouterr()
    assert run(monkeypatch, "judge", "--judge", "lexical") == 0
    assert "tiny: captioned 10/10, scored 10/10" in capsys.readouterr().out
