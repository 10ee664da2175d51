from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capeval.judging.lexical.splitting import split

# "|" is where the caption is cut.
CUTS = {
    "sentences": "A man sits. |A dog barks.",
    "titles": "Mr. Lee and Dr. Ray wave. |They go.",
    "initials and decimals": "J. Smith runs 3.5 km.",
    "ellipses": "He waits... then runs. |Wait… |Gone.",
    "quotes": '"Stop!" |he says. |"Why?" |she asks.',
    "bullets": "- A cat sleeps\n|- A dog runs",
    "numbers": "1. A cat sleeps. |2. A dog runs.",
    "headers": "### Scene 1\n\n|A boat sails.",
    "timestamps": "0:00-0:03 a man sits |0:03-0:05 a dog barks",
    "semicolon": "A man in grey sits; |a dog at his feet barks",
    "then": "The man sits down |and then he starts to read.",
    "before": "The man waits there |before opening the door.",
    "a place": "He stands before the door.",
    "while": "The old man reads |while the cat sleeps.",
    "camera": "The girl looks up, |and the camera pans left.",
    "ideographic stop": "男は歩く。|犬が走る。",
    "said again later": "The camera cuts back. |A man sits. |The camera cuts back.",
}


@pytest.mark.parametrize("marked", [pytest.param(text, id=name) for name, text in CUTS.items()])
def test_cuts(marked: str) -> None:
    assert split(marked.replace("|", "")) == ([piece.strip() for piece in marked.split("|")], 0)


@pytest.mark.parametrize("caption", ["", "..."])
def test_a_caption_without_words_has_no_piece(caption: str) -> None:
    assert split(caption) == ([], 0)


PARTS = (
    "A man , then he . ... ; while the camera \n - 1. ### 0:03-0:05 Mr. 3.5 \" ' ( é 犬 before"
    " walking and ! ?"
)
caption_like = st.lists(st.sampled_from(PARTS.split(" "))).map(" ".join)


@given(st.one_of(st.text(), caption_like))
def test_pieces_are_slices_in_order_and_together_all_words(caption: str) -> None:
    pieces, dropped = split(caption)
    at = 0
    for piece in pieces:
        at = caption.index(piece, at) + len(piece)
    found, every = (re.findall(r"[^\W_]+", text) for text in (" ".join(pieces), caption))
    assert {one.lower() for one in found} == {one.lower() for one in every}
    if not dropped:
        assert found == every


def test_loops_are_dropped() -> None:
    assert split("He sits. " * 5) == (["He sits."], 4)
    assert split("He sits. She runs. " * 9) == (["He sits.", "She runs."] * 2, 14)
