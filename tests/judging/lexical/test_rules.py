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


# What cannot both be is a contradiction: the element, and a caption.
CONTRADICTED = {
    "colour": ("The woman wears a red dress.", "The woman wears a green dress."),
    "colour after its noun": ("The door is white.", "The door is black."),
    "number": ("Two men are talking.", "Three men are talking."),
    "digits": ("There are 3 boats on the lake.", "There are 5 boats on the lake."),
    "left and right": ("The car turns left.", "The car turns right."),
    "toward and away": ("The boy runs toward the gate.", "The boy runs away from the gate."),
    "clockwise": ("The wheel turns clockwise.", "The wheel turns counterclockwise."),
    "open and close": ("The girl opens the box.", "The girl closes the box."),
    "negation": ("The man wears a helmet.", "The man does not wear a helmet."),
    "negated element": ("The man does not wear a helmet.", "The man wears a helmet."),
    "who is who": ("The woman throws the man a ball.", "The man throws the woman a ball."),
    "who is who, passive": ("The woman pushes the man.", "The woman is pushed by the man."),
    "another actor": ("The dog jumps over the fence.", "The cat jumps over the fence."),
    "camera: zoom": ("The camera zooms in on the door.", "The camera zooms out from the door."),
    "camera: pan": ("The camera pans to the tree.", "The camera zooms in on the tree."),
    "camera: static": ("The camera remains static.", "The camera pans across the street."),
}
NOT_CONTRADICTED = {
    "shades": ("The man wears a blue coat.", "The man wears a navy coat."),
    "spelling": ("The cat is grey.", "The cat is gray."),
    "several": ("Four men are talking.", "Several men are talking."),
    "another thing's colour": ("The van is white.", "A black dog sits beside the white van."),
    "both in turn": ("The girl opens the box.", "The girl opens the box and then closes the box."),
}


@pytest.mark.parametrize("name", [*CONTRADICTED, *NOT_CONTRADICTED])
def test_only_what_cannot_both_be_is_a_contradiction(name: str) -> None:
    element, caption = (CONTRADICTED | NOT_CONTRADICTED)[name]
    found = relation(element, caption, "camera" if name.startswith("camera") else "action")
    assert (found == "contradiction") == (name in CONTRADICTED)


def rows(half: str) -> list[dict[str, str]]:
    with PAIRS.open(encoding="utf-8", newline="") as lines:
        table = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [row for row in table if row["half"] == half]


ELEMENTS = [pytest.param(row["element"], id=row["element"]) for row in rows("design")]


@pytest.mark.parametrize("element", ELEMENTS)
def test_an_element_is_entailed_by_itself_and_lacking_from_another_text(element: str) -> None:
    assert relation(element, element) == "entailment"
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


def test_a_part_of_an_element_is_not_an_entailment() -> None:
    assert relation("The woman in the red coat feeds pigeons.", "A woman walks by.") == "lack"
    # Nor is all but a colour.
    assert relation("A man wears a red hat.", "A man wears a hat.", "attribute") == "lack"
