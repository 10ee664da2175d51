"""The definition of BERTScore: greedy matching of tokens by the cosine of their embeddings.

Zhang et al., "BERTScore: Evaluating Text Generation with BERT", ICLR 2020. Equal to the package
bert-score 0.3.13, except where that has no number or one that depends on padding.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class TokenWeights:
    """How much each token of the vocabulary counts; one that is not listed counts `default`."""

    default: float
    listed: Mapping[int, float] = field(default_factory=dict)

    def of(self, ids: Iterable[int]) -> list[float]:
        """Return the weights of tokens."""
        return [self.listed.get(token, self.default) for token in ids]


def equal_weights(delimiters: Collection[int]) -> TokenWeights:
    """Weigh all tokens alike; those that begin and end a text ([CLS], [SEP]) count nothing.

    >>> equal_weights({101, 102}).of([101, 7592, 102])
    [0.0, 1.0, 0.0]
    """
    return TokenWeights(1.0, dict.fromkeys(delimiters, 0.0))


def idf_weights(references: Sequence[Iterable[int]]) -> TokenWeights:
    """Weigh tokens by inverse document frequency, -log of (c + 1) / (N + 1).

    `references` are N texts as tokens, and c of them have the token. A token that all have, as they
    have [CLS] and [SEP], counts nothing.

    >>> weights = idf_weights([[101, 7, 102], [101, 8, 8, 102]])
    >>> [round(weight, 3) for weight in weights.of([101, 7, 9])]
    [0.0, 0.405, 1.099]
    """
    texts = Counter(token for ids in references for token in set(ids))
    total = len(references) + 1
    listed = {token: math.log(total / (count + 1)) for token, count in texts.items()}
    return TokenWeights(math.log(total), listed)


@dataclass(frozen=True)
class EmbeddedText:
    """A text as the model sees it.

    Attributes
    ----------
    embeddings : tokens x dimensions, of length 1; [CLS] and [SEP] are among the tokens
    weights : one for each token
    """

    embeddings: torch.Tensor
    weights: torch.Tensor


@dataclass(frozen=True)
class Matched:
    """Precision, recall and F1; None where all weights of a text are 0, which is no mean."""

    precision: float | None
    recall: float | None

    @property
    def f1(self) -> float | None:
        """The harmonic mean, 0 where precision and recall cancel out."""
        if self.precision is None or self.recall is None:
            return None
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def match(candidate: EmbeddedText, reference: EmbeddedText) -> Matched:
    """Match each token with the most similar one of the other text; return the weighted means.

    A token of weight 0 enters no mean, but others may match it, as the authors' code has it.

    >>> import torch
    >>> a = EmbeddedText(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([1.0, 1.0]))
    >>> b = EmbeddedText(torch.tensor([[0.6, 0.8]]), torch.tensor([1.0]))
    >>> found = match(a, b)
    >>> round(found.precision, 3), round(found.recall, 3), round(found.f1, 3)
    (0.7, 0.8, 0.747)
    """
    similarity = candidate.embeddings @ reference.embeddings.T
    return Matched(
        precision=_weighted_mean(similarity.amax(dim=1), candidate.weights),
        recall=_weighted_mean(similarity.amax(dim=0), reference.weights),
    )


def _weighted_mean(values: torch.Tensor, weights: torch.Tensor) -> float | None:
    total = weights.sum()
    return float((values * (weights / total)).sum()) if float(total) > 0 else None


def best(matches: Iterable[Matched]) -> tuple[float | None, float | None, float | None]:
    """Return precision, recall and F1 with several references: of each the highest, as upstream."""
    all_matches = [*matches]
    highest = (
        max((value for value in values if value is not None), default=None)
        for values in (
            [one.precision for one in all_matches],
            [one.recall for one in all_matches],
            [one.f1 for one in all_matches],
        )
    )
    precision, recall, f1 = highest
    return precision, recall, f1
