from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capeval.errors import ReplyError
from capeval.files.label_matching import match_labels
from capeval.schema import RELATIONS, Relation

RELATION: st.SearchStrategy[Relation] = st.sampled_from(RELATIONS)


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


@pytest.mark.parametrize("echo", ["The camera pans right.", "The camrea pans left.", "It rains"])
def test_another_text_is_refused(echo: str) -> None:
    labels: list[tuple[str, Relation]] = [(echo, "lack"), ("it  rains", "entailment")]
    with pytest.raises(ReplyError):
        match_labels(["The camera pans left.", "It rains."], labels, "event 1", [])
