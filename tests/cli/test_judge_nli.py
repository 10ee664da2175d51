"""`capeval judge --judge nli:FOLDER` with tiny models, as people type it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

import capeval
from tests.judging.nli import tiny_nli
from tests.typed import here


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny_nli.deberta(folder / "deberta")
    tiny_nli.ruled(folder / "ruled")
    return folder


@pytest.fixture
def place(tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "models").symlink_to(models)
    return tmp_path


def configure(place: Path, **settings: str) -> None:
    rows = "".join(f'{name} = "{value}"\n' for name, value in settings.items())
    (place / "capeval.toml").write_text(f"[judges.nli]\n{rows}", encoding="utf-8")


def elements(number: int) -> list[dict[str, Any]]:
    texts = [f"a man walks {('yes', 'no', 'apple')[number % 3]}", "the street", "a man no"]
    return [{"content": text, "type": "action", "weight": 1} for text in texts]


def fill(place: Path, videos: int) -> None:
    event = "A man walks along the street."
    annotations = [
        {"index": f"V{n:03}", "events": [{"event": event, "visual_elements": elements(n)}]}
        for n in range(videos)
    ]
    (place / "ann.json").write_text(json.dumps(annotations), encoding="utf-8")
    captions = [f"{event} " * (1 + n % 2) + "He runs." for n in range(videos)]
    text = "".join(
        json.dumps({"index": f"V{n:03}", "caption": caption}) + "\n"
        for n, caption in enumerate(captions)
    )
    (place / "mine.jsonl").write_text(text, encoding="utf-8")


JUDGING = ("judge", "mine.jsonl", "--annotations", "ann.json", "--device", "cpu")


def judged(place: Path) -> Path:
    (folder,) = place.glob("runs/mine/nli-*")
    return folder


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_the_sample_is_judged_without_a_key(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    configure(place, dtype="float32")
    typed = ("judge", "sample", "--judge", "nli:models/deberta")
    assert "Expected: 0 calls, about $0.00" in here(*typed, "--dry-run").out
    assert not (place / "runs").exists()
    shown = here(*typed)
    assert shown.code == 0
    assert "Judge: nli:deberta (an NLI model, float32 on " in shown.err
    assert "sample-terse: captioned 10/10, scored 10/10" in shown.out
    assert "a baseline" not in shown.out
    (file,) = place.glob("runs/sample-terse/nli-deberta*/scores.json")
    scores = json.loads(file.read_text("utf-8"))
    assert "|judge:nli:deberta@" in scores["signature"]
    assert ",nli-1,float32,64 tokens|prompts:none|" in scores["signature"]
    before = {path: path.read_bytes() for path in place.glob("runs/*/nli*/*s.json*")}
    assert len(before) == 6
    # Other commands take the name that was typed, and the one that is printed.
    for name in ("nli:models/deberta", "nli:./deberta", "nli:deberta", "nli"):
        assert here("score", "sample-terse", "--judge", name).code == 0
    assert here("score", "sample-terse", "--judge", "nli:models/other").code == 2
    # Nothing is left to do; the weights are not even loaded.
    monkeypatch.setattr("capeval.judging.nli.cross_encoder.CrossEncoder._load", None)
    assert here(*typed).code == 0
    assert {path: path.read_bytes() for path in place.glob("runs/*/nli*/*s.json*")} == before


def test_verdicts_follow_the_logits(place: Path) -> None:
    fill(place, 6)
    assert here(*JUDGING, "--judge", "nli:models/ruled").code == 0
    found = [line["relations"] for line in lines(judged(place) / "judgments.jsonl")]
    first = ["entailment", "contradiction", "lack"] * 2
    assert found == [[[one, "lack", "contradiction"]] for one in first]
    scores = capeval.judge("mine", judge="nli:models/ruled", device="cpu")
    assert scores.settings["baseline"] is False
    assert scores.counts.scored == 6


def test_other_weights_and_another_precision_are_judged_again(place: Path, models: Path) -> None:
    fill(place, 4)
    shutil.copytree(models / "deberta", place / "own")
    typed = (*JUDGING, "--judge", "nli:own")

    def judged_by(dtype: str) -> set[tuple[str, ...]]:
        """Return by which models the verdicts of each folder were given, after another run."""
        configure(place, dtype=dtype)
        assert here(*typed).code == 0
        files = [lines(file) for file in place.glob("runs/mine/nli-*/judgments.jsonl")]
        every = [[line["provenance"]["models"][0] for line in file] for file in files]
        assert all(len(file) == 4 for file in every)
        return {tuple(sorted(set(file))) for file in every}

    first = judged_by("float32")
    weights = load_file(place / "own" / "model.safetensors")
    changed = {name: -value for name, value in weights.items()}
    save_file(changed, place / "own" / "model.safetensors", metadata={"format": "pt"})
    second = judged_by("float32") - first
    assert len(second) == 1
    (third,) = judged_by("bfloat16") - first - second
    assert "bfloat16" in third[0]


def test_a_caption_that_fails_is_unscored_and_judged_by_the_next_run(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from capeval.judging.nli.cross_encoder import CrossEncoder

    fill(place, 4)
    genuine, calls = CrossEncoder.logits, []

    def breaks(self: CrossEncoder, inputs: Any) -> Any:
        rows = genuine(self, inputs)
        calls.append(len(inputs))
        return rows * float("nan") if len(calls) == 2 else rows

    typed = (*JUDGING, "--judge", "nli:models/deberta")
    monkeypatch.setattr(CrossEncoder, "logits", breaks)
    failed = here(*typed)
    assert (failed.code, "scored 3/4" in failed.out) == (3, True)
    stored = lines(judged(place) / "judgments.jsonl")
    assert [line["status"] for line in stored] == ["scored", "unscored", "scored", "scored"]
    assert stored[1]["reason"].startswith("classify: the model's logits of element 1.1 are not")
    assert stored[1]["relations"] == []
    assert here(*typed).code == 0
    # A run that was interrupted leaves the bytes of an undisturbed one.
    resumed = (judged(place) / "judgments.jsonl").read_bytes()
    shutil.rmtree(place / "runs")
    assert here(*typed).code == 0
    assert (judged(place) / "judgments.jsonl").read_bytes() == resumed


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (("--judge", "nli"), "tasksource/ModernBERT-base-nli: the hub cannot be reached"),
        (("--judge", "nli:models/deberta", "--prompts", "x"), "--prompts is for chat models; the"),
        (("--judge", "nli:models/deberta", "--base-url", "http://x"), "--base-url is for chat"),
        (("--judge", "nli:models/deberta", "--device", "tpu"), "--device tpu: must be one of"),
        (("--judge", "lexical", "--device", "cpu"), "--device is for judges whose model runs in"),
        (("--device", "cpu"), "--device is for judges whose model runs in this process"),
    ],
)
def test_what_does_not_fit_ends_in_one_line(
    place: Path, typed: tuple[str, ...], message: str
) -> None:
    shown = here("judge", "sample", *typed)
    assert shown.code == 2
    (line,) = shown.lines
    assert line.startswith(f"capeval: {message}")
    assert not os.path.lexists(place / "runs")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"revision": "main"}, "revision is for models of the hub"),
        ({"dtype": "int4"}, "capeval.toml: judges.nli: dtype: Input should be 'auto'"),
        ({"weights": "x"}, "capeval.toml: judges.nli: weights: Extra inputs are not permitted"),
    ],
)
def test_wrong_settings_end_in_one_line(
    place: Path, settings: dict[str, str], message: str
) -> None:
    configure(place, **settings)
    shown = here("judge", "sample", "--judge", "nli:models/deberta")
    assert shown.code == 2
    (line,) = shown.lines
    assert line.startswith(f"capeval: {message}")
