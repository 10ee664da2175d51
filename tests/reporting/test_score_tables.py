"""What people see, held against golden files.

`CAPEVAL_GOLDEN=1 pytest tests/reporting` writes them anew; look at the difference.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from capeval.reporting.score_tables import BASELINE_NOTE, headline, print_scores
from capeval.schema import Scored, Unscored, Verdict
from capeval.scoring import Scores
from tests.scoring.making import annotation, relations, scored, scores

GOLDEN = Path(__file__).parent / "golden"
VIDEOS = [
    annotation("a", "c3 s2 a3", "t1 a1 c2", visual_characteristic="Low-Dynamic", domain="Film"),
    annotation("b", "c1 a3 t2", visual_characteristic="High-Dynamic,Multi-Scene", domain="Film"),
    annotation("c", "s3 a3", "a2", visual_characteristic="High-Dynamic,Multi-Subject"),
]
# Five, the fewest that have an interval.
VIDEOS += [video.model_copy(update={"index": i}) for i, video in zip("de", VIDEOS, strict=False)]


def judged(first: str, second: str, third: str) -> list[Scored | Unscored]:
    return [
        scored("a", first, candidate_events=("x", "y"), matches=(1, None)),
        scored("b", second, candidate_events=("x",), matches=(1,)),
        scored("c", third, candidate_events=("x", "y"), matches=(1, 2)),
        scored("d", first, candidate_events=("x", "y"), matches=(1, None)),
        scored("e", second, candidate_events=("x",), matches=(1,)),
    ]


def results() -> dict[str, Scores]:
    perfect = scores(VIDEOS, judged("+++ +++", "+++", "++ +"))
    mixed = scores(VIDEOS, judged("+0- 0++", "0+-", "00 +"))
    failed = scores(
        VIDEOS,
        [scored("a", "000 000"), Unscored(index="b", reason="the judge refused")],
        settings={"baseline": True},
    )
    return {
        "perfect": perfect,
        "[red]x[/red] [link=http://evil]": mixed,
        "a-name-that-is-much-longer-than-its-column-can-hold-2024-08-06": failed,
        "nothing": scores(VIDEOS, []),
    }


def shown(results: dict[str, Scores], width: int) -> str:
    out = io.StringIO()
    print_scores(results, Console(file=out, width=width, color_system=None))
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


@pytest.mark.parametrize("width", [80, 170, 240])
def test_tables_are_the_golden_ones(width: int) -> None:
    golden = GOLDEN / f"tables-{width}.txt"
    text = shown(results(), width)
    if os.environ.get("CAPEVAL_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [80, 120, 170, 220, 300])
def test_table_lines_fit_the_terminal(width: int) -> None:
    tables = shown(results(), width).split("perfect: ")[0]
    assert max(map(len, tables.splitlines())) <= width


@pytest.mark.parametrize("width", range(10, 260, 10))
def test_no_number_and_no_name_is_ever_cut(width: int) -> None:
    text = shown({"perfect": results()["perfect"]}, width)
    assert text.count("100.0/100.0/100.0") == 4 + 4 + 1
    assert "100.0 [100.0, 100.0]" in text
    assert "…" not in text
    tables, told = text.split("perfect: ")
    assert told.startswith("captioned 5/5")
    # By its name, or by a number that the line below explains.
    assert "perfect" in tables or tables.count("[1]") == 4


def test_columns_stand_side_by_side_where_they_fit() -> None:
    assert "By visual characteristic" in shown(results(), 170)
    assert "By visual characteristic" not in shown(results(), 240)


def test_markup_in_names_stays_text_and_control_characters_are_shown() -> None:
    text = shown({"\x1b[31m\n[bold]x[/bold]": results()["perfect"]}, 170)
    assert "\x1b" not in text
    assert r"\x1b[31m [bold]x[/bold]: captioned 5/5" in text


def test_no_color_reaches_a_file() -> None:
    out = io.StringIO()
    print_scores(results(), Console(file=out, width=80))
    assert "\x1b" not in out.getvalue()


def test_baseline_says_so_and_others_do_not() -> None:
    table = {"x": results()["perfect"]}
    assert BASELINE_NOTE.split(".")[0] not in shown(table, 200)
    baseline = {"x": scores(VIDEOS, [], settings={"baseline": True})}
    assert BASELINE_NOTE.split(".")[0] in shown(baseline, 200)


def test_headline_counts_what_was_not_scored() -> None:
    judgments: list[Scored | Unscored] = [scored("a", "+++ +++"), Unscored(index="b", reason="no")]
    assert headline(scores(VIDEOS, judgments)) == (
        "captioned 2/5, scored 1/2, unmatched events 0.0%"
    )


def test_headline_tells_unmatched_events_and_the_spread_of_repeats() -> None:
    first, second = (
        Verdict(candidate_events=(), matches=(), relations=relations(labels))
        for labels in ("++ +", "++ 0")
    )
    repeated = scored(
        "c", "++ +", candidate_events=("x", "y"), matches=(1, None), repeats=(first, second)
    )
    assert headline(scores(VIDEOS, [repeated])) == (
        "captioned 1/5, scored 1/1, unmatched events 50.0%, "
        "2 repeats: F1 sd 10.10, 66.7% of elements unanimous"
    )


def test_no_results_print_nothing() -> None:
    assert shown({}, 80) == ""
