from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capeval.errors import UsageError, VideoError
from capeval.video import Given, Policy, Uniform, open_reader, read_policy
from capeval.video.sampling import Fps, QwenFps, Timeline, TunaFps
from tests.video.clips import make_clip


def steady(total: int, fps: float = 24) -> Timeline:
    return Timeline(tuple(n / fps for n in range(total)), fps, total / fps)


timelines = st.builds(steady, st.integers(1, 2000), st.sampled_from([8, 24000 / 1001, 25, 60]))
uneven = st.lists(st.floats(0, 3, width=32), min_size=0, max_size=200).map(
    lambda gaps: Timeline(
        tuple(float(t) for t in np.cumsum([0.0, *gaps])), 10, float(sum(gaps)) + 0.1
    )
)
policies = st.one_of(
    st.builds(Uniform, st.integers(1, 200)),
    st.builds(Fps, st.none() | st.floats(0.01, 100), st.none() | st.integers(1, 64)),
    st.builds(TunaFps, st.floats(0.05, 100)),
    st.builds(QwenFps, st.floats(0.05, 100)),
)


@given(policies, timelines | uneven)
def test_indices_rise_and_lie_within_the_video(policy: Policy, timeline: Timeline) -> None:
    try:
        indices = policy.choose(timeline).indices
    except ValueError as refused:
        assert isinstance(policy, TunaFps | QwenFps)
        assert str(policy) in str(refused)  # noqa: PT017
        return
    assert list(indices) == sorted(indices)
    assert 0 <= indices[0] <= indices[-1] < timeline.total
    assert isinstance(policy, TunaFps) or len({*indices}) == len(indices)
    if isinstance(policy, QwenFps):
        assert (len(indices) % 2, indices[-1]) == (0, timeline.total - 1)


@given(st.integers(2, 200), timelines)
def test_uniform_takes_n_from_the_first_to_the_last(n: int, timeline: Timeline) -> None:
    choice = Uniform(n).choose(timeline)
    assert len(choice.indices) == min(n, timeline.total)
    assert choice.indices[0] == 0
    assert choice.indices[-1] == timeline.total - 1
    assert bool(choice.warnings) == (timeline.total < n)
    if timeline.total > n:
        expected = np.linspace(0, timeline.total - 1, n, dtype=int)
        assert list(choice.indices) == expected.tolist()


@pytest.mark.parametrize(
    ("policy", "total", "indices"),
    [
        # One frame is the middle one.
        (Uniform(1), 2, (0,)),
        (Uniform(1), 240, (119,)),
        (Given((9, 0, 5)), 10, (9, 0, 5)),
        (Fps(30), 10, tuple(range(10))),
    ],
)
def test_which_frames_are_chosen(policy: Policy, total: int, indices: tuple[int, ...]) -> None:
    assert policy.choose(steady(total)).indices == indices


@pytest.mark.parametrize(
    ("policy", "total", "said"),
    [
        (Given((0, 9)), 9, "has 9 frames; there is no frame 9"),
        (TunaFps(2), 11, "is too short: tuna-2fps takes no frame of 0.458 s"),
        (QwenFps(2), 1, "has 1 frame; qwen-2fps takes at least 2"),
    ],
)
def test_a_clip_that_a_policy_cannot_take_is_refused(policy: Policy, total: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        policy.choose(steady(total))


def test_fps_shows_a_frozen_frame_once() -> None:
    frozen = Timeline((0.0, 0.1, 0.2, 5.0, 5.1), 1, 5.2)
    assert Fps(2).choose(frozen).indices == (0, 2, 3)


@pytest.mark.parametrize(
    ("seconds", "frames"), [(1, 2), (15, 30), (15.9, 32), (16, 16), (16.1, 17), (38, 38)]
)
def test_the_rule_for_closed_models_halves_at_16_seconds(seconds: float, frames: int) -> None:
    assert len(Fps(None).choose(steady(round(seconds * 10), 10)).indices) == frames


def test_a_bound_spreads_evenly_instead_and_says_so() -> None:
    choice = Fps(2, most=8).choose(steady(240))
    assert choice.indices == Uniform(8).choose(steady(240)).indices
    assert choice.warnings == ("20 frames would be more than 8: spread evenly instead",)
    for policy in (Fps(2, most=20), Fps(24)):
        assert policy.choose(steady(240)).warnings == ()
    assert Fps(30).choose(steady(10)).warnings == ("has only 24 of the 30 frames a second",)


# Worked out by hand from the published rules. For total frames at a rate:
# - the benchmark has int(total / rate * 2) frames, the n-th being int(n * rate / 2);
# - Qwen's utilities have total / rate * 2 frames, at least 4, at most total, rounded down to an
#   even number c, the n-th being n * (total - 1) / (c - 1) to the nearest, a half to the even one.
# `2fps` shows each of the benchmark's frames once, and then the frame of the last, incomplete step.
BY_HAND = [
    # 1 s at 25: 2 frames, steps of 12.5. Qwen: 2 is below 4; steps of 24 / 3 = 8.
    (25, 25, (0, 12), (), (0, 8, 16, 24)),
    # 2.4 s at 10: 4.8 -> 4 frames, steps of 5. Qwen: 4; steps of 23 / 3 = 7.67.
    (24, 10, (0, 5, 10, 15), (20,), (0, 8, 15, 23)),
    # 240 frames at 24000 / 1001: 20.02 -> 20 frames, steps of 11.988. Qwen: 20; 239 / 19 = 12.579.
    (
        240,
        24000 / 1001,
        (0, 11, 23, 35, 47, 59, 71, 83, 95, 107, 119, 131, 143, 155, 167, 179, 191, 203, 215, 227),
        (239,),
        (0, 13, 25, 38, 50, 63, 75, 88, 101, 113, 126, 138, 151, 164, 176, 189, 201, 214, 226, 239),
    ),
    # 5 frames at 1: 10 frames, each twice. Qwen: 10 is above 5 -> 4; steps of 4 / 3 = 1.33.
    (5, 1, (0, 0, 1, 1, 2, 2, 3, 3, 4, 4), (), (0, 1, 3, 4)),
]


@pytest.mark.parametrize(("total", "rate", "tuna", "more", "qwen"), BY_HAND)
def test_two_frames_a_second_as_published_code_takes_them(
    total: int, rate: float, tuna: tuple[int, ...], more: tuple[int, ...], qwen: tuple[int, ...]
) -> None:
    clip = steady(total, rate)
    assert TunaFps(2).choose(clip).indices == tuna
    assert QwenFps(2).choose(clip).indices == qwen
    assert Fps(2).choose(clip).indices == (*dict.fromkeys(tuna), *more)


def test_the_benchmarks_rule_for_closed_models() -> None:
    # Below 16 s 2 a second, 31.8 -> 31 frames; from 16 s on 1 a second.
    assert len(TunaFps(None).choose(steady(159, 10)).indices) == 31
    assert TunaFps(None).choose(steady(160, 10)).indices == tuple(range(0, 160, 10))
    assert TunaFps(None).choose(steady(165, 10)).indices == tuple(range(0, 160, 10))


def test_llava_video_in_the_benchmark_repeats_the_frames_of_a_short_clip() -> None:
    choice = Uniform(8, repeats=True).choose(steady(4))
    # Steps of 3 / 7.
    assert choice.indices == (0, 0, 0, 1, 1, 2, 2, 3)
    assert choice.warnings == ("has only 4 of the 8 frames asked for: some are repeated",)
    assert Uniform(32, repeats=True).choose(steady(240)) == Uniform(32).choose(steady(240))


@pytest.mark.parametrize(
    ("typed", "policy"),
    [
        ("32", Uniform(32)),
        (" 2fps ", Fps(2)),
        (".5fps", Fps(0.5)),
        ("2fps@64", Fps(2, 64)),
        ("auto", Fps(None)),
        ("tuna-2fps", TunaFps(2)),
        ("qwen-2fps", QwenFps(2)),
        ("tuna-auto", TunaFps(None)),
        ("tuna-32", Uniform(32, repeats=True)),
        ("0,5,9", Given((0, 5, 9))),
        ("7,", Given((7,))),
    ],
)
def test_every_form_is_read_and_written_again(typed: str, policy: Policy) -> None:
    assert read_policy(typed) == policy
    assert read_policy(str(policy)) == policy


FORMS = "0 -1 fps 1e3fps 5000fps 32@16 auto@0 tuna-1 tuna-200000 tuna-fps qwen-32 0,0 , 1,-2 ٣٢"


@pytest.mark.parametrize("typed", ["", "1\n2", *FORMS.split()])
def test_other_forms_are_refused_in_one_line(typed: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_policy(typed)
    assert "frames:" in str(caught.value)


def test_a_false_time_does_not_make_millions_of_frames() -> None:
    # The last frame of a small hostile file may be shown after years.
    late = Timeline((0.0, 0.1, 0.2, 1e9), 3e-9, 1e9 + 0.1)
    for policy in ("2fps", "auto", "tuna-2fps", "tuna-auto", "1000fps"):
        with pytest.raises(ValueError, match="at most 100000 are taken"):
            read_policy(policy).choose(late)
    assert read_policy("qwen-2fps").choose(late).indices == (0, 1, 2, 3)
    slow = Timeline(tuple(1e8 * at for at in range(5)), 1e-8, 5e8)
    assert read_policy("1000fps").choose(slow).indices == (0, 1, 2, 3, 4)


@pytest.mark.parametrize("policy", ["tuna-99999", "tuna-1000fps"])
def test_repeated_frames_must_fit_into_memory(policy: str, tmp_path: Path) -> None:
    # Of a clip of 5 frames, which alone would fit.
    file = make_clip(tmp_path / "clip.mp4", 5, rate=Fraction(1, 20), size=(256, 192))
    with pytest.raises(VideoError, match=r"frames of 256x192 need \d+ GiB; ask for fewer"):
        open_reader(policy, "pyav").read(file)
