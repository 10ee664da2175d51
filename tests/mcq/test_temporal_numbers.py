"""The temporal diagnostics as numbers: against the TOMATO paper, by hand, and in simulations."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capeval.mcq.temporal import MeasureResult, Role, diagnose, relative_change
from capeval.stats.values import Floats

PAPER = tomllib.loads(
    Path(__file__).with_name("temporal_published.toml").read_text(encoding="utf-8")
)
MODELS = ("GPT-4o", "Qwen2-VL")
HALF = 0.05 + 1e-9


def cells() -> Iterator[Any]:
    for table in PAPER["tables"]:
        for model in MODELS:
            for benchmark, cell in zip(PAPER["benchmarks"], table[model], strict=True):
                yield pytest.param(*cell, id=f"{table['number']}-{model}-{benchmark}")


def test_there_are_forty_cells() -> None:
    assert len(list(cells())) == 40


@pytest.mark.parametrize(("lower", "upper", "printed"), [*cells()])
def test_paper_is_reproduced_as_far_as_its_accuracies_are_printed(
    lower: float, upper: float, printed: float
) -> None:
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


def test_question_unscored_in_either_run_is_left_out_of_both() -> None:
    found = one({"multi": [1, 1, None, 0, 1], "single": [1, None, 1, 1, 0]})
    gain: MeasureResult = found["multi_frame_gain"]
    assert (gain.upper, gain.lower, gain.questions, gain.value) == (2, 2, 3, 0.0)


def test_four_videos_have_no_interval() -> None:
    found = one({"multi": [1, 1, 0, 1, 1, 0, 1, 1], "single": [1, 0, 0, 1] * 2}, [0, 1, 2, 3] * 2)
    assert found["multi_frame_gain"].interval_reason == "fewer than 5 videos"


@pytest.mark.parametrize(("questions", "has_interval"), [(19, False), (20, True)])
def test_a_change_of_few_questions_has_no_interval(questions: int, has_interval: bool) -> None:
    multi, single = (([1, right, 0] * 7)[:questions] for right in (1, 0))
    found = one({"multi": [*multi], "single": [*single]})
    gain = found["multi_frame_gain"]
    assert (gain.value, gain.low is not None) == (sum(multi) / sum(single) - 1, has_interval)
    assert found["needs_frames"].low is not None
    if not has_interval:
        assert gain.interval_reason == "no interval from fewer than 20 questions"


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


def test_buckets_have_their_own_questions_and_videos() -> None:
    correct: dict[Role, Floats] = {
        "multi": np.array([1.0, 1, 0, 1]),
        "single": np.array([1.0, 0, 1, 1]),
    }
    masks = [np.array([True, True, False, False]), np.array([False, False, True, True])]
    first, second = diagnose(correct, np.array([0, 0, 0, 1]), masks)
    assert (first["multi_frame_gain"].value, first["multi_frame_gain"].videos) == (1.0, 1)
    assert (second["multi_frame_gain"].value, second["multi_frame_gain"].videos) == (-0.5, 2)


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
