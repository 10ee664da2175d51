"""Videos as in TUNA-1K, with the labels of human raters and of a judge that confuses them.

A super-population of videos is made once. A study takes a pool of them at random, in which the
judge scores all videos and human raters label the first n: both are random samples.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from capeval.scoring.counts import MEASURES, measures

Floats = NDArray[np.float64]

VIDEOS = 60_000
POOL = 1_000

STRONG = 2.5
"""The level of captions that state nine elements in ten."""

# By type: how often elements are of it, and how readily captions state it.
_SHARE = (0.14, 0.18, 0.38, 0.30)
_STATED = (-0.6, 0.3, 0.0, -0.2)
_ENTAILED, _CONTRADICTED, _LACKING = range(3)
# P(judge's label | human label), and how much of it a type mixes with guessing.
_CONFUSION = np.array([[0.84, 0.03, 0.13], [0.22, 0.52, 0.26], [0.13, 0.06, 0.81]])
_GUESSING = (0.30, 0.05, 0.10, 0.15)


@cache
def world(*, level: float = 0.0, failing: float = 0.0) -> dict[str, tuple[Floats, Floats]]:
    """Return the judge's and the human scores of every video, (videos,) each, by measure.

    `level` raises the log odds that an element is stated; a share `failing` of the captions states
    none of theirs.
    """
    rng = np.random.default_rng(0)
    events = np.clip(rng.poisson(4.0, VIDEOS), 1, 12)
    sizes = np.clip(rng.poisson(4.25, events.sum()), 1, None)
    event = np.repeat(np.arange(len(sizes)), sizes)
    video = np.repeat(np.arange(VIDEOS), events)[event]
    kind = rng.choice(4, size=len(event), p=_SHARE)
    weight = rng.choice([1, 2, 3], size=len(event), p=[0.3, 0.4, 0.3])
    effect = rng.normal(0, 0.7, VIDEOS)[video] + rng.normal(0, 0.5, len(sizes))[event]
    stated = 1 / (1 + np.exp(-(level + np.array(_STATED)[kind] + effect)))
    chance = rng.random(len(event))
    human = np.where(chance < stated, 0, np.where(chance < stated + 0.16 - 0.1 * stated, 1, 2))
    failed = (rng.random(VIDEOS) < failing)[video]
    human = np.where(failed, rng.choice([1, 2], size=len(event), p=[0.3, 0.7]), human)
    mixed = np.array(_GUESSING)[kind] + rng.beta(1, 6, VIDEOS)[video]
    rows = np.cumsum(_CONFUSION, axis=1)[human]
    given = (rng.random(len(event))[:, None] > rows[:, :2]).sum(axis=1)
    guessed = rng.choice(3, size=len(event), p=[0.6, 0.1, 0.3])
    given = np.where(rng.random(len(event)) < mixed, guessed, given)
    judged, truth = _measured(video, weight, given), _measured(video, weight, human)
    return {name: (judged[:, m], truth[:, m]) for m, name in enumerate(MEASURES)}


def _measured(
    video: NDArray[np.int64], weight: NDArray[np.int64], label: NDArray[np.int64]
) -> Floats:
    counted = (label == _ENTAILED, label == _CONTRADICTED, label <= _LACKING)
    sums = [np.bincount(video, weights=weight * chosen, minlength=VIDEOS) for chosen in counted]
    return measures(np.stack(sums, axis=-1).astype(np.int64))
