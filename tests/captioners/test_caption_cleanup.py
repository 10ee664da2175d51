from __future__ import annotations

import pytest

from capeval.captioners.caption_cleanup import caption_in, is_empty
from capeval.errors import ReplyError


@pytest.mark.parametrize(
    ("reply", "caption"),
    [
        ("thoughts</think>A man.", "A man."),
        ("<thinking>x</thinking>A man.", "A man."),
        ("<think>a</think>\n<think>b</think> A man.", "A man."),
        ('<think>a "</think>" b</think> A man.', "A man."),
        ("<think></think>\n\nA man.", "A man."),
        ("[THINK]a[/THINK]A man.", "A man."),
        ("◁think▷a◁/think▷A man.", "A man."),
        ("<|begin_of_thought|>a<|end_of_thought|>A man.", "A man."),
        ("<seed:think>a</seed:think>A man.", "A man."),
        ("<|channel|>analysis<|message|>a<|start|>assistant<|channel|>final<|message|>A.", "A."),
        ("<|channel>thought\na<channel|>A man.", "A man."),
        ("<|channel>thought\n<channel|>A man.", "A man."),
        ("<think>a</think><answer>A man.</answer>", "A man."),
        ("<think>a</think>\n<answer>A man.", "A man."),
        ("<|begin_of_box|>A man.<|end_of_box|>", "A man."),
        ('The sign says "<answer>yes</answer>".', 'The sign says "<answer>yes</answer>".'),
        ("analysisWe see a man.assistantfinalA man.", "A man."),
        ("A man thinks.", "A man thinks."),
        ("A family emoji \U0001f468\u200d\U0001f469\u200d\U0001f467 & co.",
         "A family emoji \U0001f468\u200d\U0001f469\u200d\U0001f467 & co."),
        ("Analysis shows a man. No reasoning.", "Analysis shows a man. No reasoning."),
    ],
)  # fmt: skip
def test_reasoning_in_every_shape_is_no_caption(reply: str, caption: str) -> None:
    assert caption_in(reply) == caption


@pytest.mark.parametrize("before", ["", "Okay.\n", "\u200b", "A man. </think> So: "])
@pytest.mark.parametrize(
    "mark",
    [
        *("<think>", "<THINKING>", '<think type="deep">', "< think >", "<think/>", "<thought>"),
        *("<reasoning>", "<reflection>", "<scratchpad>", "<analysis>", "<antThinking>"),
        "<seed:think>",
        *(
            "<|channel>thought",
            "[THINK]",
            "◁think▷",
            "<|begin_of_thought|>",
            "<|channel|>analysis<|message|>",
        ),
        *(
            "<|start|>assistant<|channel|>analysis",
            "<think>a</thinking>",
            "<think>a</think><think>",
        ),
    ],
)
def test_reasoning_without_a_clear_end_is_no_caption(mark: str, before: str) -> None:
    with pytest.raises(ReplyError, match="not clear where the reasoning ends"):
        caption_in(f"{before}{mark}A first guess: a man walks.")


def test_reasoning_alone_is_no_caption() -> None:
    with pytest.raises(ReplyError, match="reasoning and no caption"):
        caption_in("<think>a man</think>\n")


def test_markers_of_a_chat_template_are_no_words() -> None:
    assert is_empty("<|im_end|>")
    assert not is_empty("<|im_end|> A man.")
