from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from capeval.judging.lexical import LexicalJudge
from capeval.schema import Annotation, ElementType, Event, Relation, VisualElement

PAIRS = Path(__file__).with_name("pairs.tsv")


def relation(element: str, caption: str, kind: ElementType = "action") -> Relation:
    whole = VisualElement(content=element, type=kind, weight=3)
    events = (Event(event=element, visual_elements=(whole,)),)
    verdict = LexicalJudge().judge(Annotation(index="1", events=events), caption)
    return verdict.relations[0][0]


CONTRADICTED = [
    ("colour", "The woman wears a red dress.", "The woman wears a green dress."),
    ("colour after its noun", "The door is white.", "The door is black."),
    ("number", "Two men are talking.", "Three men are talking."),
    ("digits", "There are 3 boats on the lake.", "There are 5 boats on the lake."),
    ("left and right", "The car turns left.", "The car turns right."),
    ("up and down", "The balloon floats upward.", "The balloon floats downward."),
    ("toward and away", "The boy runs toward the gate.", "The boy runs away from the gate."),
    ("clockwise", "The wheel turns clockwise.", "The wheel turns counterclockwise."),
    ("open and close", "The girl opens the box.", "The girl closes the box."),
    ("negation", "The man wears a helmet.", "The man does not wear a helmet."),
    ("negated element", "The man does not wear a helmet.", "The man wears a helmet."),
    (
        "who is who",
        "The woman throws the ball to the man.",
        "The man throws the ball to the woman.",
    ),
    ("who is who, passive", "The woman pushes the man.", "The woman is pushed by the man."),
    ("another actor", "The dog jumps over the fence.", "The cat jumps over the fence."),
    ("sit and stand", "An old man is sitting by the fire.", "An old man is standing by the fire."),
]
CAMERA_CONTRADICTED = [
    ("zoom", "The camera zooms in on the door.", "The camera zooms out from the door."),
    ("pan and zoom", "The camera pans to the tree.", "The camera zooms in on the tree."),
    ("static", "The camera remains static.", "The camera pans across the street."),
]
NOT_CONTRADICTED = [
    ("shades", "The man wears a blue coat.", "The man wears a navy coat."),
    ("spelling", "The cat is grey.", "The cat is gray."),
    ("several", "Four men are talking.", "Several men are talking."),
    ("colour of something else", "The van is white.", "A black dog sits beside the white van."),
    ("both in turn", "The girl opens the box.", "The girl opens the box and then closes the box."),
    ("left a room", "The man walks to the left.", "The man walks to the left."),
]


@pytest.mark.parametrize(
    ("element", "caption"), [pytest.param(*c[1:], id=c[0]) for c in CONTRADICTED]
)
def test_what_cannot_both_be_is_a_contradiction(element: str, caption: str) -> None:
    assert relation(element, caption) == "contradiction"


@pytest.mark.parametrize(
    ("element", "caption"), [pytest.param(*c[1:], id=c[0]) for c in CAMERA_CONTRADICTED]
)
def test_camera_moves_exclude_each_other(element: str, caption: str) -> None:
    assert relation(element, caption, "camera") == "contradiction"


@pytest.mark.parametrize(
    ("element", "caption"), [pytest.param(*c[1:], id=c[0]) for c in NOT_CONTRADICTED]
)
def test_what_can_both_be_is_no_contradiction(element: str, caption: str) -> None:
    assert relation(element, caption) != "contradiction"


def rows(half: str) -> list[dict[str, str]]:
    with PAIRS.open(encoding="utf-8", newline="") as lines:
        table = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [row for row in table if row["half"] == half]


ELEMENTS = [pytest.param(row["element"], id=row["element"]) for row in rows("design")]


@pytest.mark.parametrize("element", ELEMENTS)
def test_what_is_said_word_for_word_is_entailed(element: str) -> None:
    assert relation(element, element) == "entailment"


@pytest.mark.parametrize("element", ELEMENTS)
def test_what_is_not_spoken_of_is_lacking(element: str) -> None:
    assert relation(element, "Popcorn ingredients bubble in molten caramel.") == "lack"


@pytest.mark.parametrize(("half", "least"), [("design", 0.85), ("heldout", 0.8)])
def test_everyday_paraphrases_are_mostly_classified(half: str, least: float) -> None:
    table = rows(half)
    assert set(Counter(row["label"] for row in table).values()) <= set(range(8, 16))
    right = sum(
        relation(row["element"], row["caption"], row["type"]) == row["label"]  # type: ignore[arg-type]
        for row in table
    )
    assert right / len(table) >= least


def test_half_of_an_element_is_not_an_entailment() -> None:
    assert relation("The woman in the red coat feeds pigeons.", "A woman walks by.") == "lack"


def test_words_scattered_over_a_caption_without_its_colour_lack_it() -> None:
    assert relation("A man wears a red hat.", "A man wears a hat.", "attribute") == "lack"
