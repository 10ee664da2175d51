from __future__ import annotations

from typing import Any

import pytest

from capeval.captioners.batch_size import BatchSize


def test_a_fixed_size_stays_until_memory_runs_out() -> None:
    size = BatchSize(6)
    size.done(6, peak=1, free=10**9)
    assert size.value == 6
    size.failed(6)
    assert size.value == 3
    size.done(3, peak=1, free=10**9)
    assert size.value == 3


def test_an_automatic_size_grows_into_free_memory_by_steps() -> None:
    size = BatchSize("auto")
    seen = [size.value]
    for _ in range(5):
        size.done(size.value, peak=size.value * 10, free=10_000)
        seen.append(size.value)
    assert seen == [1, 4, 16, 64, 64, 64]


def test_it_shrinks_when_other_programs_take_the_memory() -> None:
    size = BatchSize("auto")
    size.done(1, peak=10, free=100)
    size.done(4, peak=40, free=20)
    assert size.value == 1


@pytest.mark.parametrize("peak", [None, 0])
def test_without_a_measure_it_stays_at_one(peak: int | None) -> None:
    size = BatchSize("auto")
    size.done(1, peak=peak, free=None)
    assert size.value == 1


def test_a_single_video_that_fails_leaves_one() -> None:
    size = BatchSize(1)
    size.failed(1)
    assert size.value == 1


@pytest.mark.parametrize("wanted", [8, "auto"])
def test_the_limit_recovers_after_many_successes(wanted: Any) -> None:
    size = BatchSize(wanted)
    size.failed(8)
    for _ in range(15):
        size.done(size.value, peak=size.value, free=1000)
        assert size.value == 4
    size.done(4, peak=4, free=1000)
    assert size.value == 8


def test_longer_videos_count_for_more_of_them() -> None:
    size = BatchSize("auto")
    size.done(4, peak=40, free=100, frames=30)
    assert (size.value, size.of(30), size.of(60), size.of(120), size.of(900)) == (8, 8, 4, 2, 1)
    assert size.of(3) == 64
    assert BatchSize(5).of(900) == 5
