"""TUNA_0348, the annotation that the paper prints, judged end to end.

The captions were written for these tests, after the published annotation.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import capeval

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "tuna_example_metadata.json"

CAPTIONS = {
    "faithful": (
        "The shot opens on a carved wooden ornament. Behind the wooden decoration there is a man, "
        "and he looks outside through the wooden decoration. Then the camera cuts to an outdoor "
        "scene; the edges of the frame are blurred and the center is clear. A white news van with "
        "the logo KXBD 6 News at 6 is visible by the roadside, and a camera is set up beside the "
        "van. A military green vehicle passes in front of the lens. In the background there are "
        "greenery and a pedestrian walkway. The camera moves to the right, to a person who stands "
        "outside the front passenger door of the news van and makes a phone call. Next, the camera "
        "cuts back to the interior, where a man in a black suit suddenly turns around and looks "
        "inside. The man in the suit turns again to look outside. Then he steps back while he "
        "closes the door in front of him, and walks further into the room."
    ),
    "brief": "A man watches a news van from behind a wooden decoration, then closes a door.",
    "invented": (
        "The video begins with the camera focused on a metal gate. A woman in a red dress sits on "
        "the grass and eats an apple. The camera zooms out to a crowded beach at night, where "
        "fireworks explode over the sea. A dog runs after a ball."
    ),
    "empty": "",
}

pytestmark = pytest.mark.skipif(not DATA.is_file(), reason="the TUNA example is not here")


def f1_of(scores: capeval.Scores) -> float:
    value = scores.overall.all.f1.value
    assert value is not None
    assert scores.counts.scored == 1
    return value


def test_lexical_ranks_what_is_plainly_better() -> None:
    f1 = {
        name: f1_of(capeval.judge({"TUNA_0348": text}, DATA, judge="lexical"))
        for name, text in CAPTIONS.items()
    }
    assert f1["faithful"] > 0.6 > f1["brief"] > f1["invented"] >= f1["empty"] == 0.0
