"""The screen of `capeval judge` and `capeval score`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from capeval.schema import Provenance, Scored, Unscored
from capeval.scoring import Scores
from capeval.scoring.scores import RunScores
from tests.golden import check_golden, screen
from tests.judged_runs import VIDEOS
from tests.scoring.making import scored, scores

GOLDEN = Path(__file__).parent / "golden" / "scores.txt"
BASELINE = Provenance(judge="words", baseline=True)


def judged(*labels: str, **more: Any) -> list[Scored | Unscored]:
    """Verdicts on the ten videos, which repeat three."""
    events: list[dict[str, Any]] = [
        {"candidate_events": ("x", "y"), "matches": (1, None)},
        {"candidate_events": ("x",), "matches": (1,)},
        {"candidate_events": ("x", "y"), "matches": (1, 2)},
    ]
    places = (0, 1, 2, 0, 1, 0, 1, 2, 0, 1)
    return [
        scored(video.index, labels[place], **events[place], **more)
        for video, place in zip(VIDEOS, places, strict=True)
    ]


def results() -> dict[str, Scores]:
    refused = Unscored(index="b", reason="the judge refused", provenance=BASELINE)
    return {
        "perfect": scores(VIDEOS, judged("+++ +++", "+++", "++ +")),
        "[red]x[/red] [link=http://evil]": scores(VIDEOS, judged("+0- 0++", "0+-", "00 +")),
        "a-name-that-is-much-longer-than-its-column-can-hold-2024-08-06": scores(
            VIDEOS, [scored("a", "000 000", provenance=BASELINE), refused]
        ),
        "nothing": scores(VIDEOS, []),
    }


def test_the_screen_is_the_golden_one_and_full_adds_tables() -> None:
    text = screen(RunScores(results()), full=False)
    check_golden(GOLDEN, text)
    full = screen(RunScores(results()))
    for what in ("domain", "number of events", "number of elements"):
        assert f"By {what}" not in text
        assert f"By {what}" in full
