"""The text that a model in this process wrote, with the marks of its reasoning."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

# Where a tokenizer calls these special, decoding would drop them and keep what they enclose.
_MARKS = frozenset({"<think>", "</think>", "<|channel>", "<channel|>"})
_OPENED = "<think>"
# The opening mark and a newline, each perhaps of several tokens, end such a prompt.
_PROMPT_END = 8


def written_text(tokenizer: Any, prompt: Sequence[int], written: Sequence[int]) -> str:
    """Return the text of the tokens `written` after the tokens `prompt`, without special tokens.

    Marks of reasoning stay in it. Where the chat template opens the reasoning, its mark is put in
    front, so that reasoning which was cut off is not taken for a caption.
    """
    marks = {
        token: added.content
        for token, added in tokenizer.added_tokens_decoder.items()
        if added.special and added.content in _MARKS
    }
    text = "".join(
        marks[tokens[0]] if is_mark else tokenizer.decode(tokens, skip_special_tokens=True)
        for is_mark, tokens in _runs(written, marks)
    ).strip()
    end: str = tokenizer.decode(list(prompt[-_PROMPT_END:]), skip_special_tokens=False)
    return f"{_OPENED}{text}" if end.rstrip().endswith(_OPENED) else text


def _runs(tokens: Sequence[int], marks: dict[int, str]) -> list[tuple[bool, list[int]]]:
    """Return each mark alone, and what is between two marks together."""
    grouped = groupby(enumerate(tokens), lambda pair: pair[0] if pair[1] in marks else None)
    return [(at is not None, [token for _, token in pairs]) for at, pairs in grouped]
