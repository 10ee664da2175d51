"""The definition of BERTScore: greedy matching of tokens by the cosine of their embeddings.

Zhang et al., "BERTScore: Evaluating Text Generation with BERT", ICLR 2020. Equal to the package
bert-score 0.3.13, except where that has no number or one that depends on padding.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

Values = tuple[float | None, float | None, float | None]
"""Precision, recall and F1; None where all weights of a text are 0, which is no mean."""


def equal_weights(delimiters: Collection[int]) -> Mapping[int, float]:
    """Weigh all tokens alike; those that begin and end a text ([CLS], [SEP]) count nothing.

    >>> weights = equal_weights({101, 102})
    >>> weights[101], weights[7592]
    (0.0, 1.0)
    """
    return defaultdict(lambda: 1.0, dict.fromkeys(delimiters, 0.0))


def idf_weights(references: Sequence[Iterable[int]]) -> Mapping[int, float]:
    """Weigh tokens by inverse document frequency, -log of (c + 1) / (N + 1).

    `references` are N texts as tokens, and c of them have the token. A token that all have, as they
    have [CLS] and [SEP], counts nothing.

    >>> weights = idf_weights([[101, 7, 102], [101, 8, 8, 102]])
    >>> [round(weights[token], 3) for token in [101, 7, 9]]
    [0.0, 0.405, 1.099]
    """
    texts = Counter(token for ids in references for token in set(ids))
    total = len(references) + 1
    listed = {token: math.log(total / (count + 1)) for token, count in texts.items()}
    return defaultdict(lambda: math.log(total), listed)


def match(
    candidate: torch.Tensor,
    reference: torch.Tensor,
    candidate_weights: torch.Tensor,
    reference_weights: torch.Tensor,
) -> Values:
    """Match each token with the most similar one of the other text; return the weighted means.

    Texts are tokens x dimensions, of length 1. A token of weight 0 enters no mean, but others may
    match it, as the authors' code has it.

    >>> import torch
    >>> a, b = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[0.6, 0.8]])
    >>> [round(value, 3) for value in match(a, b, torch.ones(2), torch.ones(1))]
    [0.7, 0.8, 0.747]
    """
    similarity = candidate @ reference.T
    precision = _weighted_mean(similarity.amax(dim=1), candidate_weights)
    recall = _weighted_mean(similarity.amax(dim=0), reference_weights)
    if precision is None or recall is None:
        return precision, recall, None
    total = precision + recall
    # Precision and recall may cancel out.
    return precision, recall, 2 * precision * recall / total if total else 0.0


def _weighted_mean(values: torch.Tensor, weights: torch.Tensor) -> float | None:
    total = weights.sum()
    return float((values * (weights / total)).sum()) if float(total) > 0 else None


def best(matches: Sequence[Values]) -> Values:
    """Return precision, recall and F1 with several references: of each the highest, as upstream."""
    precision, recall, f1 = (
        max((one[n] for one in matches if one[n] is not None), default=None)  # type: ignore[type-var]
        for n in range(3)
    )
    return precision, recall, f1
