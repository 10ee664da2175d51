"""Greedy matching and weights, compared with sums written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from capeval.metrics.bertscore_matching import best, equal_weights, idf_weights, match

Text = tuple[torch.Tensor, torch.Tensor]


def matched(candidate: Text, reference: Text) -> tuple[float | None, ...]:
    return match(candidate[0], reference[0], candidate[1], reference[1])


def by_hand(candidate: Text, reference: Text) -> tuple[float, float]:
    """Precision and recall, token by token."""
    texts = []
    for (vectors, weights), (others, _) in ((candidate, reference), (reference, candidate)):
        total = 0.0
        for vector, weight in zip(vectors.tolist(), weights.tolist(), strict=True):
            total += weight * max(np.dot(vector, token) for token in others.tolist())
        texts.append(total / weights.sum().item())
    return texts[0], texts[1]


def text(seed: int, tokens: int) -> Text:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(tokens, 6))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    weights = rng.integers(0, 3, tokens).astype(float)
    weights[0] = 1
    return (
        torch.tensor(vectors, dtype=torch.float32),
        torch.tensor(weights, dtype=torch.float32),
    )


@given(seed=st.integers(0, 2**32 - 1), sizes=st.tuples(st.integers(1, 9), st.integers(1, 9)))
def test_matching_equals_a_sum_over_tokens(seed: int, sizes: tuple[int, int]) -> None:
    candidate, reference = text(seed, sizes[0]), text(seed + 1, sizes[1])
    found = matched(candidate, reference)
    assert found[:2] == pytest.approx(by_hand(candidate, reference), abs=1e-6)
    assert matched(reference, candidate)[:2] == pytest.approx(found[1::-1], abs=1e-6)


def test_a_token_of_weight_0_is_matched_and_does_not_count() -> None:
    e = torch.eye(3)
    candidate = (e[[0, 1]], torch.tensor([0.0, 1.0]))
    reference = (e[[0, 2]], torch.tensor([1.0, 1.0]))
    assert matched(candidate, reference) == (0.0, 0.5, 0.0)


def test_similarities_may_be_negative_and_cancel_out() -> None:
    one, other = torch.tensor([[1.0, 0.0]]), torch.tensor([[-1.0, 0.0], [1.0, 0.0]])
    assert matched((one, torch.ones(1)), (other[:1], torch.ones(1)))[0] == -1.0
    assert matched((one, torch.ones(1)), (other, torch.tensor([1.0, 0.0]))) == (1.0, -1.0, 0.0)


def test_a_text_without_weight_has_no_mean() -> None:
    texts = ((torch.eye(2), torch.zeros(2)), (torch.eye(2), torch.ones(2)))
    assert matched(*texts) == (None, 1.0, None)


def test_of_several_references_each_measure_has_its_own_best() -> None:
    assert best([(0.9, 0.3, 0.45), (0.4, 0.8, 0.53), (None, 1.0, None)]) == (0.9, 1.0, 0.53)
    assert best([]) == (None, None, None)


def test_idf_counts_texts_not_tokens() -> None:
    weights = idf_weights([[0, 5, 5, 9], [0, 5, 9], [0, 7, 9]])
    assert [weights[token] for token in (0, 9)] == [0.0, 0.0]
    expected = [math.log(4 / 3), math.log(4 / 2), math.log(4)]
    assert [weights[token] for token in (5, 7, 8)] == pytest.approx(expected)
    plain = equal_weights({0, 2})
    assert [plain[token] for token in (0, 5, 2)] == [0.0, 1.0, 0.0]
