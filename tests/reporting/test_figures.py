"""The forest plot of a comparison: its rows are the comparison's own numbers."""

from __future__ import annotations

from capeval.reporting.figures import forest_of
from tests.comparing.test_comparison_tables import example


def test_rows_are_overall_types_and_buckets_second_less_first() -> None:
    found = example()
    forest = forest_of(found)
    labels = [row.label for row in forest.rows]
    buckets = [
        (f"{name}{unit}", bucket)
        for way, unit in (
            ("visual_characteristic", ""),
            ("domain", ""),
            ("events", " events"),
            ("elements", " elements"),
        )
        for name, bucket in getattr(found.by, way).items()
    ]
    assert labels == [
        "Overall", "Camera", "Scene", "Action", "Attribute", *(name for name, _ in buckets)
    ]  # fmt: skip
    overall = found.overall.all.f1
    first = forest.rows[0]
    assert (first.of, first.p) == (overall, overall.p)
    for row, (_, bucket) in zip(forest.rows[5:], buckets, strict=True):
        assert (row.of, row.p, row.n) == (bucket.all.f1, bucket.p_adjusted, bucket.all.n)
    assert [row.adjusted for row in forest.rows] == [False] * 5 + [True] * len(buckets)
    assert forest.axis.startswith(f"F1 of {found.second.name} − F1 of {found.first.name}")
