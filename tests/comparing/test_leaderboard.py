import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.captioners.catalogue import read_catalogue
from capeval.comparing.sections import Leaderboard, read_published
from capeval.errors import InputError
from capeval.schema import ELEMENT_TYPES, Provenance
from capeval.scoring.scores import OVERALL, ScoreRow
from tests.judged_runs import BY, score_run, write_annotations
from tests.mcq.graded_runs import FRAMES, edit, grade, paired
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
    score_run("poor", POOR)
    made = {"model": "Qwen/Qwen2-VL-7B-Instruct", "frames": "2fps"}
    score_run("good", GOOD, generation=made)
    score_run("fair", FAIR, generation={"model": "llava-video-7b"})
    code, out, err = typed()
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines() if line.split()[:1] in (["1"], ["2"], ["3"])]
    assert rows[0][:8] == ["1", "good", "2fps", "8.3B", "10/10", "0", "100.0", "100.0"]
    assert ({row[-1] for row in rows}, rows[1][3]) == ({"2.0"}, "8B")
    assert [row[1] for row in rows] == ["good", "fair", "poor"]
    assert "judge:gpt-4o-2024-08-06|prompts:tuna-cap-v1@c23452|repeats:1|avg:macro|data:" in out


def test_runs_of_unlike_signature_stand_apart() -> None:
    score_run("mine", GOOD)
    score_run("older", FAIR)
    score_run("judged-by-mini", FAIR, by=BY.model_copy(update={"models": ("gpt-4o-mini",)}))
    score_run("other-prompts", FAIR, by=BY.model_copy(update={"prompts": "mine@123456"}))
    score_run("thinks", FAIR, by=BY.model_copy(update={"reasoning": "low"}))
    score_run("named", FAIR, by=BY.model_copy(update={"endpoint": "lab-b"}))
    score_run("words", GOOD, by=Provenance(judge="lexical-2", prompts=None, baseline=True))
    found = records()
    assert sorted(one["run"] for one in found if one["section"] == 1) == ["mine", "older"]
    assert [one["section"] for one in found] == [1, 1, 2, 3, 4, 5, 6]
    assert [one["baseline"] for one in found] == [False] * 6 + [True]
    _, out, _ = typed()
    assert "6. Runs judged by the baseline lexical-2" in out
    assert "endpoint lab-b" in out
    assert ", reasoning low\n" in out
    assert "Do not" in out


def test_several_judges_of_one_run_are_each_a_row() -> None:
    score_run("mine", GOOD)
    other = Path("runs/mine/again")
    other.mkdir()
    for name in ("judgments.jsonl", "scores.json"):
        (other / name).write_bytes((Path("runs/mine/judge") / name).read_bytes())
    assert names() == ["mine (runs/mine/again)", "mine (runs/mine/judge)"]


def test_run_of_part_of_the_videos_is_not_ranked_with_those_of_all() -> None:
    score_run("part", "+++ +++ | +++", captioned=2)
    score_run("whole", FAIR)
    found = [(one["run"], one["rank"], one["captioned"], one["scored"]) for one in records()]
    assert found == [("whole", 1, 10, 10), ("part", None, 2, 2)]
    _, out, _ = typed()
    assert "part (captioned 2/10, scored 2/2)" in " ".join(out.split())
    _, latex, _ = typed("--format", "latex")
    assert r"\textbf{100.0}" not in latex


@pytest.mark.parametrize("typed_path", ["elsewhere/runs/mine", "elsewhere/runs/mine/judge"])
def test_named_runs_are_the_only_ones_and_none_twice(typed_path: str) -> None:
    score_run("here", FAIR)
    score_run("other", FAIR)
    score_run("mine", GOOD, folder=Path("elsewhere"))
    assert names(typed_path, "here", "runs/here/judge") == ["mine", "here"]


def test_annotations_that_moved_can_be_named() -> None:
    score_run("mine", GOOD)
    Path("none.json").write_text("[]")
    assert names("--annotations", "none.json") == ["mine"]
    Path("a.json").rename("b.json")
    said = typed()
    assert (said.code, said.out.strip()) == (3, "No run can be shown: 1 left out.")
    assert names("--annotations", "b.json") == ["mine"]
    manifest = {"annotations": {"path": "a.json", "sha256": "0" * 64}}
    Path("runs/mine/manifest.json").write_text(json.dumps(manifest))
    assert "was not judged against b.json" in typed("--annotations", "b.json")[2]


def test_scores_come_from_the_verdicts_whatever_scores_json_says() -> None:
    score_run("mine", GOOD)
    Path("runs/mine/judge/scores.json").write_text("{")
    score_run("only-scores", FAIR)
    Path("runs/only-scores/judge/judgments.jsonl").unlink()
    assert names() == ["mine"]
    code, out, err = typed("only-scores")
    assert (code, out) == (2, "")
    assert "is a run that is not judged" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "runs: has no judged run; judge one with `capeval judge`"),
        (("--questions",), "runs: has no graded run"),
        (("nope",), "nope: is neither a folder nor a run under runs/"),
        (("a.json",), "a.json: is neither a folder nor a run under runs/"),
        ((".",), ".: is neither a judged run nor a judge's folder"),
        (("--by", "judge"), "--by: 'judge' must be one of overall, types,"),
    ],
)
def test_mistake_is_one_line(arguments: tuple[str, ...], message: str) -> None:
    assert message in typed(*arguments).refusal


def test_published_rows_need_no_run_and_never_mix_with_ones_own() -> None:
    alone = records("--published")
    assert [one["run"] for one in alone][:2] == ["GPT-4o", "Gemini 1.5 Pro"]
    assert (len(alone), {one["published"] for one in alone}) == (21, {True})
    score_run("mine", GOOD)
    own, *paper = records("--published")
    assert (own["run"], own["published"]) == ("mine", False)
    assert paper == [{**one, "section": 2} for one in alone]
    _, out, _ = typed("--published", "--by", "characteristics", "--full")
    assert "GPT-4o†" in out
    assert "F1 46.8, printed 49.6" in " ".join(out.split())
    assert "mine†" not in out


def test_json_has_every_number_of_scores_json_and_csv_those_of_its_tables() -> None:
    score_run("=1+1", FAIR)
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
    titles = [section.tables["overall"].title for section in (tuna, tomato, chance)]
    assert titles == ["Accuracy, in percent", "Accuracy, in percent", "Replies"]
    assert chance.records()[0]["decided by chance"] == 1440
    baselines = [row["accuracy"] for row in tomato.records() if row["run"] == "Human (videos)"]
    assert baselines == [0.952]


BOARD = ("--questions",)


def ranked(named: Sequence[str] = (), **more: Any) -> Leaderboard:
    return capeval.leaderboard(named, questions=True, **more)


def make(name: str, correct: list[bool | None], **more: Any) -> Path:
    return grade(Path("runs") / name, correct, more.pop("frames", FRAMES["multi"]), **more)


def test_runs_are_ranked_and_ties_share_a_rank() -> None:
    good, poor = paired(1, 0.7, 0.3)
    for name, correct in (("poor", poor), ("good", good), ("good-again", good)):
        make(name, correct, model=f"{name}-model")
    (section,) = ranked().sections
    ranks = [(one.name, one.rank) for one in section.entries if one.rank]
    assert ranks == [("good", 1), ("good-again", 1), ("poor", 3)]
    columns = section.tables["overall"].columns[-3:]
    found = [(column.heading, column.under) for column in columns]
    assert found == [("rotation", "20"), ("direction", "20"), ("count", "20")]


def test_runs_that_saw_less_have_no_rank() -> None:
    many, one = paired(1, 0.6, 0.9)
    make("many", many)
    make("shuffled", one, frames=FRAMES["shuffled"])
    (section,) = ranked().sections
    assert [(e.name, e.rank) for e in section.entries[:2]] == [("many", 1), ("shuffled", None)]
    out = typed(*BOARD)[1]
    assert "One frame, shuffled frames or none" in out
    assert "Not ranked" not in out


def test_run_with_too_few_scored_comes_last_and_the_reason_is_shown() -> None:
    good, poor = paired(1, 0.9, 0.3)
    make("poor", poor)
    make("good-but-part", [None, *good[1:]])
    (section,) = ranked().sections
    ranks = [(one.name, one.rank) for one in section.entries[:2]]
    assert ranks == [("poor", 1), ("good-but-part", None)]
    out = " ".join(typed(*BOARD)[1].split())
    assert "Not ranked, fewer than 99% of the questions are scored: good-but-part" in out


def test_other_strategies_questions_and_benchmarks_are_other_sections() -> None:
    correct = paired(1, 0.5)[0]
    make("a", correct)
    make("b", correct, select="exact+random")
    make("c", correct[:30])
    make("d", correct, benchmark="own")
    sections = ranked().sections
    assert sorted(section.entries[0].name for section in sections) == ["a", "b", "c", "d"]


def test_broken_run_is_left_out_unless_it_is_named() -> None:
    make("one", paired(1, 0.5)[0])
    edit(make("broken", paired(2, 0.5)[0]), items=None)
    code, out, err = typed(*BOARD)
    assert code == 3
    assert "broken" not in out
    assert err.startswith("left out: ")
    with pytest.raises(InputError, match="broken"):
        ranked(["broken"])
