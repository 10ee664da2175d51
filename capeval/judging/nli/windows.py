"""Pairs of premise and hypothesis as a model reads them; a long premise in several windows.

No text is cut off. A premise that does not fit beside its hypothesis is read in windows, of which
each begins in the middle of the one before: whatever is shorter than half a window is whole in at
least one. `combined` says what the windows mean together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capeval.errors import JudgeError
from capeval.schema import Relation

RULE = "half overlap, any entailment"
"""Names the rule of this module, in a judge's identity."""

# A caption with more windows is far longer than any description: with 512 tokens a window these are
# 12,000 words. Every window is read again for each element.
_MOST_WINDOWS = 64

Encoded = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Pair:
    """One event's text and one element, and the windows in which a model reads them."""

    place: str
    windows: tuple[Encoded, ...]


def encode(
    tokenizer: Any, premise: str, hypotheses: Sequence[tuple[str, str]], limit: int
) -> list[Pair]:
    """Return the windows of a premise with each hypothesis, which comes with its place in words.

    A premise without any token has no window: it says nothing. Raises `JudgeError` where a
    hypothesis has no token or takes more than half of what the model reads, or a premise needs too
    many windows.
    """
    room = limit - tokenizer.num_special_tokens_to_add(pair=True)
    texts = [premise, *(text for _, text in hypotheses)]
    alone = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
    length, *others = [len(ids) for ids in alone]
    pairs = []
    for (place, text), own in zip(hypotheses, others, strict=True):
        if not own:
            raise JudgeError(f"element {place} has nothing that the model has tokens for")
        if not length:
            pairs.append(Pair(place, ()))
            continue
        left = room - own
        if left < room - room // 2:
            raise JudgeError(
                f"element {place} has {own} tokens, more than half of the {room} that the model "
                "reads at a time"
            )
        overlap = left // 2
        count = 1 + max(0, math.ceil((length - left) / (left - overlap)))
        if count > _MOST_WINDOWS:
            raise JudgeError(
                f"the events matched to one reference event have {length} tokens: they need "
                f"{count} windows, more than {_MOST_WINDOWS}"
            )
        pairs.append(Pair(place, _windows(tokenizer, premise, text, limit, overlap)))
    return pairs


def _windows(
    tokenizer: Any, premise: str, hypothesis: str, limit: int, overlap: int
) -> tuple[Encoded, ...]:
    read = tokenizer(
        premise,
        hypothesis,
        truncation="only_first",
        max_length=limit,
        stride=overlap,
        return_overflowing_tokens=True,
        verbose=False,
    )
    names = [name for name in read if name != "overflow_to_sample_mapping"]
    count = len(read["input_ids"])
    return tuple({name: read[name][at] for name in names} for at in range(count))


def combined(windows: Sequence[Relation]) -> Relation:
    """Return the relation of an element to a premise from its relations to the windows.

    What one window states, the caption states: one entailment is enough. A contradiction counts
    only if no window entails the element: a part of a text can seem to contradict what another part
    states ("he sits down … he stands up"). Windows that say nothing about it do not count.

    >>> combined(["lack", "contradiction", "entailment"]), combined(["lack", "contradiction"])
    ('entailment', 'contradiction')
    """
    if "entailment" in windows:
        return "entailment"
    return "contradiction" if "contradiction" in windows else "lack"
