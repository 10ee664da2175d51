"""`python -m benchmarks`: print the table of docs/benchmarks.md."""

from __future__ import annotations

import argparse
import tempfile
from itertools import chain
from pathlib import Path

from benchmarks import (
    against,
    answering,
    checking,
    comparing,
    correlation,
    decoding,
    generation,
    judging,
    mcq,
    metrics,
    reporting,
    rewards,
)


def main() -> None:
    """Measure and print; exit 0 whether or not the targets are met."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("--videos", type=int, default=1000)
    parser.add_argument("--files", type=int, default=10)
    parser.add_argument(
        "--part",
        choices=[
            *("judging", "decoding", "generation", "correlation", "comparing", "reporting"),
            *("checking", "mcq", "answering", "temporal", "metrics", "rewards"),
        ],
        help="this part alone",
    )
    parser.add_argument(
        "--against", type=Path, metavar="CHECKOUT", help="compare judging with an older version"
    )
    chosen = parser.parse_args()
    print(f"Machine: {judging.machine()}\n")
    print("| what | measured | target | met |\n| --- | --- | --- | --- |")
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        parts = {
            "judging": judging.measure(Path(folder), videos=chosen.videos, files=chosen.files),
            "decoding": decoding.measure(Path(folder)),
            "generation": generation.measure_generation(Path(folder)),
            "correlation": correlation.measure(),
            "comparing": comparing.measure(Path(folder)),
            "reporting": reporting.measure(Path(folder), videos=chosen.videos),
            "checking": checking.measure(Path(folder)),
            "mcq": mcq.measure(Path(folder)),
            "answering": answering.measure_answering(Path(folder)),
            "temporal": answering.measure_temporal(Path(folder)),
            "metrics": metrics.measure(),
            "rewards": rewards.measure(Path(folder)),
        }
        if chosen.against is not None:
            parts = {"against": against.measure(Path(folder), chosen.against.resolve())}
        for row in chain(*(parts[name] for name in parts if chosen.part in {None, name})):
            verdict = ("yes" if row.met else "**no**") if row.target else ""
            missed += not row.met
            print(f"| {row.what} | {row.measured} | {row.target} | {verdict} |", flush=True)
    print(f"\n{missed} target(s) missed." if missed else "\nAll targets are met.")


if __name__ == "__main__":
    main()
