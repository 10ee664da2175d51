"""Frames as message parts, encoded once for the requests that share them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from capeval.captioners.images import ImageForm, SharedEncoder, encode

FORM = ImageForm("png")


def frames(value: int) -> Any:
    return np.full((2, 4, 6, 3), value, np.uint8)


def test_the_same_array_is_encoded_once_and_an_equal_one_by_itself() -> None:
    encoder, shown = SharedEncoder(FORM), frames(1)
    first = encoder.encode(shown)
    assert encoder.encode(shown) is first
    assert encoder.encode(shown.copy()) == first
    assert encoder.encode(frames(2)) == encode(frames(2), FORM) != first


def test_an_array_at_the_place_of_one_that_is_gone_is_another() -> None:
    encoder = SharedEncoder(FORM)
    places = set()
    for value in range(50):
        shown = frames(value)
        places.add(id(shown))
        assert encoder.encode(shown) == encode(shown, FORM)
        del shown
    assert len(places) < 50


def test_threads_share_one_result() -> None:
    encoder = SharedEncoder(FORM)
    arrays = [frames(n) for n in range(4)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(encoder.encode, [arrays[n // 8] for n in range(32)]))
    assert len({*map(id, found)}) == 4
    assert [found[8 * n] for n in range(4)] == [encode(one, FORM) for one in arrays]


def test_a_failure_is_not_kept_for_another_array() -> None:
    encoder, bad = SharedEncoder(FORM), np.zeros((1, 4, 6, 7), np.uint8)
    for _ in range(2):
        with pytest.raises(TypeError):
            encoder.encode(bad)
    assert encoder.encode(frames(1)) == encode(frames(1), FORM)
