"""How well two sets of labels agree: closed forms on a confusion matrix.

Kappa and AC1 belong together: where one label is far more common than the others, kappa can be
near 0 for raters that agree on nearly everything (Feinstein and Cicchetti, 1990), and AC1 is not
moved by that. All forms take whole or weighted counts.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capeval.stats.percentiles import percentiles
from capeval.stats.resampling import FEWEST, draw_counts, too_few
from capeval.stats.values import Floats, Interval, Ints, Mask, Missing, Value, known

Coefficient = Literal["accuracy", "macro_f1", "kappa", "ac1", "brennan_prediger", "alpha"]
COEFFICIENTS: tuple[Coefficient, ...] = (
    "accuracy",
    "macro_f1",
    "kappa",
    "ac1",
    "brennan_prediger",
    "alpha",
)


def confusion_matrix(
    truth: Sequence[Hashable],
    given: Sequence[Hashable],
    labels: Sequence[Hashable],
    *,
    weights: ArrayLike | None = None,
) -> Floats:
    """Return the (labels, labels) counts: rows are `truth`, columns are `given`.

    Parameters
    ----------
    truth, given : (n,) labels
    labels : all that there can be
    weights : (n,), what each counts; 1 without

    Raises
    ------
    ValueError
        The sequences differ in length or hold an unknown label.

    >>> confusion_matrix(["a", "b", "b"], ["a", "a", "b"], ["a", "b"]).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    >>> confusion_matrix(["a", "b"], ["a", "a"], ["a", "b"], weights=[3, 1]).tolist()
    [[3.0, 0.0], [1.0, 0.0]]
    """
    zeros = np.zeros(len(truth), dtype=np.int64)
    by_video = confusion_by_video(truth, given, labels, zeros, weights=weights)
    return np.asarray(by_video.sum(axis=0))


def confusion_by_video(
    truth: Sequence[Hashable],
    given: Sequence[Hashable],
    labels: Sequence[Hashable],
    video: Ints,
    *,
    weights: ArrayLike | None = None,
) -> Floats:
    """Return a confusion matrix for each video: (videos, labels, labels).

    Their sum is the whole matrix, and resamples of videos are weighted sums of them.

    Parameters
    ----------
    truth, given : (n,) labels
    labels : all that there can be
    video : (n,), integers from 0
    weights : (n,), what each counts; 1 without

    Raises
    ------
    ValueError
        The lengths differ, a label is unknown, or a weight is negative or not finite.

    >>> confusion_by_video("ab", "aa", "ab", np.array([0, 1])).tolist()
    [[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]]]
    """
    place = {label: number for number, label in enumerate(labels)}
    unknown = {*truth, *given} - place.keys()
    if unknown:
        raise ValueError(f"unknown labels: {sorted(map(str, unknown))}")
    if not len(truth) == len(given) == len(video):
        raise ValueError(f"{len(truth)} true labels, {len(given)} given, {len(video)} videos")
    weight = np.ones(len(truth)) if weights is None else np.asarray(weights, dtype=np.float64)
    if weight.shape != (len(truth),) or not (np.isfinite(weight) & (weight >= 0)).all():
        raise ValueError("a finite weight, not below 0, for each label")
    rows = np.array([place[label] for label in truth], dtype=np.int64)
    columns = np.array([place[label] for label in given], dtype=np.int64)
    k = len(labels)
    videos = int(video.max(initial=-1)) + 1
    cells = (video * k + rows) * k + columns
    counts = np.bincount(cells, weights=weight, minlength=videos * k * k).astype(np.float64)
    return counts.reshape(videos, k, k)


@dataclass(frozen=True, slots=True)
class ClassScores:
    """How well one class is found: `support` is its (weighted) count in the truth."""

    precision: Value
    recall: Value
    f1: Value
    support: float


def class_scores(matrix: ArrayLike) -> list[ClassScores]:
    """Return precision, recall and F1 of every class of a confusion matrix.

    Parameters
    ----------
    matrix : (labels, labels), rows the truth; whole or weighted counts

    >>> [found.recall for found in class_scores(np.array([[3, 1], [0, 2]]))]
    [0.75, 1.0]
    """
    counts = np.asarray(matrix, dtype=np.float64)
    hit, true, given = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
    with np.errstate(invalid="ignore"):
        precision, recall, f1 = hit / given, hit / true, 2 * hit / (true + given)
    return [
        ClassScores(
            known(precision[n], "the class was never given"),
            known(recall[n], "the class is not in the truth"),
            known(f1[n], "neither side has the class"),
            float(true[n]),
        )
        for n in range(len(counts))
    ]


def coefficients(matrix: ArrayLike) -> dict[Coefficient, Value]:
    """Return all coefficients of a confusion matrix.

    The share on the diagonal; the mean over classes that there are of F1; agreement beyond chance
    by Cohen's kappa (1960), by Gwet's AC1 (2008), of which the number of classes is that of the
    matrix, and by Brennan and Prediger (1981; PABAK for two classes); Krippendorff's alpha as of
    two raters, nominal.

    >>> coefficients(np.array([[4, 0], [0, 0]]))["kappa"]
    Missing(reason='both sides give one class only')
    """
    if not np.asarray(matrix).sum():
        return dict.fromkeys(COEFFICIENTS, Missing("there are no labels"))
    return {
        name: known(float(value), "both sides give one class only")
        for name, value in _all(np.asarray(matrix)).items()
    }


def coefficient_intervals(
    matrices: Floats, *, draws: int = 10_000, seed: int = 0
) -> dict[Coefficient, Interval | Missing]:
    """Return percentile bootstrap intervals of all coefficients, over whole videos.

    Parameters
    ----------
    matrices : (videos, labels, labels), as of `confusion_by_video`
    draws : number of resamples
    seed : of `numpy.random.default_rng`

    >>> matrices = np.array([[[3.0, 1], [0, 2]], [[1, 0], [1, 3]], [[2, 0], [0, 2]]] * 2)
    >>> coefficient_intervals(matrices, draws=500)["accuracy"]
    Interval(low=0.8125, high=0.9450714285714279, method='bootstrap')
    """
    videos, k, _ = matrices.shape
    if videos < FEWEST:
        return dict.fromkeys(COEFFICIENTS, too_few(videos))
    flat = matrices.reshape(videos, k * k)
    rng = np.random.default_rng(seed)
    sums = [counts @ flat for counts in draw_counts(videos, draws, rng)]
    found = _all(np.concatenate(sums).reshape(draws, k, k))
    return {name: percentiles(values) for name, values in found.items()}


def _all(matrices: NDArray[Any]) -> dict[Coefficient, Floats]:
    """Return every coefficient of (..., k, k) matrices, each (...), NaN where there is none."""
    counts = np.asarray(matrices, dtype=np.float64)
    k = counts.shape[-1]
    total = counts.sum(axis=(-2, -1))
    hit = np.diagonal(counts, axis1=-2, axis2=-1)
    true, given = counts.sum(axis=-1), counts.sum(axis=-2)
    with np.errstate(invalid="ignore", divide="ignore"):
        agreed = hit.sum(axis=-1) / total
        by_margins = (true * given).sum(axis=-1) / total**2
        share = (true + given) / (2 * total[..., None])
        by_share = (share**2).sum(axis=-1)
        by_rest = (share * (1 - share)).sum(axis=-1) / (k - 1)
        f1 = 2 * hit / (true + given)
        there = true + given > 0
        macro = np.where(there, f1, 0.0).sum(axis=-1) / there.sum(axis=-1)
        # Two raters: the observed pairs are drawn from twice as many values less one each.
        disagreed = (1 - by_share) * (2 * total) / (2 * total - 1)
        alpha = 1 - (1 - agreed) / disagreed
        result: dict[Coefficient, Floats] = {
            "accuracy": agreed,
            "macro_f1": macro,
            "kappa": _beyond(agreed, by_margins),
            "ac1": _beyond(agreed, by_rest),
            "brennan_prediger": _beyond(agreed, np.full_like(agreed, 1 / k)),
            "alpha": np.where(disagreed > 0, alpha, np.nan),
        }
    return result


def _beyond(agreed: Floats, chance: Floats) -> Floats:
    return np.where(chance < 1, (agreed - chance) / (1 - chance), np.nan)


Level = Literal["nominal", "interval"]


def krippendorff_alpha(ratings: ArrayLike, level: Level = "nominal") -> Value:
    """Return Krippendorff's alpha (2011) of any number of raters, with gaps.

    Closed forms on counts: no pairs are formed. A unit that fewer than two rated is left out.

    Parameters
    ----------
    ratings : (raters, units), NaN where a rater gave none; for nominal, codes of the labels
    level : "interval" for numbers on a scale, "nominal" for labels

    Returns
    -------
    1 for full agreement, 0 for chance; `Missing` where no two ratings meet or all are equal.

    Raises
    ------
    ValueError
        `ratings` has not two dimensions or holds an infinity.

    >>> gap = float("nan")
    >>> krippendorff_alpha([[1, 2, 3, gap], [1, 2, 3, 4]], "interval")
    1.0
    """
    parts, reason, _ = _alpha_parts(ratings, level)
    return Missing(reason) if reason else float(_alpha(parts.sum(axis=1)[:, None], level)[0])


def alpha_interval(
    ratings: ArrayLike,
    video: Ints,
    level: Level = "nominal",
    *,
    draws: int = 10_000,
    seed: int = 0,
) -> Interval | Missing:
    """Return the expanded percentile interval of Krippendorff's alpha, over whole videos.

    Parameters
    ----------
    ratings, level : as for `krippendorff_alpha`
    video : (units,), the video of each unit: integers from 0
    draws : number of resamples
    seed : of `numpy.random.default_rng`

    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(0, 3, 60)
    >>> ratings = np.where(rng.random((2, 60)) < 0.8, truth, rng.integers(0, 3, (2, 60)))
    >>> found = alpha_interval(ratings, np.arange(60) // 3, draws=500)
    >>> round(found.low, 2), round(found.high, 2)
    (0.27, 0.55)
    """
    parts, reason, paired = _alpha_parts(ratings, level)
    if reason:
        return Missing(reason)
    names, units = np.unique(video[paired], return_inverse=True)
    if len(names) < FEWEST:
        return too_few(len(names))
    by_video = np.zeros((len(names), len(parts)))
    np.add.at(by_video, units, parts.T)
    drawn = draw_counts(len(names), draws, np.random.default_rng(seed))
    values = np.concatenate([_alpha((counts @ by_video).T, level) for counts in drawn])
    value = float(_alpha(parts.sum(axis=1)[:, None], level)[0])
    return percentiles(values, units=len(names), around=value)


def _alpha_parts(ratings: ArrayLike, level: Level) -> tuple[Floats, str, Mask]:
    """Return the (sums, units) that alpha is made of, or why there is none, and the units used.

    The sums are the number of ratings and the observed disagreement; then those of each label, or
    of values and their squares.
    """
    values = np.asarray(ratings, dtype=np.float64)
    if values.ndim != 2 or np.isinf(values).any():
        raise ValueError("(raters, units) of finite numbers, NaN where there is none")
    there = ~np.isnan(values)
    paired = there.sum(axis=0) >= 2
    values, there = values[:, paired], there[:, paired]
    if not values.size:
        return np.empty((0, 0)), "no unit has two ratings", paired
    if np.ptp(values[there]) == 0:
        return np.empty((0, 0)), "all ratings are equal", paired
    size = there.sum(axis=0).astype(np.float64)
    if level == "nominal":
        given, codes = np.unique(values[there], return_inverse=True)
        unit = np.broadcast_to(np.arange(values.shape[1]), values.shape)[there]
        cells = np.bincount(codes * values.shape[1] + unit, minlength=len(given) * len(size))
        sums = cells.reshape(len(given), len(size)).astype(np.float64)
        differ = size**2 - (sums**2).sum(axis=0)
    else:
        # Sums of squared differences of all pairs: n sum v^2 - (sum v)^2, on centred values.
        centred = np.where(there, values - values[there].mean(), 0.0)
        sums = np.stack([centred.sum(axis=0), (centred**2).sum(axis=0)])
        differ = 2 * (size * sums[1] - sums[0] ** 2)
    return np.vstack([size, differ / (size - 1), sums]), "", paired


def _alpha(sums: Floats, level: Level) -> Floats:
    """Return alpha of (sums, samples); NaN where all ratings are equal."""
    total, observed = sums[:2]
    if level == "nominal":
        expected = total**2 - (sums[2:] ** 2).sum(axis=0)
    else:
        expected = 2 * (total * sums[3] - sums[2] ** 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = 1 - (total - 1) * observed / expected
    return np.asarray(np.where(expected > 0, found, np.nan))
