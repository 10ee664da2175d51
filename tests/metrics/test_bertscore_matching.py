"""Greedy matching and weights, compared with sums written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from capeval.metrics.bertscore_matching import (
    EmbeddedText,
    Matched,
    best,
    equal_weights,
    idf_weights,
    match,
)


def by_hand(candidate: EmbeddedText, reference: EmbeddedText) -> tuple[float, float]:
    """Precision and recall, token by token."""
    texts = []
    for one, other in ((candidate, reference), (reference, candidate)):
        total = 0.0
        for vector, weight in zip(one.embeddings.tolist(), one.weights.tolist(), strict=True):
            cosines = [np.dot(vector, token) for token in other.embeddings.tolist()]
            total += weight * max(cosines)
        texts.append(total / one.weights.sum().item())
    return texts[0], texts[1]


def text(seed: int, tokens: int) -> EmbeddedText:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(tokens, 6))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    weights = rng.integers(0, 3, tokens).astype(float)
    weights[0] = 1
    return EmbeddedText(
        torch.tensor(vectors, dtype=torch.float32), torch.tensor(weights, dtype=torch.float32)
    )


@given(seed=st.integers(0, 2**32 - 1), sizes=st.tuples(st.integers(1, 9), st.integers(1, 9)))
def test_matching_equals_a_sum_over_tokens(seed: int, sizes: tuple[int, int]) -> None:
    candidate, reference = text(seed, sizes[0]), text(seed + 1, sizes[1])
    found = match(candidate, reference)
    precision, recall = by_hand(candidate, reference)
    assert found.precision == pytest.approx(precision, abs=1e-6)
    assert found.recall == pytest.approx(recall, abs=1e-6)
    swapped = match(reference, candidate)
    assert (swapped.recall, swapped.precision) == pytest.approx((precision, recall), abs=1e-6)


def test_a_token_of_weight_0_is_matched_and_does_not_count() -> None:
    e = torch.eye(3)
    candidate = EmbeddedText(e[[0, 1]], torch.tensor([0.0, 1.0]))
    reference = EmbeddedText(e[[0, 2]], torch.tensor([1.0, 1.0]))
    assert match(candidate, reference) == Matched(precision=0.0, recall=0.5)


def test_all_similarities_may_be_negative() -> None:
    one = EmbeddedText(torch.tensor([[1.0, 0.0]]), torch.ones(1))
    other = EmbeddedText(torch.tensor([[-1.0, 0.0]]), torch.ones(1))
    assert match(one, other).precision == -1.0


def test_a_text_without_weight_has_no_mean() -> None:
    one = EmbeddedText(torch.eye(2), torch.zeros(2))
    other = EmbeddedText(torch.eye(2), torch.ones(2))
    found = match(one, other)
    assert (found.precision, found.recall, found.f1) == (None, 1.0, None)


def test_precision_and_recall_that_cancel_out_have_f1_0() -> None:
    assert Matched(0.5, -0.5).f1 == 0.0
    assert Matched(0.0, 0.0).f1 == 0.0


def test_of_several_references_each_measure_has_its_own_best() -> None:
    matches = [Matched(0.9, 0.3), Matched(0.4, 0.8), Matched(None, 1.0)]
    precision, recall, f1 = best(matches)
    assert (precision, recall) == (0.9, 1.0)
    assert f1 == pytest.approx(2 * 0.4 * 0.8 / 1.2)
    assert best([]) == (None, None, None)


def test_delimiters_count_nothing() -> None:
    assert equal_weights({0, 2}).of([0, 5, 5, 2]) == [0.0, 1.0, 1.0, 0.0]


def test_idf_counts_texts_not_tokens() -> None:
    weights = idf_weights([[0, 5, 5, 9], [0, 5, 9], [0, 7, 9]])
    assert weights.of([0, 9]) == [0.0, 0.0]
    assert weights.of([5, 7, 8]) == pytest.approx([math.log(4 / 3), math.log(4 / 2), math.log(4)])
