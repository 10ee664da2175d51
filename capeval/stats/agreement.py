"""How well two sets of labels agree: closed forms on a confusion matrix."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["accuracy", "cohen_kappa", "confusion_matrix", "macro_f1"]


def confusion_matrix(
    truth: Sequence[Hashable], given: Sequence[Hashable], labels: Sequence[Hashable]
) -> NDArray[np.int64]:
    """Return the (labels, labels) counts: rows are `truth`, columns are `given`.

    Raises
    ------
    ValueError
        The sequences differ in length or hold an unknown label.

    >>> confusion_matrix(["a", "b", "b"], ["a", "a", "b"], ["a", "b"]).tolist()
    [[1, 0], [1, 1]]
    """
    place = {label: number for number, label in enumerate(labels)}
    unknown = {*truth, *given} - place.keys()
    if unknown:
        raise ValueError(f"unknown labels: {sorted(map(str, unknown))}")
    matrix = np.zeros((len(labels), len(labels)), dtype=np.int64)
    for true, guess in zip(truth, given, strict=True):
        matrix[place[true], place[guess]] += 1
    return matrix


def accuracy(matrix: NDArray[np.int64]) -> float:
    """Return the share on the diagonal; NaN without labels.

    >>> accuracy(np.array([[1, 0], [1, 2]]))
    0.75
    """
    total = matrix.sum()
    return float(np.trace(matrix) / total) if total else float("nan")


def macro_f1(matrix: NDArray[np.int64]) -> float:
    """Return the mean over classes of F1; a class that neither side has is left out.

    >>> macro_f1(np.array([[2, 0], [0, 2]]))
    1.0
    """
    sizes = matrix.sum(axis=0) + matrix.sum(axis=1)
    if not sizes.any():
        return float("nan")
    present = sizes > 0
    return float((2 * np.diag(matrix)[present] / sizes[present]).mean())


def cohen_kappa(matrix: NDArray[np.int64]) -> float:
    """Return agreement beyond chance (Cohen, 1960); NaN where chance already agrees fully.

    >>> round(cohen_kappa(np.array([[20, 5], [10, 15]])), 12)
    0.4
    """
    total = matrix.sum()
    if not total:
        return float("nan")
    expected = float((matrix.sum(axis=0) * matrix.sum(axis=1)).sum()) / float(total) ** 2
    if expected == 1.0:
        return float("nan")
    return (accuracy(matrix) - expected) / (1 - expected)
