"""A tiny model of transformers captions the sample, and the lexical judge scores it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

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
        monkeypatch, "generate", "--model", str(model), "--device", "cpu", "--frames", "4",
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two models, ours and benchmark, and an entry for the latter."""
    path = tmp_path_factory.mktemp("models")
    tiny.make("qwen2-vl", path).rename(path / "ours")
    tiny.make("llava-video", path).rename(path / "benchmark")
    (path / "empty").mkdir()
    entry = 'hub = "./benchmark"\nframes = "tuna-4"\nmax_new_tokens = 3\n'
    (path / "capeval.toml").write_text(
        f'[models."half"]\nhub = "./ours"\noptions = {{ dtype = "bfloat16" }}\n'
        f'[models."entry"]\n{entry}options = {{ preset = "tuna", dtype = "float32" }}\n'
        '[models."warm"]\nhub = "./ours"\ntemperature = 0.9\nmax_new_tokens = 6\n',
        encoding="utf-8",
    )
    return path


def written(
    monkeypatch: pytest.MonkeyPatch, folder: Path, run_name: str, *arguments: str
) -> list[dict[str, Any]]:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    typed = ("generate", "--device", "cpu", "--run", run_name, "--limit", "2", *arguments)
    # Random weights may end a caption before it begins.
    assert run(monkeypatch, *typed, "--max-failed", "1") == 0
    text = (folder / "runs" / run_name / "captions.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_a_folder_is_captioned_with_the_options_that_are_typed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "p.txt").write_text(" Say what happens. ", encoding="utf-8")
    lines = written(
        monkeypatch, folder, "typed", "--model", "half", "--prompts", "p.txt",
        "--max-new-tokens", "5", "--frames", "qwen-1fps",
    )  # fmt: skip
    assert {line["model"] for line in lines} == {"half"}
    settings = lines[0]["generation"]
    assert settings["dtype"] == "bfloat16"
    assert settings["generation"]["max_new_tokens"] == 5
    assert settings["generation"]["do_sample"] is False
    assert lines[0]["frames"]["policy"] == "qwen-1fps"
    manifest = json.loads((folder / "runs" / "typed" / "manifest.json").read_text("utf-8"))
    prompt = manifest["generation"]["prompt"]
    assert prompt["source"] == "p.txt"
    assert lines[0]["prompt"] == prompt["sha256"]


def test_a_temperature_draws_captions_by_the_seed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def captions(run_name: str, *more: str) -> list[str]:
        few = ("--model", "warm", "--frames", "2")
        return [line["caption"] for line in written(monkeypatch, folder, run_name, *few, *more)]

    drawn = captions("drawn")
    assert captions("again") == drawn
    assert captions("other", "--seed", "1") != drawn
    cold = captions("cold", "--temperature", "0")
    assert cold != drawn
    manifest = json.loads((folder / "runs" / "drawn" / "manifest.json").read_text("utf-8"))
    generation = manifest["generation"]["generation"]
    assert (generation["generation"]["temperature"], generation["seed"]) == (0.9, 0)


def test_an_entry_names_the_benchmarks_preset(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = written(monkeypatch, folder, "preset", "--model", "entry", "--limit", "1")[0][
        "generation"
    ]
    assert settings["generation"]["max_new_tokens"] == 3
    assert (settings["preset"], settings["dtype"]) == ("tuna", "float32")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["--model", "./nothing"], "--model ./nothing: does not exist"),
        (["--model", "./empty"], "--model ./empty: has no config.json"),
        (["--model", "ours"], "the folder of that name is ./ours"),
        (
            ["--model", "./ours", "--temperature", "-1"],
            "--temperature must be greater than or equal to 0",
        ),
        (["--model", "./ours", "--temperature", "warm"], "--temperature must be a valid number"),
        (["--model", "./ours", "--frames", "tuna-x"], "frames: 'tuna-x' is not one of"),
        (["--base-url", "http://127.0.0.1:9/v1", "--device", "cpu"], "--device is for models in"),
        (["--base-url", "http://127.0.0.1:9/v1", "--batch-size", "4"], "use --max-concurrency"),
    ],
)
def test_a_wrong_option_is_one_line_before_any_work(
    typed: list[str],
    said: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    assert run(monkeypatch, "generate", "-q", "--run", "refused", *typed) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert "Traceback" not in shown.err
    assert not (folder / "runs" / "refused").exists()
    assert sorted(folder.iterdir()) == before
