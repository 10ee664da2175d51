"""`python -m benchmarks.calibrating`: print the coverage table of docs/trusting.md.

Simulated studies of 1,000 judged videos, of which some are labelled, in worlds where captions are
usual, strong, or strong but for a few that fail altogether.
"""

from __future__ import annotations

import numpy as np

from capeval.stats.calibration import Ends, calibrate
from tests.stats.calibration_worlds import POOL, STRONG, VIDEOS, Floats, world

__all__ = ["main"]

_STUDIES = 5_000
_LABELLED = (20, 40, 100)
_WORLDS: dict[str, dict[str, float]] = {
    "usual captions": {},
    "strong captions": {"level": STRONG},
    "strong, 2% fail": {"level": STRONG, "failing": 0.02},
    "strong, 5% fail": {"level": STRONG, "failing": 0.05},
    "strong, 8% fail": {"level": STRONG, "failing": 0.08},
}


def main() -> None:
    """Print coverage, of the labels alone in brackets, and the mean of the ratios of widths."""
    head = [f"{name}, {n} labels" for n in _LABELLED for name in ("F1", "precision", "recall")]
    print(f"| captions | {' | '.join(head)} |\n|{' --- |' * (len(head) + 1)}")
    for name, options in _WORLDS.items():
        measures = world(**options)
        cells = [
            _row(*measures[measure], labelled)
            for labelled in _LABELLED
            for measure in ("f1", "precision", "recall")
        ]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def _row(judge: Floats, human: Floats, labelled: int) -> str:
    rng = np.random.default_rng(labelled)
    truth = float(human.mean())
    covered, alone, ratios = [], [], []
    for _ in range(_STUDIES):
        pool = rng.integers(0, VIDEOS, POOL)
        labels = np.full(POOL, np.nan)
        labels[:labelled] = human[pool[:labelled]]
        found = calibrate(judge[pool], labels)
        if found.interval and found.alone_interval:
            covered.append(_holds(found.interval, truth))
            alone.append(_holds(found.alone_interval, truth))
            ratios.append(np.ptp(found.interval) / np.ptp(found.alone_interval))
    return (
        f"{100 * np.mean(covered):.1f}% ({100 * np.mean(alone):.1f}%) "
        f"x{np.mean(ratios):.2f}, at most x{np.max(ratios):.2f}"
    )


def _holds(interval: Ends, truth: float) -> bool:
    return interval is not None and interval[0] <= truth <= interval[1]


if __name__ == "__main__":
    main()
