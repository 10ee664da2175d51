"""`capeval leaderboard` of judged runs: sections, ranks, every format, mistakes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from capeval.schema import ELEMENT_TYPES, Provenance
from tests.judged_runs import BY, make_run, write_annotations
from tests.world import Said, here

GOOD = "+++ +++ | +++ | ++ +"
FAIR = "+0- 0++ | 0+- | 00 +"
POOR = "000 000 | 0+- | 00 0"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    write_annotations(Path("a.json"))


def typed(*arguments: str) -> Said:
    return here("leaderboard", *arguments)


def records(*arguments: str) -> list[dict[str, Any]]:
    said = typed("--json", *arguments)
    assert (said.code, said.err) == (0, "")
    found: list[dict[str, Any]] = said.json
    return found


def names(*arguments: str) -> list[str]:
    return [record["run"] for record in records(*arguments)]


def test_best_f1_stands_first_and_everything_known_of_a_run_beside_it() -> None:
    make_run("poor", POOR)
    made = {"model": "Qwen/Qwen2-VL-7B-Instruct", "frames": "2fps"}
    make_run("good", GOOD, generation=made)
    make_run("fair", FAIR)
    code, out, err = typed()
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert ["1", "good", "2fps", "8.3B", "10/10", "0", "100.0", "100.0"] in [
        line[:8] for line in lines
    ]
    assert [line[1] for line in lines if line[:1] in (["1"], ["2"], ["3"])] == [
        "good",
        "fair",
        "poor",
    ]
    assert "judge:gpt-4o-2024-08-06|prompts:tuna-cap-v1@c23452|repeats:1|avg:macro|data:" in out
    tables = [line for line in out.splitlines()[1:] if not line.startswith("  capeval:")]
    assert max(map(len, tables)) <= 80


def test_runs_of_unlike_signature_stand_apart() -> None:
    make_run("mine", GOOD)
    make_run("older", FAIR)
    make_run("judged-by-mini", FAIR, by=BY.model_copy(update={"models": ("gpt-4o-mini",)}))
    make_run("other-prompts", FAIR, by=BY.model_copy(update={"prompts": "mine@123456"}))
    make_run("words", GOOD, by=Provenance(judge="lexical-2", prompts=None, baseline=True))
    found = records()
    assert sorted(one["run"] for one in found if one["section"] == 1) == ["mine", "older"]
    assert [one["section"] for one in found] == [1, 1, 2, 3, 4]
    assert [one["baseline"] for one in found] == [False, False, False, False, True]
    _, out, _ = typed()
    assert "4. Runs judged by the baseline lexical-2" in out
    assert "Do not" in out


def test_several_judges_of_one_run_are_each_a_row() -> None:
    make_run("mine", GOOD)
    other = Path("runs/mine/again")
    other.mkdir()
    for name in ("judgments.jsonl", "scores.json"):
        (other / name).write_bytes((Path("runs/mine/judge") / name).read_bytes())
    assert names() == ["mine (runs/mine/again)", "mine (runs/mine/judge)"]


def test_run_of_part_of_the_videos_is_not_ranked_with_those_of_all() -> None:
    make_run("part", "+++ +++ | +++", captioned=2)
    make_run("whole", FAIR)
    found = [(one["run"], one["rank"], one["captioned"], one["scored"]) for one in records()]
    assert found == [("whole", 1, 10, 10), ("part", None, 2, 2)]
    _, out, _ = typed()
    assert "part (captioned 2/10, scored 2/2)" in " ".join(out.split())
    _, latex, _ = typed("--format", "latex")
    assert r"\textbf{100.0}" not in latex


@pytest.mark.parametrize("typed_path", ["elsewhere/mine", "elsewhere/mine/judge"])
def test_named_runs_are_the_only_ones_and_none_twice(typed_path: str) -> None:
    make_run("here", FAIR)
    make_run("other", FAIR)
    make_run("mine", GOOD, runs=Path("elsewhere"))
    assert names(typed_path, "here", "runs/here/judge") == ["mine", "here"]


def test_annotations_that_moved_can_be_named() -> None:
    make_run("mine", GOOD)
    Path("a.json").rename("b.json")
    assert typed()[0] == 3
    assert names("--annotations", "b.json") == ["mine"]
    manifest = {"annotations": {"path": "a.json", "sha256": "0" * 64}}
    Path("runs/mine/manifest.json").write_text(json.dumps(manifest))
    assert "was not judged against b.json" in typed("--annotations", "b.json")[2]


def test_scores_come_from_the_verdicts_whatever_scores_json_says() -> None:
    make_run("mine", GOOD)
    Path("runs/mine/judge/scores.json").write_text("{")
    make_run("only-scores", FAIR)
    Path("runs/only-scores/judge/judgments.jsonl").unlink()
    assert names() == ["mine"]
    code, out, err = typed("only-scores")
    assert (code, out) == (2, "")
    assert "is a run that is not judged" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "runs: has no judged run; judge one with `capeval judge`"),
        (("nope",), "nope: is neither a folder nor a run under runs/"),
        (("a.json",), "a.json: is neither a folder nor a run under runs/"),
        ((".",), ".: is neither a judged run nor a judge's folder"),
        (("--by", "judge"), "--by: 'judge' must be one of overall, types,"),
    ],
)
def test_mistake_is_one_line(arguments: tuple[str, ...], message: str) -> None:
    code, out, err = typed(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_published_rows_need_no_run_and_never_mix_with_ones_own() -> None:
    alone = records("--published")
    assert [one["run"] for one in alone][:2] == ["GPT-4o", "Gemini 1.5 Pro"]
    assert (len(alone), {one["published"] for one in alone}) == (21, {True})
    make_run("mine", GOOD)
    own, *paper = records("--published")
    assert (own["run"], own["published"]) == ("mine", False)
    assert paper == [{**one, "section": 2} for one in alone]
    _, out, _ = typed("--published", "--by", "characteristics", "--full")
    assert "GPT-4o†" in out
    assert "F1 46.8, printed 49.6" in " ".join(out.split())
    assert "mine†" not in out


def test_json_has_every_number_of_scores_json_and_csv_those_of_its_tables() -> None:
    make_run("=1+1", FAIR)
    stored = json.loads(Path("runs/=1+1/judge/scores.json").read_text())
    places = {kind: of for kind, of in stored["overall"].items() if kind != "all"}
    places |= {
        f"{way}.{name}": of["all"] for way, by in stored["by"].items() for name, of in by.items()
    }
    record, *published = records("--published")
    (row, *_) = csv.DictReader(io.StringIO(typed("--format", "csv", "--by", "types")[1]))
    assert (row["run"], row["published"]) == ("'=1+1", "false")
    assert {name.split(".")[0] for name in row if "." in name} == {*ELEMENT_TYPES}
    for place, of in places.items():
        assert record[f"{place}.n"] == of["n"]
        for measure in ("precision", "recall", "f1"):
            for end, key in (("", "value"), ("_low", "low"), ("_high", "high")):
                value = of[measure][key]
                assert record[f"{place}.{measure}{end}"] == value
                if place in ELEMENT_TYPES:
                    shown = row[f"{place}.{measure}{end}"]
                    assert shown == ("" if value is None else repr(value))
    assert record["f1_low"] == stored["overall"]["all"]["f1"]["low"]
    remarked = {one["run"] for one in published if one["remark"]}
    assert remarked == {"LLaVA-OV-72B", "Gemini 1.5 Flash", "Tarsier-34B"}


def test_out_writes_the_table_and_csv_the_records() -> None:
    make_run("mine", GOOD)
    code, out, err = typed("--published", "--out", "deep/board.csv")
    assert (code, err) == (0, "")
    assert out.startswith("mine: F1 100.0 ")
    assert out.endswith("\nWritten: deep/board.csv\n")
    assert Path("deep/board.csv").read_text() == typed("--published", "--format", "csv")[1]
    typed("--published", "--out", "board.txt")
    assert "LLaVA-OV-72B" in Path("board.txt").read_text()


def test_sections_of_two_efforts_of_one_judge_have_two_titles() -> None:
    for effort in (None, "low"):
        make_run(f"run-{effort}", GOOD, by=BY.model_copy(update={"reasoning": effort}))
    titles = [line for line in typed()[1].splitlines() if "Runs judged by" in line]
    assert len(titles) == 2
    assert sum(title.endswith(", reasoning low") for title in titles) == 1
