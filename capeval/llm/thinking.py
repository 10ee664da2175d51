"""Remove the reasoning that servers leave in front of a model's reply."""

from __future__ import annotations

import re

# What a server without the model's reasoning parser leaves: DeepSeek's and Qwen's tags (their chat
# templates open the first tag themselves), Magistral's, Kimi's, Gemma's, and OpenAI's Harmony
# format with and without its special tokens. Reasoning may quote its own mark, so the last one ends
# it.
_REASONING = re.compile(
    r"<(?P<tag>think|thinking|thought|reasoning)>.*</(?P=tag)>"
    r"|\[THINK\].*\[/THINK\]"
    r"|◁think▷.*◁/think▷"
    r"|<\|channel>thought.*<channel\|>"
    r"|(?:<\|start\|>assistant)?<\|channel\|>analysis<\|message\|>.*"
    r"<\|channel\|>final ?(?:<\|constrain\|>\w+)?<\|message\|>"
    r"|analysis(?=[A-Z]).*assistantfinal"
    r"|(?:(?!<think|<thought|<reason).)*</think>",
    re.DOTALL,
)
_MARK = re.compile(
    r"</?(?:think|thinking|thought|reasoning)>|\[/?THINK\]|◁/?think▷|<\|?channel\|?>"
    r"|\Aanalysis(?=[A-Z])"
)


def after_thinking(text: str) -> str | None:
    """Return what follows the reasoning in front of a reply; None if its end is not clear.

    The end is not clear if reasoning is never closed, or begins after other text.

    >>> after_thinking("<think>A dog?</think> A dog runs."), after_thinking("A dog? </think>A dog.")
    ('A dog runs.', 'A dog.')
    >>> after_thinking("A dog runs."), after_thinking("Well. <think>A dog")
    ('A dog runs.', None)
    """
    text = text.lstrip()
    reasoning = _REASONING.match(text)
    rest = text[reasoning.end() :].lstrip() if reasoning else text
    tag = reasoning["tag"] if reasoning else None
    # Reasoning that was begun again ends nowhere for certain.
    is_open = tag and text.count(f"<{tag}>") > text.count(f"</{tag}>")
    return None if is_open or _MARK.search(rest) else rest
