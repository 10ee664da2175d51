"""The tables of `capeval compare --trend`: runs in an order, each compared with the last."""

from __future__ import annotations

from capeval.reporting.numbers import confidence, p_equation, points
from capeval.reporting.table import INTERVAL, P_VALUE, POINTS_INTERVAL, Table, columns
from capeval.schema import ELEMENT_TYPES
from capeval.scoring import GROUPS
from capeval.scoring.comparison_result import PairDifference, Trend
from capeval.text import counted, one_line


def trend_sentence(found: Trend) -> str:
    """Return from which run the last one differs, as the beginning of a sentence."""
    *earlier, last = found.runs
    gap = _first_gap(found, "all")
    if gap is None:
        before = f"any of the {len(earlier)} runs" if earlier[1:] else "the run"
        return f"{one_line(last.name)} does not differ significantly in F1 from {before} before it"
    size, way = points(abs(gap.value)).removeprefix("+"), "better" if gap.value > 0 else "worse"
    return (
        f"{one_line(last.name)} is {size} points of F1 {way} than {one_line(gap.first)} "
        f"({confidence(gap, negative=gap.value < 0)}, {p_equation(gap.p_adjusted)}, Holm), the "
        "first run from which it differs,"
    )


def trend_tables(found: Trend) -> list[Table]:
    """Return F1 run by run, overall and by type, and from which run the last one differs."""
    videos = counted(found.paired, "video")
    overall = Table(
        f"F1 of all elements in %, and the last run − this run in points; {videos}",
        columns(
            *("Run", ("F1 [95%]", INTERVAL), ("last − run [95%]", POINTS_INTERVAL)),
            ("p (Holm)", P_VALUE),
        ),
    )
    by_type = Table(
        "F1 by type of element, %",
        columns("Run", *((f"{name} [95%]", INTERVAL) for name in ELEMENT_TYPES)),
    )
    gaps = {group: _first_gap(found, group) for group in GROUPS}
    for run in found.runs:
        gap, name = run.f1.all.gap, one_line(run.name)
        overall.rows.append([name, run.f1.all, gap, gap and gap.p_adjusted])
        by_type.rows.append([name, *(getattr(run.f1, kind) for kind in ELEMENT_TYPES)])
    firsts = [f"{group} {one_line(gap.first)}" for group, gap in gaps.items() if gap]
    by_type.note = f"The last run first differs from: {', '.join(firsts) or 'none'}"
    return [overall, by_type]


def _first_gap(found: Trend, group: str) -> PairDifference | None:
    name = getattr(found.differs_from, group)
    return next((getattr(run.f1, group).gap for run in found.runs if run.name == name), None)
