"""What a judge wrote out as events becomes the caption's own text, or is asked for again."""

from __future__ import annotations

import contextlib
import itertools
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capeval.errors import ReplyError
from capeval.files.label_matching import normalised
from capeval.judging.written_events import own_events, words
from capeval.text import storable

RUN = "A man runs to a red car."
BARK = "A dog barks at the man."
LEAVE = "Then the dog moves away slowly, and he opens the blue door."
SING = "Birds sing in the tall trees."
WHOLE = [RUN, BARK, LEAVE, SING]
DROPPED = "split: 1 caption event was a duplicate and was dropped"
CHANGED = "split: 1 event was not copied exactly; the caption's own text was used"

# The caption's sentences, the events as a judge wrote them, and what is made of them: the events
# (None for the caption's sentences) with the notes, or what the complaint says.
READ: dict[str, tuple[list[str], list[str], list[str] | None, list[str]]] = {
    "word for word": (WHOLE, WHOLE, None, []),
    "other spaces": (
        WHOLE,
        [RUN, f"{BARK}\n\n{LEAVE}", SING],
        [RUN, f"{BARK}\n\n{LEAVE}", SING],
        [],
    ),
    "cut at a comma": (
        WHOLE,
        [RUN, BARK, "Then the dog moves away slowly,", "and he opens the blue door.", SING],
        [RUN, BARK, "Then the dog moves away slowly,", "and he opens the blue door.", SING],
        [],
    ),
    "without stops": (
        WHOLE,
        [one.rstrip(".") for one in WHOLE],
        [one.rstrip(".") for one in WHOLE],
        [],
    ),
    "an event twice": (WHOLE, [RUN, RUN, BARK, LEAVE, SING], None, [DROPPED]),
    "the caption has an event twice": (
        [*WHOLE[:2], RUN, *WHOLE[2:]],
        [*WHOLE[:2], RUN, *WHOLE[2:]],
        WHOLE,
        [DROPPED],
    ),
    "a repeat was dropped": ([*WHOLE[:2], RUN, *WHOLE[2:]], WHOLE, WHOLE, [DROPPED]),
    "a loop was cut short": (
        [*WHOLE[:3], "He walks and walks and walks and walks and walks to the blue door."],
        [*WHOLE[:3], "He walks and walks to the blue door."],
        [*WHOLE[:3], "He walks and walks to the blue door."],
        [DROPPED],
    ),
    "a negation was added": (
        WHOLE,
        [RUN, BARK, LEAVE.replace("moves", "never moves"), SING],
        None,
        [CHANGED],
    ),
    "a word was replaced": (
        WHOLE,
        [RUN, BARK, LEAVE.replace("blue", "red"), SING],
        None,
        [CHANGED],
    ),
    "subjects were exchanged": (
        [RUN, BARK, "The man in the red car waves to the dog in the blue car.", SING],
        [RUN, BARK, "The dog in the red car waves to the man in the blue car.", SING],
        None,
        [CHANGED],
    ),
    "words in another order": (
        WHOLE,
        [RUN, BARK, LEAVE.replace("moves away slowly", "slowly moves away"), SING],
        None,
        [CHANGED],
    ),
    "a pronoun was resolved": (
        WHOLE,
        [RUN, BARK, LEAVE.replace("he opens", "the man opens"), SING],
        None,
        [CHANGED],
    ),
    "a short event with a resolved pronoun": (
        [*WHOLE, "He sits.", "A dog barks."],
        [*WHOLE, "The man sits.", "A dog barks."],
        None,
        [CHANGED],
    ),
    "a connecting word was left out": (
        WHOLE,
        [RUN, BARK, LEAVE.removeprefix("Then the").strip(), SING],
        None,
        [CHANGED],
    ),
    "case, width and quotes": (
        ["The MAN’s Ｒed “car” — STOPS!", *WHOLE],
        ["the man's red car stops.", *WHOLE],
        None,
        [CHANGED],
    ),
    "accents of another form": (
        ["A café opens.", *WHOLE],
        ["A cafe\u0301 opens.", *WHOLE],
        None,
        [CHANGED],
    ),
    "bullets are not copied": (
        [f"- {one}\n" for one in WHOLE],
        WHOLE,
        WHOLE,
        [],
    ),
    "Japanese": (
        ["男が走る。", "犬が吠える。"],
        ["男が走る", "犬が吠える"],
        ["男が走る", "犬が吠える"],
        [],
    ),
    "an event of marks alone": (WHOLE, [RUN, "---", BARK, LEAVE, SING], None, [CHANGED]),
    "marks alone": (["…", "!"], ["!", "…"], ["… !"], [CHANGED, DROPPED]),
}


@pytest.mark.parametrize("name", READ)
def test_an_event_is_the_captions_own_text(name: str) -> None:
    sentences, written, wanted, noted = READ[name]
    notes: list[str] = []
    events = own_events(" ".join(sentences), written, notes)
    assert (events, notes) == (sentences if wanted is None else wanted, noted)


MAN_BARKS = "The man barks at the dog."
# In a long caption the words of one sentence are no large share.
OTHERS = [f"Car number {n} drives past the dog and the man." for n in range(20)]
LONG = [RUN, *OTHERS[:10], MAN_BARKS, *OTHERS[10:], BARK]

# The caption's sentences, the events as a judge wrote them, and what the complaint says.
ASKED_AGAIN: dict[str, tuple[list[str], list[str], str]] = {
    "reversed": (WHOLE, WHOLE[::-1], r'the caption has "[^"]+" elsewhere; keep its order'),
    "two exchanged": (WHOLE, [BARK, RUN, LEAVE, SING], 'has "A dog barks at the man." elsewhere'),
    "the last one first": (WHOLE, [SING, RUN, BARK, LEAVE], 'has "Birds sing in .*" elsewhere'),
    "foreign": (WHOLE, [*WHOLE, "The sun sets behind hills."], "not in the caption: sun, sets, "),
    "made of the caption's words": (
        WHOLE,
        [RUN, "The blue dog opens a red car.", BARK, LEAVE, SING],
        '"The blue dog opens a red car." is not in the caption; copy its words in their order',
    ),
    "over and over": (["one two"], [" ".join(["one two"] * 9)], "is not in the caption"),
    "the beginning left out": (WHOLE, WHOLE[1:], 'no event has "a man runs to a red car"'),
    "the end left out": (WHOLE, WHOLE[:3], 'no event has "birds sing'),
    "a Japanese end left out": (["男が走る。", "犬が吠える。"], ["男が走る"], "no event has"),
    "a middle left out": (LONG, [one for one in LONG if one != MAN_BARKS], "no event has"),
    "both of two equal passages": ([RUN, BARK, *OTHERS, BARK], [RUN, *OTHERS], "no event has"),
    "of a million letters": (["a" * 1_000_000], ["b"], "not in the caption: b"),
}


@pytest.mark.parametrize("name", ASKED_AGAIN)
def test_what_cannot_be_aligned_is_asked_again(name: str) -> None:
    sentences, events, said = ASKED_AGAIN[name]
    with pytest.raises(ReplyError, match=said) as caught:
        own_events(" ".join(sentences), events, [])
    assert len(str(caught.value)) < 1000


@settings(deadline=None)
@given(st.data())
def test_any_cut_of_a_caption_is_read_as_its_pieces(data: st.DataObject) -> None:
    caption = storable(
        data.draw(st.text(min_size=1) | st.lists(st.sampled_from(WHOLE)).map(" ".join))
    )
    edges = sorted(
        data.draw(st.sets(st.integers(0, len(caption)), max_size=12)) | {0, len(caption)}
    )
    pieces = [caption[start:end] for start, end in itertools.pairwise(edges)]
    wanted = [text for piece in pieces if (text := piece.strip())]
    if not wanted:
        return
    notes: list[str] = []
    distinct = {normalised(text): text for text in reversed(wanted)}
    assert own_events(caption, pieces, notes) == [
        text for text in dict.fromkeys(wanted) if distinct[normalised(text)] is text
    ]
    assert len(notes) == (len(distinct) < len(wanted))


WORDS = st.lists(st.sampled_from([*"amnz.", "dog", "sits", "The"]), max_size=40)


@settings(deadline=None)
@given(WORDS, st.lists(WORDS, max_size=5))
def test_an_event_is_never_anything_but_words_of_the_caption(
    caption: list[str], events: list[list[str]]
) -> None:
    text = " ".join(caption)
    try:
        own = own_events(text, [" ".join(event) for event in events], [])
    except ReplyError:
        return
    # In order, each word of an event is one of the caption's.
    rest = iter(words(text))
    assert all(word in rest for event in own for word in words(event))


def test_long_and_hostile_splits_take_little_time() -> None:
    rng = random.Random(0)
    pool = ["the", "a", "man", "dog", "car", "runs", "sits", "red", "and", "then", "left"]
    said = [rng.choice(pool) + rng.choice(["", ".", ","]) for _ in range(2000)]
    events = [" ".join(said[n : n + 20]) for n in range(0, 2000, 20)]
    events[50] += " and so on"
    shuffled = rng.sample(said, len(said))
    other = "the " * 9000
    began = time.process_time()
    assert len(own_events(" ".join(said), events, [])) == 100
    for caption, written in (
        (" ".join(said), [" ".join(shuffled)]),
        (other, [other.strip() + " the the"]),
        (
            " ".join(f"w{n % 50}" for n in range(9000)),
            [" ".join(f"w{n * 7 % 50}" for n in range(9000))],
        ),
        (
            " ".join(f"w{n}" for n in range(20_000)),
            [" ".join(f"w{n}" for n in range(19_999, -1, -1))],
        ),
    ):
        with contextlib.suppress(ReplyError):
            own_events(caption, written, [])
    assert time.process_time() - began < 5
