"""How many videos a bridge needs: the smallest number that is enough, found quickly."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from capeval.stats.bridge_line import FEWEST_VIDEOS, Line
from capeval.stats.bridge_planning import videos_for_anchor, videos_for_line

LINE = Line(
    intercept=0.0,
    slope=1.0,
    s_res=0.02,
    ms_res=0.01,
    ms_video=0.05,
    systems=6,
    videos=100,
    center=0.5,
    sxx=0.05,
    low=0.4,
    high=0.6,
)


@given(
    sd=st.floats(0.001, 1),
    half_width=st.floats(0.001, 0.5),
    videos=st.integers(10, 2000),
)
def test_the_smallest_number_that_is_enough(sd: float, half_width: float, videos: int) -> None:
    def half(n: int) -> float:
        return float(stats.t.ppf(0.975, n - 2)) * sd * math.sqrt(1 / n - 1 / videos)

    n = videos_for_anchor(sd, half_width, videos)
    assert 10 <= n <= videos
    assert half(n) <= half_width * (1 + 1e-9)
    assert n == 10 or half(n - 1) > half_width * (1 - 1e-9)


@given(half_width=st.floats(0.005, 0.2), videos=st.integers(30, 2000))
def test_so_for_a_line(half_width: float, videos: int) -> None:
    def half(n: int) -> float:
        s_res = math.sqrt(max(0.0, LINE.s_res**2 - LINE.ms_res / LINE.videos))
        return replace(LINE, s_res=s_res, videos=n).half_width(LINE.center, videos)

    n = videos_for_line(LINE, half_width, videos)
    if n is None:
        assert half(videos) > half_width
    else:
        assert half(n) <= half_width
        assert n == FEWEST_VIDEOS or half(n - 1) > half_width


@pytest.mark.parametrize("videos", [10**8, 10**15])
def test_a_run_of_any_size_takes_no_memory(videos: int) -> None:
    # As for a run without end: 2.02 * 12 / sqrt(140) and less.
    assert videos_for_anchor(0.12, 0.02, videos) == videos_for_anchor(0.12, 0.02, 10**7)
    assert videos_for_line(LINE, 0.0001, videos) is None
