"""Controls: what a metric must exceed to be worth its cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from capeval.metrics.protocol import CaptionMetric, Item, Outcome, Output, Scored
from capeval.text import words


def unigram_f1(candidate: Sequence[str], reference: Sequence[str]) -> float:
    """Return the F1 of the words that two texts share, each as often as both have it; 0 to 1.

    >>> unigram_f1(["a", "dog", "runs"], ["a", "dog"])
    0.8
    """
    shared = (Counter(candidate) & Counter(reference)).total()
    total = len(candidate) + len(reference)
    return 2 * shared / total if total else 0.0


class UnigramF1(CaptionMetric):
    """F1 of shared words; with several references the highest of them. An empty caption gets 0."""

    name = "unigram-f1"
    outputs = (Output("unigram-f1", control=True),)
    settings: Mapping[str, str] = {"version": "2", "words": "nfkc-casefold", "references": "max"}

    async def score_caption(self, item: Item) -> Outcome:
        """Return the F1."""
        candidate = words(item.caption)
        best = max(unigram_f1(candidate, words(text)) for text in item.references)
        return Scored({self.name: best})


class CaptionLength(CaptionMetric):
    """The number of words of the caption."""

    name = "length"
    outputs = (Output("length", unit="words", control=True),)
    uses_references = False
    settings: Mapping[str, str] = {"version": "2", "words": "nfkc-casefold"}

    async def score_caption(self, item: Item) -> Outcome:
        """Return the length."""
        return Scored({self.name: float(len(words(item.caption)))})
