"""`capeval mcq temporal` and `capeval.mcq_temporal`, over runs graded by `capeval mcq grade`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.errors import InputError, UsageError
from capeval.mcq.frame_roles import shown_by
from tests.judged_runs import capeval as type_command
from tests.mcq.graded_runs import FRAMES, edit, grade, paired

Typed = Callable[..., tuple[int, str, str]]
FEW = 200


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    return lambda *arguments: type_command(monkeypatch, capsys, "mcq", "temporal", *arguments)


def make_runs(
    prefix: str = "m", seed: int = 1, model: str | None = None, **shares: float
) -> dict[str, Path]:
    shares = shares or {"multi": 0.6, "single": 0.3, "picked": 0.35, "shuffled": 0.5, "blind": 0.2}
    answers = paired(seed, *shares.values())
    return {
        role: grade(Path("runs") / f"{prefix}-{role}", correct, FRAMES[role], model=model)
        for role, correct in zip(shares, answers, strict=True)
    }


SETTINGS: list[tuple[dict[str, Any], str | None, str]] = [
    (dict(FRAMES["multi"]), "multi", "16 frames"),
    ({"policy": "2fps", "indices": [0, 1]}, "multi", "2fps"),
    ({"policy": "auto", "order": "shuffled", "indices": [1, 0]}, "shuffled", "auto shuffled"),
    (dict(FRAMES["single"]), "single", "random frame"),
    ({"single": "first", "indices": [0]}, "single", "first frame"),
    ({"single": "7", "indices": [7]}, "single", "frame 7"),
    ({"single": 7, "indices": [7]}, "single", "frame 7"),
    ({"policy": "1", "indices": [12]}, "single", "middle frame"),
    (dict(FRAMES["picked"]), "picked", "picked frame"),
    ({"blind": True}, "blind", "no frame"),
    ({"policy": "none"}, "blind", "no frame"),
    ({}, None, ""),
]


@pytest.mark.parametrize(("frames", "role", "label"), SETTINGS)
def test_what_a_run_showed_is_read_from_its_frames(
    frames: dict[str, Any], role: str | None, label: str
) -> None:
    assert shown_by(frames) == (None if role is None else (role, label))


def test_roles_are_found_and_measures_computed() -> None:
    runs = make_runs()
    found = capeval.mcq_temporal(list(runs.values()), resamples=FEW)
    (model,) = found.models
    assert {role: run.name for role, run in model.runs.items()} == {r: f"m-{r}" for r in runs}
    right = {
        role: json.loads(file.read_text("utf-8"))["overall"]["correct"]
        for role, file in runs.items()
    }
    gain = model.overall.measures["multi_frame_gain"]
    assert gain.value == pytest.approx(right["multi"] / right["single"] - 1)
    assert (gain.upper, gain.lower) == (right["multi"], right["single"])
    assert gain.value is not None
    assert gain.low is not None
    assert gain.high is not None
    assert gain.low < gain.value < gain.high
    assert found.way == "reasoning_type"
    assert list(model.by) == ["rotation", "direction", "count"]
    of_groups = [of.measures["multi_frame_gain"].questions for of in model.by.values()]
    assert sum(of_groups) == gain.questions == 60


def test_names_under_runs_and_folders_mean_the_same() -> None:
    make_runs(multi=0.6, single=0.3)
    by_name = capeval.mcq_temporal(["m-multi", "m-single"], resamples=FEW)
    by_path = capeval.mcq_temporal([Path("runs/m-multi"), "runs/m-single"], resamples=FEW)
    assert by_name == by_path


def test_named_roles_win_over_the_frames() -> None:
    runs = make_runs(multi=0.6, picked=0.3)
    found = capeval.mcq_temporal(multi=runs["multi"], single=runs["picked"], resamples=FEW)
    assert list(found.models[0].overall.measures) == ["multi_frame_gain", "needs_frames"]
    assert "not" not in found.models[0].runs["single"].label
    assert any("the single frame is the picked frame" in note for note in found.notes)


def test_runs_without_frames_must_be_named() -> None:
    many, one = paired(1, 0.6, 0.3)
    files = [grade(Path("runs") / n, c, {}) for n, c in (("many", many), ("one", one))]
    with pytest.raises(UsageError, match="do not say which frames were shown"):
        capeval.mcq_temporal(files)
    found = capeval.mcq_temporal(multi="many", single="one", resamples=FEW)
    assert found.models[0].overall.measures["multi_frame_gain"].questions == 60


def test_failed_calls_are_left_out_of_both_runs() -> None:
    many, one = paired(1, 0.6, 0.3)
    many[0] = one[1] = None
    grade(Path("runs/many"), many, FRAMES["multi"])
    grade(Path("runs/one"), one, FRAMES["single"])
    (model,) = capeval.mcq_temporal(["many", "one"], resamples=FEW).models
    assert model.overall.measures["multi_frame_gain"].questions == 58
    assert model.overall.accuracies["multi"].questions == 59
    assert model.unpaired == 0


def test_questions_of_one_run_alone_are_counted() -> None:
    many, one = paired(1, 0.6, 0.3)
    grade(Path("runs/many"), many, FRAMES["multi"])
    grade(Path("runs/one"), one[:50], FRAMES["single"])
    (model,) = capeval.mcq_temporal(["many", "one"], resamples=FEW).models
    assert model.overall.measures["multi_frame_gain"].questions == 50
    assert model.unpaired == 10


def test_nothing_right_below_the_line_has_no_value_but_a_reason(typed: Typed) -> None:
    grade(Path("runs/many"), [True] * 30, FRAMES["multi"])
    grade(Path("runs/one"), [False] * 30, FRAMES["single"])
    code, out, _ = typed("many", "one", "--resamples", "200")
    assert code == 0
    assert "multi-frame gain has no value (no question is answered correctly" in out
    assert "¹ no question is answered correctly with one frame" in out
    # The share of questions still has one.
    assert "100.0" in out


def test_models_are_kept_apart_and_averaged() -> None:
    first = make_runs("a", 1, "model-a", multi=0.6, single=0.3)
    second = make_runs("b", 2, "model-b", multi=0.5, single=0.4)
    found = capeval.mcq_temporal([*first.values(), *second.values()], resamples=FEW)
    values = [of.overall.measures["multi_frame_gain"].value for of in found.models]
    assert [one.model for one in found.models] == ["model-a", "model-b"]
    assert found.average is not None
    mean = found.average.overall["multi_frame_gain"].value
    assert mean == pytest.approx(sum(v for v in values if v is not None) / 2)


def test_result_does_not_depend_on_the_order_of_the_runs() -> None:
    runs = [*make_runs().values()]
    first = capeval.mcq_temporal(runs, resamples=FEW).models[0]
    second = capeval.mcq_temporal(runs[::-1], resamples=FEW).models[0]
    assert (first.overall, first.by) == (second.overall, second.by)


def test_result_does_not_depend_on_the_order_of_the_questions() -> None:
    runs = [*make_runs().values()]
    first = capeval.mcq_temporal(runs, resamples=FEW).models[0]
    for run in runs:
        edit(run, items=json.loads(run.read_text())["items"][::-1])
    second = capeval.mcq_temporal(runs, resamples=FEW).models[0]
    assert (first.overall, first.by) == (second.overall, second.by)


FAULTS: list[tuple[str, dict[str, Any], str]] = [
    ("one run", {"graded_runs": ["m-multi"]}, "at least two graded runs"),
    ("the same run twice", {"graded_runs": ["m-multi", "runs/m-multi"]}, "at least two graded"),
    ("nothing to compare", {"graded_runs": ["m-multi", "m-blind"]}, "nothing can be compared with"),
    (
        "no such run",
        {"graded_runs": ["m-multi", "nope"]},
        "is neither a graded run nor",
    ),
    ("not graded", {"graded_runs": ["m-multi", "empty"]}, "holds no grades.json"),
    ("unknown tag", {"graded_runs": ["m-multi", "m-single"], "by": "task"}, "no question has this"),
    ("two of a role", {"graded_runs": ["m-multi", "m-single", "m-multi2"]}, "both show all frames"),
    ("changed video", {"graded_runs": ["m-multi", "changed"]}, "has another video or answer"),
    ("other set", {"graded_runs": ["m-multi", "other"]}, "several benchmarks: tomato, tuna"),
    ("mixed", {"graded_runs": ["m-multi", "mixed"]}, "were asked with"),
    ("other models", {"graded_runs": ["a", "b"]}, r"different models.*a/grades.json \(A\), .*B"),
    ("other models, named", {"multi": "a", "single": "b"}, "the runs are of different models"),
    ("no model", {"graded_runs": ["m-multi", "b"]}, "name no model.*m-multi.*with --model"),
]


@pytest.mark.parametrize(
    ("what", "arguments", "message"), FAULTS, ids=[what for what, *_ in FAULTS]
)
def test_mistakes_are_explained(what: str, arguments: dict[str, Any], message: str) -> None:
    many, one = paired(1, 0.6, 0.3)
    make_runs(multi=0.6, single=0.3, blind=0.2)
    Path("runs/empty").mkdir()
    grade(Path("runs/m-multi2"), many, FRAMES["multi"])
    grade(Path("runs/a"), many, FRAMES["multi"], model="A")
    grade(Path("runs/b"), one, FRAMES["single"], model="B")
    changed = grade(Path("runs/changed"), one, FRAMES["single"])
    items = json.loads(changed.read_text("utf-8"))["items"]
    edit(changed, items=[{**items[0], "video": "another"}, *items[1:]])
    grade(Path("runs/other"), one, FRAMES["single"], benchmark="tuna")
    mixed = grade(Path("runs/mixed"), one, FRAMES["single"])
    edit(mixed, items=[{**items[0], "frames": dict(FRAMES["multi"])}, *items[1:]])
    with pytest.raises((InputError, UsageError), match=message):
        capeval.mcq_temporal(**arguments)


def broken_grades(accuracy: Any = None, n: int = 1, items: Any = None, correct: Any = True) -> str:
    item = {"id": "1", "video": "v", "correct": correct}
    overall = {"accuracy": {"value": 0.5} if accuracy is None else accuracy, "n": n}
    made = {"signature": "x", "overall": overall, "items": [item] if items is None else items}
    return json.dumps(made)


BROKEN = [
    ("[]", "must be a JSON object"),
    ("{", "runs/m-single/grades.json"),
    ('{"signature": "x"}', "overall"),
    ('{"signature": 3, "overall": {"accuracy": {}, "n": 1}, "items": []}', "signature"),
    (broken_grades(items=[]), "items"),
    (broken_grades(accuracy={}), "overall.accuracy.value: Field required"),
    (
        broken_grades(accuracy={"value": 7.5}),
        "overall.accuracy.value: Input should be less than or equal to 1, not 7.5",
    ),
    (
        broken_grades(accuracy={"value": True}),
        "overall.accuracy.value: Input should be a valid number",
    ),
    (
        broken_grades(accuracy={"value": "0.5"}),
        "overall.accuracy.value: Input should be a valid number",
    ),
    (broken_grades(n=-5), "overall.n: Input should be greater than or equal to 0, not -5"),
    (broken_grades(correct="yes"), "items.1.correct: Input should be a valid boolean"),
    (broken_grades(correct=1), "items.1.correct: Input should be a valid boolean"),
]


@pytest.mark.parametrize(("text", "message"), BROKEN)
def test_broken_grades_are_one_line_with_the_place(text: str, message: str, typed: Typed) -> None:
    make_runs(multi=0.6, single=0.3)
    Path("runs/m-single/grades.json").write_text(text, encoding="utf-8")
    code, out, err = typed("m-multi", "m-single")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "m-single" in err
    assert message in err


def test_duplicated_question_is_refused() -> None:
    runs = make_runs(multi=0.6, single=0.3)
    items = json.loads(runs["single"].read_text("utf-8"))["items"]
    edit(runs["single"], items=[*items, items[0]])
    with pytest.raises(InputError, match=r'"rotation/0" is duplicated'):
        capeval.mcq_temporal(list(runs.values()))


def test_older_grades_take_frames_and_tags_from_the_responses() -> None:
    runs = make_runs(multi=0.6, single=0.3)
    whole = capeval.mcq_temporal(list(runs.values()), resamples=FEW)
    for file in runs.values():
        items = json.loads(file.read_text("utf-8"))["items"]
        for item in items:
            del item["frames"], item["tags"]
        edit(file, items=items)
    assert capeval.mcq_temporal(list(runs.values()), resamples=FEW) == whole


def test_other_frames_in_the_shuffled_run_are_noticed() -> None:
    runs = make_runs(multi=0.6, shuffled=0.4)
    items = json.loads(runs["shuffled"].read_text("utf-8"))["items"]
    items[0]["frames"]["indices"] = [3, 1, 2, 0]
    edit(runs["shuffled"], items=items)
    found = capeval.mcq_temporal(list(runs.values()), resamples=FEW)
    assert any("1 question had other frames in the shuffled run" in note for note in found.notes)


def test_different_strategies_are_noticed() -> None:
    many, one = paired(1, 0.6, 0.3)
    grade(Path("runs/many"), many, FRAMES["multi"])
    grade(Path("runs/one"), one, FRAMES["single"], select="exact+random")
    found = capeval.mcq_temporal(["many", "one"], resamples=FEW)
    assert any("read by different strategies" in note for note in found.notes)


def test_screen_begins_with_the_headline_and_fits(typed: Typed) -> None:
    runs = make_runs()
    code, out, err = typed(*map(str, runs.values()), "--resamples", "200")
    assert (code, err) == (0, "")
    assert out.startswith("m-multi on TOMATO: multi-frame gain +")
    assert len(out.splitlines()) <= 40
    assert max(map(len, out.splitlines()[1:])) <= 80
    full = typed(*map(str, runs.values()), "--resamples", "200", "--full")[1]
    assert full.count("by reasoning_type") == 6


def test_json_is_the_functions_result(typed: Typed) -> None:
    runs = make_runs()
    _, out, _ = typed(*map(str, runs.values()), "--resamples", "200", "--json")
    found = capeval.mcq_temporal(list(map(str, runs.values())), resamples=200)
    assert json.loads(out) == found.model_dump(mode="json")


@pytest.mark.parametrize(
    ("name", "start"),
    [("x.md", "**Accuracy"), ("x.tex", "%"), ("x.json", "{"), ("x.csv", "benchmark,model,")],
)
def test_out_is_written_in_the_format_of_its_suffix(name: str, start: str, typed: Typed) -> None:
    runs = make_runs(multi=0.6, single=0.3)
    code, out, _ = typed(*map(str, runs.values()), "--resamples", "200", "--out", name)
    assert code == 0
    assert out.endswith(f"Written: {name}\n")
    assert Path(name).read_text(encoding="utf-8").startswith(start)


def test_out_does_not_replace_an_input(typed: Typed) -> None:
    runs = make_runs(multi=0.6, single=0.3)
    before = runs["multi"].read_bytes()
    code, _, err = typed(*map(str, runs.values()), "--out", str(runs["multi"]))
    assert code == 2
    assert "--out" in err
    assert runs["multi"].read_bytes() == before


def test_quiet_prints_nothing(typed: Typed) -> None:
    runs = make_runs(multi=0.6, single=0.3)
    assert typed(*map(str, runs.values()), "--resamples", "200", "-q") == (0, "", "")


def test_names_from_files_do_not_reach_the_terminal_raw(typed: Typed) -> None:
    runs = make_runs(multi=0.6, single=0.3, model="evil\x1b[31m[bold]")
    _, out, _ = typed(*map(str, runs.values()), "--resamples", "200")
    assert "\x1b" not in out
    assert "[bold]" in out
