from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capeval.judging.lexical.splitting import split
from capeval.judging.written_events import words

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"

CUTS = [
    pytest.param("A man sits. A dog barks.", ["A man sits.", "A dog barks."], id="sentences"),
    pytest.param(
        "Mr. Lee and Dr. Ray wave. They go.", ["Mr. Lee and Dr. Ray wave.", "They go."], id="titles"
    ),
    pytest.param("J. Smith runs 3.5 km.", ["J. Smith runs 3.5 km."], id="initials and decimals"),
    pytest.param(
        "He waits... then runs. Wait… Gone.",
        ["He waits... then runs.", "Wait…", "Gone."],
        id="ellipses",
    ),
    pytest.param(
        '"Stop!" he says. "Why?" she asks.',
        ['"Stop!"', "he says.", '"Why?"', "she asks."],
        id="quotes",
    ),
    pytest.param("- A cat sleeps\n- A dog runs", ["- A cat sleeps", "- A dog runs"], id="bullets"),
    pytest.param(
        "1. A cat sleeps. 2. A dog runs.", ["1. A cat sleeps.", "2. A dog runs."], id="numbers"
    ),
    pytest.param("### Scene 1\n\nA boat sails.", ["### Scene 1", "A boat sails."], id="headers"),
    pytest.param(
        "0:00-0:03 a man sits 0:03-0:05 a dog barks",
        ["0:00-0:03 a man sits", "0:03-0:05 a dog barks"],
        id="timestamps",
    ),
    pytest.param(
        "A man in grey sits; a dog at his feet barks",
        ["A man in grey sits;", "a dog at his feet barks"],
        id="semicolon",
    ),
    pytest.param(
        "The man sits down and then he starts to read.",
        ["The man sits down", "and then he starts to read."],
        id="then",
    ),
    pytest.param(
        "The man waits there before opening the door.",
        ["The man waits there", "before opening the door."],
        id="before",
    ),
    pytest.param("He stands before the door.", ["He stands before the door."], id="a place"),
    pytest.param(
        "The old man reads while the cat sleeps.",
        ["The old man reads", "while the cat sleeps."],
        id="while",
    ),
    pytest.param(
        "The girl looks up, and the camera pans left.",
        ["The girl looks up,", "and the camera pans left."],
        id="camera",
    ),
    pytest.param("男は歩く。犬が走る。", ["男は歩く。", "犬が走る。"], id="ideographic stop"),
    pytest.param("...", [], id="no word"),
    pytest.param("", [], id="empty"),
]


@pytest.mark.parametrize(("caption", "pieces"), CUTS)
def test_cuts(caption: str, pieces: list[str]) -> None:
    assert split(caption) == (pieces, 0)


PARTS = (
    "A man , then he . ... ; while the camera \n - 1. ### 0:03-0:05 Mr. 3.5 \" ' ( é 犬 before"
    " walking and ! ?"
)
caption_like = st.lists(st.sampled_from(PARTS.split(" "))).map(" ".join)


@given(st.one_of(st.text(), caption_like))
def test_events_together_are_all_words_of_the_caption(caption: str) -> None:
    pieces, dropped = split(caption)
    said = words(" ".join(pieces))
    assert set(said) == set(words(caption))
    if not dropped:
        assert said == words(caption)


@given(st.one_of(st.text(), caption_like))
def test_events_are_slices_in_order(caption: str) -> None:
    at = 0
    for piece in split(caption)[0]:
        at = caption.index(piece, at) + len(piece)


def test_real_captions_are_split_into_their_words() -> None:
    path = SHARED / "tuna_example_submission.json"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    for caption in json.loads(path.read_text()).values():
        pieces, dropped = split(caption)
        assert dropped == 0
        assert len(pieces) >= 3
        assert words(" ".join(pieces)) == words(caption)


def test_a_loop_is_said_once() -> None:
    assert split("He sits. " * 5) == (["He sits."], 4)


def test_a_loop_of_two_sentences_is_said_twice() -> None:
    pieces, dropped = split("He sits. She runs. " * 9)
    assert pieces == ["He sits.", "She runs."] * 2
    assert dropped == 14


def test_a_sentence_said_again_later_stays() -> None:
    pieces, dropped = split("The camera cuts back. A man sits. The camera cuts back.")
    assert (len(pieces), dropped) == (3, 0)
