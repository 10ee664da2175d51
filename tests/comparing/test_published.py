"""The papers' tables as transcribed are complete, and agree with themselves but for the remarks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.captioners.catalogue import read_catalogue
from capeval.comparing.sections import read_published
from capeval.scoring.scores import OVERALL, ScoreRow

CAPTIONS = read_published("captions")
TUNA, TOMATO, *_ = read_published("questions")["tables"]


def test_frames_are_those_of_the_catalogue_and_the_same_in_both_tables() -> None:
    # The table says how many frames a second, the catalogue whose code takes them.
    in_table = {"qwen-2fps": "2fps", "tuna-auto": "auto"}
    frames = [entry.frames for entry in read_catalogue().values() if entry.paper]
    assert sorted(CAPTIONS["frames"].values()) == sorted(in_table.get(f, f) for f in frames)
    assert {model: TUNA["frames"].get(model, "32") for model in TUNA["rows"]} == CAPTIONS["frames"]


def test_cells_of_captions_are_possible_means_of_the_same_videos() -> None:
    for model in CAPTIONS["frames"]:
        eight, nine, ten = (CAPTIONS[f"table{n}"][model] for n in (8, 9, 10))
        assert (len(eight), len(nine), len(ten)) == (15, 15, 11), model
        assert eight[12:] == nine[12:], model
        assert eight[14] == ten[10], model
        for at in range(0, 15, 3):
            for precision, recall, f1 in (eight[at : at + 3], nine[at : at + 3]):
                highest = 2 * precision * recall / (precision + recall)
                assert recall - 0.1 <= f1 <= highest + 0.1, model
        # Every video is Low- or High-Dynamic: 340 and 660.
        mixed = 0.34 * nine[2] + 0.66 * nine[5]
        assert (abs(mixed - nine[14]) <= 0.2) == (model != "LLaVA-OV-72B"), model


@pytest.mark.parametrize("table", [TUNA, TOMATO], ids=["tuna", "tomato"])
def test_overall_accuracies_are_the_mean_weighted_by_questions(table: dict[str, Any]) -> None:
    questions, remarks = table["questions"], table["remarks"]
    assert sum(questions) == table["overall_questions"]
    for model, (*cells, overall) in table["rows"].items():
        mean = sum(c * n for c, n in zip(cells, questions, strict=True)) / sum(questions)
        assert abs(mean - overall) <= 0.1 or model in remarks, model


def test_best_rows_are_the_papers_headlines(tmp_path: Path) -> None:
    (captions,) = capeval.leaderboard(runs=tmp_path, published=True).sections
    best = captions.entries[0]
    assert isinstance(best, ScoreRow)
    assert (best.name, best.rank, len(captions.entries)) == ("GPT-4o", 1, 21)
    record = captions.records()[0]
    shown = ("precision", "recall", "f1", "camera.f1", "visual_characteristic.Multi-Subject.recall")
    assert [record[key] for key in shown] == [0.777, 0.482, 0.585, 0.613, 0.444]
    assert (record["events.>=9.f1"], record["events.>=9.recall"]) == (0.413, None)
    assert best.cells[OVERALL].f1.value == 0.585
    tuna, tomato, _, chance = capeval.leaderboard(
        runs=tmp_path, published=True, questions=True
    ).sections
    heads = [(s.records()[0]["run"], s.records()[0]["accuracy"]) for s in (tuna, tomato)]
    assert heads == [("Gemini 1.5 Pro", 0.608), ("Qwen2-VL-72B", 0.379)]
    assert chance.records()[0]["decided by chance"] == 1440
    baselines = [row["accuracy"] for row in tomato.records() if row["run"] == "Human (videos)"]
    assert baselines == [0.952]
