from __future__ import annotations

import pytest

from capeval.captioners.caption_cleanup import repetition_warning

SENTENCE = "The camera pans to the left and shows a man in a red jacket on a bicycle. "


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("the " * 40, 'repetition loop: "the" 40 times'),
        (SENTENCE * 5, '"the camera pans to the left and shows a man in a …" 5 times'),
        ("First a dog. " + "It runs, it RUNS; " * 15 + "Then it stops.", '"it runs" 30 times'),
        ("一个人在走路。" * 8, '"一 个 人 在 走 路" 8 times'),
        (SENTENCE + "and so on, and so on, " * 12, '"and so on" 24 times'),
    ],
)
def test_loops_are_found(text: str, said: str) -> None:
    warning = repetition_warning(text)
    assert warning is not None
    assert said in warning


@pytest.mark.parametrize(
    "text",
    [
        "",
        "the the the",
        SENTENCE,
        SENTENCE * 2,
        "A red car, a red bus, a red van, a red bike and a red coat stand in a row. " + SENTENCE,
        "He runs and runs and runs and runs, very very very fast.",
        " ".join(f"At {second}s the man takes step {second}." for second in range(60)),
    ],
)
def test_ordinary_writing_is_left_alone(text: str) -> None:
    assert repetition_warning(text) is None


def test_a_very_long_text_is_looked_at_in_time() -> None:
    assert repetition_warning(" ".join(str(at) for at in range(20_000))) is None
