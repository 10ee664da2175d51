"""A tiny model of transformers captions the sample, and the lexical judge scores it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.captioners import tiny
from tests.generating import lines
from tests.typed import typed


def test_the_sample_is_captioned_by_a_tiny_model_and_judged(
    tmp_path: Path,
) -> None:
    model = tiny.make("llava-onevision", tmp_path)
    made = typed(
        tmp_path, "generate", "--model", str(model), "--device", "cpu", "--frames", "4",
        "--max-new-tokens", "24", "--batch-size", "4", "--run", "tiny",
    )  # fmt: skip
    assert made.code == 0, made.err
    captions = lines(tmp_path / "runs" / "tiny" / "captions.jsonl")
    assert len({line["caption"] for line in captions}) == 10
    assert [len(line["frames"]["indices"]) for line in captions] == [4] * 10
    judged = typed(tmp_path, "judge", "--judge", "lexical")
    assert "tiny: captioned 10/10, scored 10/10" in judged.out


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


def written(folder: Path, run_name: str, *arguments: str) -> list[dict[str, Any]]:
    command = ("generate", "--device", "cpu", "--run", run_name, "--limit", "2", *arguments)
    # Random weights may end a caption before it begins.
    assert typed(folder, *command, "--max-failed", "1").code == 0
    return lines(folder / "runs" / run_name / "captions.jsonl")


def test_a_folder_is_captioned_with_the_options_that_are_typed(folder: Path) -> None:
    (folder / "p.txt").write_text(" Say what happens. ", encoding="utf-8")
    lines = written(folder, "typed", "--model", "half", "--prompts", "p.txt",
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


def test_a_temperature_draws_captions_by_the_seed(folder: Path) -> None:
    def captions(run_name: str, *more: str) -> list[str]:
        few = ("--model", "warm", "--frames", "2")
        return [line["caption"] for line in written(folder, run_name, *few, *more)]

    drawn = captions("drawn")
    assert captions("again") == drawn
    assert captions("other", "--seed", "1") != drawn
    cold = captions("cold", "--temperature", "0")
    assert cold != drawn
    manifest = json.loads((folder / "runs" / "drawn" / "manifest.json").read_text("utf-8"))
    generation = manifest["generation"]["generation"]
    assert (generation["generation"]["temperature"], generation["seed"]) == (0.9, 0)


def test_an_entry_names_the_benchmarks_preset(folder: Path) -> None:
    settings = written(folder, "preset", "--model", "entry", "--limit", "1")[0]["generation"]
    assert settings["generation"]["max_new_tokens"] == 3
    assert (settings["preset"], settings["dtype"]) == ("tuna", "float32")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--model", "./nothing"], "--model ./nothing: does not exist"),
        (["--model", "./empty"], "--model ./empty: has no config.json"),
        (["--model", "ours"], "the folder of that name is ./ours"),
        (["--base-url", "http://127.0.0.1:9/v1", "--device", "cpu"], "--device is for models in"),
        (["--base-url", "http://127.0.0.1:9/v1", "--batch-size", "4"], "use --max-concurrency"),
    ],
)
def test_a_wrong_option_is_one_line_before_any_work(
    given: list[str], said: str, folder: Path
) -> None:
    before = sorted(folder.iterdir())
    shown = typed(folder, "generate", "-q", "--run", "refused", *given)
    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert said in shown.err
    assert sorted(folder.iterdir()) == before
