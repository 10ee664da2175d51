"""Edits that make a sentence false for certain, and sentences that are left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capeval.schema import ElementType
from capeval.trust.probe_edits import edits_of
from capeval.trust.probe_words import read_video
from tests.trust.test_probe_set import video


def edits(content: str, *others: str, kind: ElementType = "action", event: str = "") -> set[str]:
    made = video([(content, kind), *others])
    if event:
        (only,) = made.events
        made = made.model_copy(update={"events": (replace(only, event=event),)})
    read = read_video(made)
    return {edit.text for edit in edits_of(read.sentences[0], read)}


@pytest.mark.parametrize(
    ("content", "kind", "edited"),
    [
        ("A red car stops.", "action", "A blue car stops."),
        ("An orange hat lies there.", "attribute", "A blue hat lies there."),
        ("The car is orange.", "attribute", "The car is purple."),
        ("A red and white flag flies.", "scene", None),
        ("Two birds sing.", "action", "Five birds sing."),
        ("A tree stands on the left.", "scene", "A tree stands on the right."),
        ("A dog sits in front of the door.", "action", "A dog sits behind the door."),
        ("A man walks into the room.", "action", "A man walks out of the room."),
        ("A girl looks up.", "action", "A girl looks down."),
        ("A large dog barks.", "action", "A small dog barks."),
        ("A man opens the door.", "action", "A man closes the door."),
        ("The camera zooms in on a face.", "camera", "The camera zooms out on a face."),
        ("The camera pans right, following it.", "camera", "The camera pans left, following it."),
        ("The camera remains static.", "camera", "The camera keeps moving."),
        ("It cuts to a close-up of a cup.", "camera", "It cuts to a wide shot of a cup."),
    ],
)
def test_a_word_is_replaced_by_one_that_excludes_it(
    content: str, kind: ElementType, edited: str | None
) -> None:
    found = edits(content, kind=kind)
    assert (edited in found) if edited else not found


@pytest.mark.parametrize(
    "content",
    [
        "The sign says “turn to the left” twice.",
        "The sign says “turn to the left",
        'A logo "Red Bull" is on it.',
        "A woman has a bag on her right shoulder.",
        "The man has left the room.",
        "She turns right away.",
        "No red car is there.",
        "The car isn't red.",
        "The car seems red.",
        "Is the car red?",
        "A light changes from red to green.",
        "A red-haired woman laughs.",
        "A black man laughs.",
        "He drinks red wine.",
        "He peels an orange.",
        "About two hundred birds sing.",
        "At least two birds sing.",
        "A man and a woman talk.",  # sex is never replaced
        "She appears happy.",
        "A plant opens to the left and to the right.",
        "The camera follows the dog.",
        "The red car passes the red house.",
    ],
)
def test_what_may_stay_true_or_is_unclear_is_not_edited(content: str) -> None:
    assert edits(content) == set()


@pytest.mark.parametrize(
    ("content", "other"),
    [
        ("A red car stops.", "The driver leaves the red car."),
        ("A red car stops.", "Its crimson doors open."),
        ("Two birds sing.", "Both of them fly away."),
        ("The camera zooms in on it.", "It is zooming for long."),
        ("A man opens the door.", "The opened door moves."),
        ("A tree stands on the left.", "The leftmost of them is green."),
        ("A large dog barks.", "The bigger one is silent."),
    ],
)
def test_a_word_that_is_elsewhere_in_some_form_is_not_replaced(content: str, other: str) -> None:
    kind: ElementType = "camera" if "camera" in content else "action"
    assert edits(content, "A bell rings loudly.", kind=kind)
    assert edits(content, other, kind=kind) == set()


def test_no_word_comes_in_that_is_in_the_video() -> None:
    assert edits("A red car stops.") == {
        f"A {colour} car stops." for colour in ("blue", "green", "white", "black")
    }
    assert edits("A red car stops.", "The navy flag and an emerald ring shine.") == {
        "A white car stops.",
        "A black car stops.",
    }
    event = "A red car stops by a white wall in dark light under a blue sky on green grass."
    assert edits("A red car stops.", event=event) == set()


def test_a_side_that_is_of_something_else_does_not_hinder_a_move_of_the_camera() -> None:
    other = "The dog runs to the right."
    assert edits("The camera pans right.", other, kind="camera") == {"The camera pans left."}
    assert edits("A tree stands on the right.", other) == set()
