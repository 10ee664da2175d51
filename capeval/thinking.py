"""Remove the reasoning that servers leave in front of a model's reply, and find its caption."""

from __future__ import annotations

import re

from capeval.errors import ReplyError

REASONING_REMOVED = "the model's reasoning in front of the caption was removed"

# What a server without the model's reasoning parser leaves: DeepSeek's and Qwen's tags (their chat
# templates open the first tag themselves), Seed's, OpenThinker's, Magistral's, Kimi's, Gemma's, and
# OpenAI's Harmony format with and without its special tokens. Reasoning may quote its own mark, so
# the last one ends it.
_REASONING = re.compile(
    r"<(?P<tag>(?:seed:)?think|thinking|thought|reasoning)>.*</(?P=tag)>"
    r"|<\|begin_of_thought\|>.*<\|end_of_thought\|>"
    r"|\[THINK\].*\[/THINK\]"
    r"|◁think▷.*◁/think▷"
    r"|<\|channel>.*<channel\|>"
    r"|(?:<\|start\|>assistant)?<\|channel\|>analysis<\|message\|>.*"
    r"<\|channel\|>final ?(?:<\|constrain\|>\w+)?<\|message\|>"
    r"|analysis(?=[A-Z]).*assistantfinal"
    r"|(?:(?!<think|<thought|<reason).)*</think>",
    re.DOTALL,
)
# Any other mark of reasoning leaves open what is reasoning.
_MARK = re.compile(
    r"<[\s/|]{0,3}[\w:]{0,12}(?:think(?:ing)?|thought|reasoning|reflection|scratchpad|analysis)"
    r"\b[^<>]{0,200}>"
    r"|\[/?THINK\]|◁/?think▷|<\|?channel\|?>|\Aanalysis(?-i:(?=[A-Z]))",
    re.IGNORECASE,
)

# GLM's models put their answer between these.
_ANSWER = re.compile(
    r"<answer>(?P<tag>.*?)(?:</answer>)?|<\|begin_of_box\|>(?P<box>.*?)(?:<\|end_of_box\|>)?",
    re.DOTALL,
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


def caption_in(text: str) -> str:
    """Return the caption in a reply, without the reasoning that some servers leave in front of it.

    Raises `ReplyError` if there is nothing else, or if it is not clear where the reasoning ends.

    >>> caption_in("<think>A dog?</think> A dog runs.")
    'A dog runs.'
    >>> caption_in("<think>A dog?</think><answer>A dog runs.</answer>")
    'A dog runs.'
    """
    caption = after_thinking(text)
    if caption is None:
        raise ReplyError("it is not clear where the reasoning ends and the caption begins")
    if text.strip() and not caption.strip():
        raise ReplyError("the reply has reasoning and no caption")
    caption = caption.strip()
    if answer := _ANSWER.fullmatch(caption):
        return str(answer["tag"] or answer["box"] or "").strip()
    return caption


def has_reasoning(text: str) -> bool:
    """Return whether `caption_in` removes reasoning, even if empty, from a reply."""
    return after_thinking(text) != text.lstrip()
