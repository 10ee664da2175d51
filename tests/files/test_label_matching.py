from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capeval.errors import ReplyError
from capeval.files.label_matching import match_labels
from capeval.schema import RELATIONS, Relation

RELATION: st.SearchStrategy[Relation] = st.sampled_from(RELATIONS)


def paired(elements: Sequence[str], *echoes: str) -> tuple[Relation, ...]:
    """Pair echoes, the first of which is entailed and the others lacking."""
    labels: list[tuple[str, Relation]] = [
        (echo, "lack" if place else "entailment") for place, echo in enumerate(echoes)
    ]
    return match_labels(elements, labels, "event 1", [])


@settings(deadline=None)
@given(st.permutations([f"Element {name}." for name in "abcdef"]), st.data())
def test_labels_follow_their_content_whatever_the_order(
    echoes: list[str], data: st.DataObject
) -> None:
    labels: dict[str, Relation] = {echo: data.draw(RELATION) for echo in echoes}
    notes: list[str] = []
    elements = sorted(labels)
    found = match_labels(elements, list(labels.items()), "event 1", notes)
    assert found == tuple(labels[element] for element in elements)
    assert notes == []


@pytest.mark.parametrize(
    ("element", "echo"),
    [
        ("The woman walks.", "The woman walks"),
        ("The camera pans.", "The camrea pans."),
        ("A bicycle stands there.", "A bycycle stands there."),
    ],
)
def test_slip_is_taken_for_the_element_that_it_must_mean(element: str, echo: str) -> None:
    assert paired([element, "It rains."], echo, "It rains.") == ("entailment", "lack")


@pytest.mark.parametrize(
    ("element", "echo"),
    [
        ("The camera pans left.", "The camera pans right."),
        ("The door is locked.", "The door is unlocked."),
        ("There are 12 dogs.", "There are 13 dogs."),
        ("The man walks.", "The man talks."),
        ("The man walks slowly.", "The man walks."),
        ("The camera pans.", "The camrea pasn."),
    ],
)
def test_another_statement_is_not_a_slip(element: str, echo: str) -> None:
    with pytest.raises(ReplyError, match="no visual element"):
        paired([element, "It rains."], echo, "It rains.")


def test_slip_that_may_mean_two_elements_means_neither() -> None:
    elements = ["The carts stopped.", "The cards stopped."]
    with pytest.raises(ReplyError, match="no visual element"):
        paired(elements, "The carxs stopped.", "The carqs stopped.")
    assert paired(elements, "The carxs stopped.", "The cards stopped.") == ("entailment", "lack")
