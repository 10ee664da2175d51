from __future__ import annotations

import pytest

from capeval.captioners.caption_cleanup import is_empty, without_thinking


@pytest.mark.parametrize(
    ("reply", "caption"),
    [
        ("thoughts</think>A man.", "A man."),
        ("<thinking>x</thinking>A man.", "A man."),
        ("<THINK>x</THINK> A man.", "A man."),
        ("<think>a</think>\n<think>b</think> A man.", "A man."),
        ("<think>a</think><think>b", ""),
        ("A man thinks.", "A man thinks."),
    ],
)
def test_reasoning_in_every_shape_is_no_caption(reply: str, caption: str) -> None:
    assert without_thinking(reply) == caption


def test_markers_of_a_chat_template_are_no_words() -> None:
    assert is_empty("<|im_end|>")
    assert not is_empty("<|im_end|> A man.")
