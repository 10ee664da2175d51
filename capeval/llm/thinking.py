"""Recognise the reasoning that a model writes in front of its reply, by the marks around it."""

from __future__ import annotations

import html
import re

from capeval.text import plain

_NAMES = "think(?:ing)?|thoughts?|reason(?:ing)?|reflection|scratchpad|analysis"
# <think>, <|begin_of_thought|>, <seed:think>, <antThinking>, [THINK], ◁think▷; Gemma 4's
# <|channel>thought and <channel|>; and the headers of OpenAI's Harmony format, also as servers
# leave them that drop its special tokens.
_MARK = re.compile(
    rf"<\|?\s*+(?P<tag_end>/|end_of_)?(?:begin_of_)?(?:\w{{1,12}}:|ant)?(?P<tag>{_NAMES})"
    r"(?:[\s/][^<>]{0,200})?\|?>"
    r"|\[(?P<box_end>/)?(?P<box>think(?:ing)?)\]"
    r"|◁(?P<arrow_end>/)?(?P<arrow>think(?:ing)?)▷"
    r"|<\|channel>|(?P<half_end><channel\|>)"
    r"|(?:<\|start\|>\s*+assistant\s*+)?<\|channel\|>\s*+"
    r"(?:(?P<final>final)|(?P<channel>analysis|commentary))(?:[^<]{0,40}(?:<\|constrain\|>\s*+\w+\s*+)?"
    r"<\|message\|>)?"
    r"|(?-i:(?P<bare>\Aanalysis(?=[^\s:.,;-]))|(?P<bare_final>assistantfinal))",
    re.IGNORECASE,
)


# Characters searched for disguised marks; reasoning comes first.
_SEARCHED = 20_000


def after_thinking(text: str) -> str | None:
    """Return what follows the reasoning in front of a reply; None if its end is not clear.

    Reasoning ends with the last closing mark of its kind, because a thought may quote one. Chat
    templates often open it themselves, so that only its end is in the reply. The end is not clear
    if reasoning is never closed, begins after other text, or has marks that are disguised.

    >>> after_thinking("<think>A dog?</think> A dog runs."), after_thinking("A dog? </think>A dog.")
    ('A dog runs.', 'A dog.')
    >>> after_thinking("A dog runs."), after_thinking("Well. <think>A dog")
    ('A dog runs.', None)
    """
    text = text.lstrip()
    end, depth, opened, closed = 0, 0, "", ""
    for mark in _MARK.finditer(text):
        kind, closes = _kind(mark)
        if depth:
            # Marks of other kinds are part of the thought.
            depth += (-1 if closes else 1) if kind == opened else 0
            end, closed = (end, closed) if depth else (mark.end(), kind)
        elif closes and kind == "bare":
            continue  # an ordinary word if no such reasoning was opened
        elif closes:
            # Two final messages would be two replies.
            if closed and (closed != kind or kind == "channel"):
                return None
            end, closed = mark.end(), kind
        elif text[end : mark.start()].strip():
            return None
        else:
            depth, opened = 1, kind
    rest = text[end:].lstrip()
    if depth or _MARK.search(html.unescape(plain(rest[:_SEARCHED]))):
        return None
    return rest


def _kind(mark: re.Match[str]) -> tuple[str, bool]:
    """Return what kind of reasoning a mark belongs to, and whether it closes it."""
    for kind in ("tag", "box", "arrow"):
        if name := mark[kind]:
            return f"{kind} {name.lower()}", mark[f"{kind}_end"] is not None
    if mark["bare"] or mark["bare_final"]:
        return "bare", mark["bare"] is None
    if mark["final"] or mark["channel"]:
        return "channel", mark["final"] is not None
    return "half", mark["half_end"] is not None
