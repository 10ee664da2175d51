"""What users see, compared with golden files.

`CAPEVAL_GOLDEN=1 pytest tests/scoring` writes them anew; look at the difference.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

from rich.console import Console

from capeval.schema import Scored, Unscored, Verdict
from capeval.scoring import Scores
from capeval.scoring.scores import (
    RunScores,
    coverage,
    scores_headline,
)
from tests.scoring.making import annotation, relations, scored, scores

GOLDEN = Path(__file__).parent / "golden"
VIDEOS = [
    annotation("a", "c3 s2 a3", "t1 a1 c2", visual_characteristic="Low-Dynamic", domain="Film"),
    annotation("b", "c1 a3 t2", visual_characteristic="High-Dynamic,Multi-Scene", domain="Film"),
    annotation("c", "s3 a3", "a2", visual_characteristic="High-Dynamic,Multi-Subject"),
]
# Ten, because fewer than eight have no interval: the first two again, then all five again.
PLACES = (0, 1, 2, 0, 1, 0, 1, 2, 0, 1)
VIDEOS = [
    VIDEOS[place].model_copy(update={"index": index})
    for place, index in zip(PLACES, "abcdefghij", strict=True)
]


def judged(first: str, second: str, third: str) -> list[Scored | Unscored]:
    shapes: list[dict[str, Any]] = [
        {"labels": first, "candidate_events": ("x", "y"), "matches": (1, None)},
        {"labels": second, "candidate_events": ("x",), "matches": (1,)},
        {"labels": third, "candidate_events": ("x", "y"), "matches": (1, 2)},
    ]
    return [
        scored(video.index, **shapes[place]) for video, place in zip(VIDEOS, PLACES, strict=True)
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


def shown(results: dict[str, Scores], width: int, *, full: bool = False) -> str:
    out = io.StringIO()
    RunScores(results).show(Console(file=out, width=width, color_system=None), full=full)
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


def test_tables_are_the_golden_ones() -> None:
    golden = GOLDEN / "scores.txt"
    text = shown(results(), 80)
    if os.environ.get("CAPEVAL_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_full_adds_domains_and_numbers_of_events_and_elements() -> None:
    assert "By domain" not in shown(results(), 80)
    text = shown(results(), 80, full=True)
    assert all(
        f"By {what}" in text for what in ("domain", "number of events", "number of elements")
    )


def test_headline_is_a_sentence_about_the_best_run() -> None:
    one = scores(VIDEOS, judged("+0- 0++", "0+-", "00 +"), settings={"baseline": True})
    one = one.model_copy(update={"signature": "capeval:tuna-cap|judge:words"})
    assert scores_headline({"mine": one}) == (
        "mine: F1 52.7 [40.3, 56.3] over all 10 videos, judged by the baseline words."
    )
    none = scores(VIDEOS, [])
    assert scores_headline({"a": none, "b": none}) == ("a: none of 0 captions was scored.")


def test_markup_in_names_stays_text_and_control_characters_are_shown() -> None:
    text = shown({"\x1b[31m\n[bold]x[/bold]": results()["perfect"]}, 170)
    assert "\x1b" not in text
    assert r"\x1b[31m [bold]x[/bold]: captioned 10/10" in text


def test_coverage_has_unmatched_events_and_the_spread_of_repeats() -> None:
    first, second = (
        Verdict(candidate_events=(), matches=(), relations=relations(labels))
        for labels in ("++ +", "++ 0")
    )
    repeated = scored(
        "c", "++ +", candidate_events=("x", "y"), matches=(1, None), repeats=(first, second)
    )
    assert coverage(scores(VIDEOS, [repeated])) == (
        "captioned 1/10, scored 1/1, unmatched events 50.0%, "
        "2 repeats: F1 sd 10.10, 66.7% of elements unanimous"
    )
