from __future__ import annotations

from typing import Any

import pytest

from capeval.captioners.transformers_backend import BatchSize


def test_a_fixed_size_stays_until_memory_runs_out() -> None:
    size = BatchSize(6)
    size.done(6)
    assert size.value == 6
    size.failed(6)
    size.done(3)
    assert size.value == 3
    size.failed(1)
    assert size.value == 1


@pytest.mark.parametrize(("grows", "seen"), [(True, [2, 4, 8, 16, 32, 64, 64]), (False, [1] * 7)])
def test_an_automatic_size_doubles_where_running_out_of_memory_is_an_error(
    grows: bool, seen: list[int]
) -> None:
    size = BatchSize("auto", grows=grows)
    found = []
    for _ in seen:
        size.done(size.value)
        found.append(size.value)
    assert found == seen


def test_a_batch_that_was_not_full_says_nothing_of_a_larger_one() -> None:
    size = BatchSize("auto")
    size.done(1)
    size.done(1)
    assert size.value == 2


@pytest.mark.parametrize("wanted", [8, "auto"])
def test_the_limit_recovers_after_many_successes(wanted: Any) -> None:
    size = BatchSize(wanted)
    size.failed(8)
    for _ in range(15):
        size.done(4)
        assert size.value == 4
    size.done(4)
    assert size.value == 8
