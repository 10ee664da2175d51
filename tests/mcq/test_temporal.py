import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import capeval
from capeval.errors import InputError, UsageError
from capeval.mcq.grades import shown_by
from capeval.mcq.temporal import Role, diagnose, relative_change
from tests.golden import screen
from tests.mcq.graded_runs import FRAMES, edit, grade, paired
from tests.world import here as typed

PAPER = tomllib.loads(
    Path(__file__).with_name("temporal_published.toml").read_text(encoding="utf-8")
)
MODELS = ("GPT-4o", "Qwen2-VL")
HALF = 0.05 + 1e-9


def test_paper_is_reproduced_as_far_as_its_accuracies_are_printed() -> None:
    cells = [cell for table in PAPER["tables"] for model in MODELS for cell in table[model]]
    assert len(cells) == 40
    for lower, upper, printed in cells:
        least = relative_change(upper - HALF, lower + HALF)
        most = relative_change(upper + HALF, lower - HALF)
        assert 100 * least - HALF <= printed <= 100 * most + HALF


def one(correct: dict[Role, list[float | None]], video: list[int] | None = None) -> Any:
    arrays = {role: np.array(values, dtype=np.float64) for role, values in correct.items()}
    size = len(next(iter(arrays.values())))
    ids = np.array(range(size) if video is None else video, dtype=np.int64)
    (found,) = diagnose(arrays, ids, [np.ones(size, dtype=np.bool_)], resamples=500)
    return found


def test_measures_by_hand() -> None:
    found = one(
        {
            "multi": [1, 1, 1, 1, 0, 0],
            "single": [1, 0, 0, 0, 0, 1],
            "picked": [1, 1, 0, 0, 0, 1],
            "shuffled": [1, 1, 1, 0, 0, 0],
        }
    )
    assert {name: of.value for name, of in found.items()} == pytest.approx(
        {
            "multi_frame_gain": 1.0,
            "multi_frame_gain_picked": 1 / 3,
            "frame_order_sensitivity": 1 / 3,
            "frame_information_disparity": 0.5,
            "needs_frames": 0.5,
            "needs_frames_picked": 2 / 6,
        }
    )


@pytest.mark.parametrize(("questions", "has_interval"), [(19, False), (20, True)])
def test_a_change_of_few_questions_or_videos_has_no_interval(
    questions: int, has_interval: bool
) -> None:
    multi, single = (([1, right, 0] * 7)[:questions] for right in (1, 0))
    found = one({"multi": [*multi], "single": [*single]})
    gain = found["multi_frame_gain"]
    assert (gain.value, gain.low is not None) == (sum(multi) / sum(single) - 1, has_interval)
    assert found["needs_frames"].low is not None
    if not has_interval:
        assert gain.interval_reason == "no interval from fewer than 20 questions"
    few = one({"multi": [1, 1, 0, 1] * 6, "single": [1, 0, 0, 1] * 6}, [0, 1, 2, 3] * 6)
    assert few["multi_frame_gain"].interval_reason == "fewer than 5 videos"


def test_videos_are_resampled_and_not_questions() -> None:
    """Ten copies of each question say no more than one: the interval is as wide."""
    rng = np.random.default_rng(1)
    single: list[float | None] = [float(x < 0.4) for x in rng.random(60)]
    multi: list[float | None] = [float(x < 0.6) for x in rng.random(60)]
    once = one({"multi": multi, "single": single})["multi_frame_gain"]
    tenfold = one({"multi": multi * 10, "single": single * 10}, [*range(60)] * 10)
    again = tenfold["multi_frame_gain"]
    assert (again.low, again.high) == (once.low, once.high)


def test_pairing_narrows_the_interval() -> None:
    rng = np.random.default_rng(2)
    hard = rng.random(200)
    multi: list[float | None] = [float(h < 0.6) for h in hard]
    paired = one({"multi": [*multi], "single": [float(h < 0.5) for h in hard]})
    shuffled = [float(h < 0.5) for h in rng.permutation(hard)]
    unpaired = one({"multi": [*multi], "single": [*shuffled]})
    of_pairs, of_others = (f["multi_frame_gain"] for f in (paired, unpaired))
    assert 2 * (of_pairs.high - of_pairs.low) < of_others.high - of_others.low


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 1.0, None]), st.sampled_from([0.0, 1.0, None])), max_size=40
    )
)
def test_values_stay_within_their_scales(pairs: list[tuple[float | None, float | None]]) -> None:
    found = one({"multi": [a for a, _ in pairs], "single": [b for _, b in pairs]})
    for name, lowest, highest in (("multi_frame_gain", -1.0, np.inf), ("needs_frames", 0.0, 1.0)):
        of = found[name]
        if of.value is None:
            assert of.reason == of.interval_reason
            continue
        assert lowest <= of.value <= highest
        if of.low is not None:
            assert lowest <= of.low <= of.value <= of.high <= highest


def test_share_of_none_or_all_has_the_interval_of_what_could_be_missed() -> None:
    none = one({"multi": [1] * 20, "single": [1] * 20})["needs_frames"]
    every = one({"multi": [1] * 20, "single": [0] * 20})["needs_frames"]
    missed = 1 - 0.025 ** (1 / 20)
    assert (none.low, none.high) == (0.0, pytest.approx(missed))
    assert (every.low, every.high) == (pytest.approx(1 - missed), 1.0)


FEW = 200


def make_runs() -> dict[str, Any]:
    shares = {"multi": 0.6, "single": 0.3, "picked": 0.35, "shuffled": 0.5}
    return {
        role: grade(Path(f"runs/m-{role}"), correct, FRAMES[role])
        for role, correct in zip(shares, paired(1, *shares.values()), strict=True)
    }


SETTINGS: list[tuple[dict[str, Any], str | None, str]] = [
    ({"policy": "2fps", "indices": [0, 1]}, "multi", "2fps"),
    ({"policy": "single first", "single": "first"}, "single", "first frame"),
    ({"policy": "1", "indices": [12]}, "single", "middle frame"),
    ({"policy": "none"}, "blind", "no frame"),
    ({}, None, ""),
]


@pytest.mark.parametrize(("frames", "role", "label"), SETTINGS)
def test_what_a_run_showed_is_read_from_its_frames(
    frames: dict[str, Any], role: str | None, label: str
) -> None:
    assert shown_by(frames) == (None if role is None else (role, label))


def test_measures_of_the_named_runs_are_computed() -> None:
    runs = make_runs()
    found = capeval.mcq_temporal(**runs, resamples=FEW)
    assert {role: run.name for role, run in found.runs.items()} == {r: f"m-{r}" for r in runs}
    assert found.runs["single"].label == "random frame"
    right = {
        role: json.loads(file.read_text("utf-8"))["overall"]["correct"]
        for role, file in runs.items()
    }
    gain = found.overall["multi_frame_gain"]
    assert gain.value == pytest.approx(right["multi"] / right["single"] - 1)
    assert (gain.upper, gain.lower) == (right["multi"], right["single"])
    assert gain.low is not None
    assert gain.high is not None
    assert gain.value is not None
    assert gain.low < gain.value < gain.high
    assert found.tag == "reasoning_type"
    assert list(found.by) == ["rotation", "direction", "count"]
    of_groups = [of["multi_frame_gain"].questions for of in found.by.values()]
    assert sum(of_groups) == gain.questions == 60
    by_name: dict[str, Any] = {role: f"m-{role}" for role in runs}
    assert capeval.mcq_temporal(**by_name, resamples=FEW) == found
    # The groups of the main measures are always on the screen, all others' with --full.
    assert screen(found, full=False).count(" by reasoning_type") == 2
    assert screen(found).count(" by reasoning_type") == 6


def test_failed_calls_are_left_out_of_both_runs() -> None:
    many, one = paired(1, 0.6, 0.3)
    many[0] = one[1] = None
    grade(Path("runs/many"), many, FRAMES["multi"])
    grade(Path("runs/one"), one[:50], FRAMES["single"])
    found = capeval.mcq_temporal(multi="many", single="one", resamples=FEW)
    gain = found.overall["multi_frame_gain"]
    assert (gain.questions, gain.videos) == (48, 17)
    assert found.runs["multi"].questions == 59
    assert found.unpaired == 10
    assert "no score for, 11 at most" in " ".join(screen(found).split())


def test_nothing_right_below_the_line_has_no_value_but_a_reason() -> None:
    grade(Path("runs/many"), [True] * 30, FRAMES["multi"])
    grade(Path("runs/one"), [False] * 30, FRAMES["single"])
    code, out, _ = typed("mcq", "temporal", "--multi", "many", "--single", "one")
    assert code == 0
    assert "multi-frame gain has no value (no question is answered correctly" in out
    assert "–: no question is answered correctly with one frame" in out
    # The share of questions still has one.
    assert "100.0" in out


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"multi": "m-multi"}, "nothing can be compared"),
    ({"multi": "m-multi", "single": "nope"}, "is neither a graded run nor"),
    ({"multi": "m-multi", "single": "empty"}, "has no grades.json"),
    ({"multi": "m-multi", "single": "m-single", "by": "task"}, "no question has this"),
    ({"multi": "m-multi", "single": "changed"}, "has a different video or answer"),
    ({"multi": "m-multi", "single": "other"}, "several benchmarks: tomato, tuna"),
    ({"multi": "a", "single": "b"}, "several models: A, B"),
    ({"multi": "m-multi", "single": "blind"}, "--single: blind saw no frame, not one frame"),
    ({"multi": "m-single", "single": "m-multi"}, "--multi: m-single saw random frame"),
    ({"multi": "m-multi", "single": "no-grades"}, "no-grades/grades.json: .*settings"),
]


def test_mistakes_are_explained() -> None:
    many, one = paired(1, 0.6, 0.3)
    make_runs()
    Path("runs/empty").mkdir()
    grade(Path("runs/a"), many, FRAMES["multi"], model="A")
    grade(Path("runs/b"), one, FRAMES["single"], model="B")
    grade(Path("runs/blind"), one, {"policy": "none"})
    changed = grade(Path("runs/changed"), one, FRAMES["single"])
    items = json.loads(changed.read_text("utf-8"))["items"]
    edit(changed, items=[{**items[0], "video": "another"}, *items[1:]])
    grade(Path("runs/other"), one, FRAMES["single"], benchmark="tuna")
    Path("runs/no-grades").mkdir()
    Path("runs/no-grades/grades.json").write_text('{"signature": "x"}', encoding="utf-8")
    for arguments, message in FAULTS:
        with pytest.raises((InputError, UsageError), match=message):
            capeval.mcq_temporal(**arguments)


def test_runs_that_differ_in_more_than_their_frames_are_noted() -> None:
    many, other = paired(1, 0.6, 0.4)
    grade(Path("runs/many"), many, FRAMES["multi"])
    file = grade(Path("runs/shuffled"), other, FRAMES["shuffled"], select="exact+random")
    items = json.loads(file.read_text("utf-8"))["items"]
    items[0]["frames"]["indices"] = [3, 1, 2, 0]
    edit(file, items=items)
    notes = capeval.mcq_temporal(multi="many", shuffled="shuffled", resamples=FEW).notes
    assert any("1 question had other frames in the shuffled run" in note for note in notes)
    assert any("read by different strategies" in note for note in notes)
