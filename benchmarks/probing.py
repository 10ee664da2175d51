"""How fast the probes of a judge are built, and the whole command with the lexical judge."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.data import make_set
from benchmarks.judging import Row
from capeval.schema import Annotation
from capeval.trust.probe_set import build_probes

__all__ = ["measure"]

_SECONDS = 5.0


def measure(folder: Path, *, videos: int) -> Iterator[Row]:
    """Yield the rows one by one; `folder` is for scratch files."""
    place = folder / "probing"
    place.mkdir()
    made = make_set(videos)
    annotations = [Annotation.model_validate(one) for one in made]
    times = []
    count = 0
    for seed in range(3):
        began = time.perf_counter()
        count = len(build_probes(annotations, videos=videos, seed=seed).probes)
        times.append(time.perf_counter() - began)
    seconds = statistics.median(times)
    yield Row(
        f"building the {count:,} probes of {videos} videos (median of 3)",
        f"{seconds:.2f} s",
        f"<= {_SECONDS:g} s",
        seconds <= _SECONDS,
    )
    (place / "annotations.json").write_text(json.dumps(made))
    command = [sys.executable, "-m", "capeval", "probe", "annotations.json", "--judge", "lexical"]
    began = time.perf_counter()
    subprocess.run(
        [*command, "--videos", str(videos), "--quiet"], cwd=place, check=True, capture_output=True
    )
    yield Row(
        f"capeval probe of {videos} videos with the lexical judge, the whole command",
        f"{time.perf_counter() - began:.1f} s",
        "",
        True,
    )
