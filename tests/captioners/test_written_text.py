"""What models in this process write: reasoning keeps its marks, other special tokens go."""

from __future__ import annotations

import pytest

from capeval.captioners.caption_cleanup import caption_in, has_reasoning
from capeval.captioners.transformers_backend import written_text
from capeval.errors import ReplyError
from tests.captioners import tiny

# As in Gemma 4's tokenizer all are special; Qwen's has the first two as ordinary tokens.
_MARKS = ("<think>", "</think>", "<|channel>", "<channel|>")


@pytest.mark.parametrize(
    ("prompt", "written", "caption"),
    [
        ("", "camera street <|im_end|>", "camera street"),
        ("", "<think> man </think> camera street <|im_end|>", "camera street"),
        ("<think>", "man </think> camera street", "camera street"),
        ("<think> </think>", "camera street", "camera street"),
        ("", "<|channel> assistant man <channel|> camera", "camera"),
        ("", "<|channel> assistant <channel|> camera", "camera"),
        ("<think>", "man walks", None),
        ("", "<think> man walks <|im_end|>", None),
        ("", "<|channel> assistant man walks", None),
    ],
)
def test_a_caption_is_what_follows_the_reasoning(
    prompt: str, written: str, caption: str | None
) -> None:
    tokenizer = tiny._tokenizer(*_MARKS)
    ids = tokenizer.convert_tokens_to_ids
    asked = ids(["man", "<|im_start|>", "assistant", *prompt.split()])
    text = written_text(tokenizer, asked, ids(written.split()))
    if caption is None:
        with pytest.raises(ReplyError, match="not clear where the reasoning ends"):
            caption_in(text)
    else:
        assert caption_in(text) == caption
        assert has_reasoning(text) == ("man" in written or "channel" in written)
