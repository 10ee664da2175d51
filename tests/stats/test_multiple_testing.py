"""Holm's correction and clusters of ranks."""

from __future__ import annotations

import pytest

from capeval.stats.sign_flips import holm, rank_clusters
from capeval.stats.values import Missing, Value


def test_holm_is_that_of_r() -> None:
    # p.adjust(c(.01, .04, .03, .005, .6), "holm")
    found = holm([0.01, 0.04, 0.03, 0.005, 0.6])
    assert found == pytest.approx([0.04, 0.09, 0.09, 0.025, 0.6])
    assert holm([0.7, 0.8]) == [1.0, 1.0]


def test_holm_does_not_count_missing_tests() -> None:
    gap = Missing("constant")
    assert holm([0.01, gap, 0.04]) == [0.02, gap, 0.04]


def test_clusters_open_below_every_member_above() -> None:
    far, near = 0.001, 0.5
    p: list[list[Value]] = [
        [1, near, far, far],
        [near, 1, near, far],
        [far, near, 1, far],
        [far, far, far, 1],
    ]
    assert rank_clusters([0.9, 0.8, 0.7, 0.6], p) == [1, 1, 1, 2]
    # At the level itself a metric is worse.
    p[2][1] = 0.05
    assert rank_clusters([0.9, 0.8, 0.7, 0.6], p) == [1, 1, 2, 3]
    p[2][0] = Missing("not tested")
    assert rank_clusters([0.9, 0.8, 0.7, 0.6], p) == [1, 1, 1, 2]
    assert rank_clusters([0.9, Missing("constant"), 0.7, 0.6], p) == [1, None, 1, 2]
