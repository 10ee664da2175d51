"""`python -m benchmarks.generation`: how fast captions are written, in batches and one by one.

With a GPU: LLaVA-Video-7B at its full size, with random weights in bfloat16, on clips of 32 frames
of 1580 x 892. Without one the same code runs a tiny model on the processor, and says so.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.judging import Row, machine
from tests.torchvision_operators import DefinedBeforeImport

__all__ = ["measure_generation"]


def measure_generation(
    folder: Path, *, batch: int | None = None, new_tokens: int = 256, rounds: int = 3
) -> Iterator[Row]:
    """Yield the figures; the full-size model where there is a GPU, else the tiny one."""
    sys.meta_path.insert(0, DefinedBeforeImport())
    from benchmarks.generation_runs import device, runs

    yield Row("captions: device", device(), "", True)
    yield from runs(folder, batch=batch, new_tokens=new_tokens, rounds=rounds)


def main() -> None:
    """Measure and print the rows of the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generation", description=__doc__)
    parser.add_argument("--batch", type=int, help="16 with a GPU, 8 without")
    parser.add_argument("--new-tokens", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    print(f"Machine: {machine()}\n")
    print("| what | measured | target | met |\n| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for row in measure_generation(
            Path(folder),
            batch=chosen.batch,
            new_tokens=chosen.new_tokens,
            rounds=chosen.rounds,
        ):
            verdict = ("yes" if row.met else "**no**") if row.target else ""
            print(f"| {row.what} | {row.measured} | {row.target} | {verdict} |", flush=True)


if __name__ == "__main__":
    main()
