from __future__ import annotations

import pytest

from capeval.captioners.transformers_backend import BatchSize


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


def test_an_automatic_size_never_comes_back_to_one_that_failed() -> None:
    size = BatchSize("auto")
    size.done(1, peak=10, free=10_000)
    size.failed(4)
    assert size.value == 2
    for _ in range(4):
        size.done(size.value, peak=size.value * 10, free=10_000)
    assert size.value == 3


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
