"""`capeval judge --judge nli:FOLDER` and `capeval probe` with tiny models, as people type it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

import capeval
from capeval.cli import main
from tests.cli_runs import environment
from tests.judging.nli import tiny_nli

# The wheel of torchvision fails beside a torch without CUDA; see tests/torchvision_operators.py.
PROCESS = """
import sys
from tests.torchvision_operators import DefinedBeforeImport
sys.meta_path.insert(0, DefinedBeforeImport())
sys.argv[0] = "capeval"
from capeval.cli import main
main()
"""
VIDEOS = 120


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny_nli.deberta(folder / "deberta")
    tiny_nli.modernbert(folder / "modernbert")
    tiny_nli.ruled(folder / "ruled", tiny_nli.YES_NO, bias=tiny_nli.LEAN_TO_NEUTRAL)
    return folder


@pytest.fixture
def place(tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "models").symlink_to(models)
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    monkeypatch.setattr(sys, "argv", ["capeval", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def elements(number: int) -> list[dict[str, Any]]:
    texts = [f"a man walks {('yes', 'no', 'apple')[number % 3]}", "the street", "a man no"]
    return [{"content": text, "type": "action", "weight": 1} for text in texts]


def fill(place: Path, videos: int = VIDEOS) -> None:
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


def judged(place: Path, name: str = "nli-") -> Path:
    (folder,) = (path for path in (place / "runs" / "mine").iterdir() if path.name.startswith(name))
    return folder


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_the_sample_is_judged_without_a_key(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    typed = ("judge", "sample", "--judge", "nli:models/deberta", "--dtype", "float32")
    assert run(monkeypatch, *typed, "--dry-run") == 0
    assert "Expected: 0 calls, about $0.00" in capsys.readouterr().out
    assert not (place / "runs").exists()
    assert run(monkeypatch, *typed) == 0
    shown = capsys.readouterr()
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
        assert run(monkeypatch, "score", "sample-terse", "--judge", name) == 0
    assert run(monkeypatch, "score", "sample-terse", "--judge", "nli:models/other") == 2
    # Nothing is left to do; the weights are not even loaded.
    monkeypatch.setattr("capeval.judging.nli.checkpoint.OpenCheckpoint.load", None)
    assert run(monkeypatch, *typed) == 0
    assert {path: path.read_bytes() for path in place.glob("runs/*/nli*/*s.json*")} == before


def test_verdicts_follow_the_logits(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(place, 6)
    assert run(monkeypatch, *JUDGING, "--judge", "nli:models/ruled") == 0
    stored = lines(judged(place) / "judgments.jsonl")
    first = ["entailment", "contradiction", "lack"] * 2
    found = [line["relations"] for line in stored]
    assert found == [[[one, "lack", "contradiction"]] for one in first]
    scores = capeval.judge("mine", judge="nli:models/ruled", device="cpu")
    assert scores.settings["baseline"] is False
    assert scores.counts.scored == 6
    assert [scores.videos[f"V{n:03}"]["all"].entailed for n in range(3)] == [1, 0, 0]


def start(place: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", PROCESS, *arguments],
        cwd=place,
        env=environment(place, HF_HUB_OFFLINE="1"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def test_killed_and_resumed_it_leaves_the_bytes_of_an_undisturbed_run(
    tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = (*JUDGING, "--judge", f"nli:{models / 'modernbert'}", "--dtype", "float32")
    places = [tmp_path / name for name in ("whole", "killed")]
    for each in places:
        each.mkdir()
        fill(each)
    kills = 0
    for least in (1, 60):
        process = start(places[1], *typed)
        began = time.monotonic()
        while process.poll() is None and time.monotonic() < began + 100:
            found = list(places[1].glob("runs/mine/nli*/judgments.jsonl"))
            if found and found[0].read_bytes().count(b"\n") >= least:
                break
            time.sleep(0.001)
        kills += process.poll() is None
        process.kill()
        process.communicate()
    assert kills
    for each in places:
        monkeypatch.chdir(each)
        assert run(monkeypatch, *typed) == 0
    for name in ("judgments.jsonl", "scores.json"):
        one, other = ((judged(each) / name).read_bytes() for each in places)
        assert one == other
    assert len(lines(judged(places[1]) / "judgments.jsonl")) == VIDEOS


def test_other_weights_and_another_precision_are_judged_again(
    place: Path, models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(place, 4)
    own = place / "own"
    own.mkdir()
    for file in (models / "deberta").iterdir():
        (own / file.name).write_bytes(file.read_bytes())
    typed = (*JUDGING, "--judge", "nli:own", "--dtype", "float32")
    assert run(monkeypatch, *typed) == 0
    capsys.readouterr()
    weights = load_file(own / "model.safetensors")
    changed = {name: -value for name, value in weights.items()}
    save_file(changed, own / "model.safetensors", metadata={"format": "pt"})
    assert run(monkeypatch, *typed) == 0
    assert "is another judge and judges it again" in capsys.readouterr().err
    assert run(monkeypatch, *typed[:-1], "bfloat16") == 0
    assert "is another judge and judges it again" in capsys.readouterr().err
    folders = list((place / "runs").glob("*/nli-own-*"))
    made = {lines(one / "judgments.jsonl")[0]["provenance"]["models"][0] for one in folders}
    assert [len(made), sum("bfloat16" in model for model in made)] == [3, 1]


def test_a_caption_that_fails_is_unscored_and_judged_by_the_next_run(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
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
    assert run(monkeypatch, *typed) == 3
    assert "scored 3/4" in capsys.readouterr().out
    stored = lines(judged(place) / "judgments.jsonl")
    assert [line["status"] for line in stored] == ["scored", "unscored", "scored", "scored"]
    assert stored[1]["reason"].startswith("classify: the model's logits of element 1.1 are not")
    assert stored[1]["relations"] == []
    monkeypatch.setattr(CrossEncoder, "logits", genuine)
    assert run(monkeypatch, *typed) == 0
    assert {line["status"] for line in lines(judged(place) / "judgments.jsonl")} == {"scored"}


def test_a_checkpoint_that_cannot_be_loaded_stops_the_run_in_one_line(
    place: Path, models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(place, 4)
    own = place / "own"
    own.mkdir()
    for file in (models / "deberta").iterdir():
        (own / file.name).write_bytes(file.read_bytes())
    weights = load_file(own / "model.safetensors")
    kept = {name: value for name, value in weights.items() if "classifier" not in name}
    save_file(kept, own / "model.safetensors", metadata={"format": "pt"})
    assert run(monkeypatch, *JUDGING, "--judge", "nli:own") == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines()[-1] == (
        "capeval: own: its checkpoint lacks 2 tensors, such as classifier.bias"
    )
    assert not list(place.glob("runs/*/nli*"))


def test_a_probe_measures_it(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = ("probe", "sample", "--videos", "3", "--judge", "nli:models/ruled", "--device", "cpu")
    assert run(monkeypatch, *typed, "--dtype", "float32", "--judge", "lexical") == 0
    shown = capsys.readouterr().out
    assert "nli:ruled" in shown
    assert "lexical-1" in shown
    cards = {path.parent.name for path in place.glob("probes/*/probe.json")}
    assert len(cards) == 2
    # A run of the same judge shows its card.
    assert run(monkeypatch, "judge", "sample", "--judge", "nli:models/ruled", *typed[-2:]) == 0


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (("--judge", "nli:nope"), '"nope" is neither a folder here nor a model of the hub'),
        (("--judge", "nli"), "tasksource/ModernBERT-base-nli: the hub cannot be reached"),
        (("--judge", "nli:models/deberta", "--prompts", "x"), "--prompts is for chat models; the"),
        (("--judge", "nli:models/deberta", "--base-url", "http://x"), "--base-url is for chat"),
        (("--judge", "nli:models/deberta", "--device", "tpu"), "--device tpu: must be one of"),
        (("--judge", "lexical", "--device", "cpu"), "--device is for a judge whose model runs in"),
        (("--judge", "gpt-4o", "--dtype", "float32"), "--dtype is for a judge whose model runs in"),
        (("--revision", "main"), "--revision is for a judge whose model runs in this process"),
    ],
)
def test_what_does_not_fit_ends_in_one_line(
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    typed: tuple[str, ...],
    told: str,
) -> None:
    assert run(monkeypatch, "judge", "sample", *typed) == 2
    shown = capsys.readouterr()
    (line,) = shown.err.splitlines()
    assert line.startswith(f"capeval: {told}")
    assert not os.path.lexists(place / "runs")


def test_it_is_listed(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "judges") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "nli: an NLI model in this process, without an API." in shown
    assert run(monkeypatch, "judges", "nli") == 0
    assert "A model of natural-language inference" in capsys.readouterr().out
    assert capeval.judges("nli").judges[0].kind == "installed"
