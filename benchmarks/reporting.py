"""How fast a report is made, opened and searched, against the targets that the project set."""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.data import make_captions, make_set
from benchmarks.judging import Row
from tests.browser import running, tab

__all__ = ["measure"]

_SECONDS = 2.0
_MEGABYTES = 15.0
_OPEN_SECONDS, _SEARCH_SECONDS = 2.0, 0.2

# The milliseconds from one key to the next frame that is drawn.
_SEARCH = """
(async () => {
  const times = [];
  for (const text of ["d", "do", "dog", "dog b", "dog black hat", "video_09", ""]) {
    const began = performance.now();
    at("q").value = text;
    at("q").dispatchEvent(new Event("input"));
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    times.push(performance.now() - began);
  }
  return Math.max(...times);
})()
"""


def measure(folder: Path, *, videos: int) -> Iterator[Row]:
    """Yield the rows one by one; `folder` is for scratch files."""
    place = folder / "reporting"
    place.mkdir()
    annotations = make_set(videos)
    (place / "annotations.json").write_text(json.dumps(annotations))
    make_captions(annotations, place / "bench.jsonl")
    _judge(place, "bench.jsonl")
    seconds = _seconds(place, "bench")
    yield Row(
        f"capeval report of {videos} videos, the whole command (median of 5)",
        f"{seconds:.2f} s",
        f"<= {_SECONDS:g} s",
        seconds <= _SECONDS,
    )
    size = (place / "report.html").stat().st_size / 1e6
    yield Row(
        "the size of that report, without thumbnails",
        f"{size:.1f} MB",
        f"< {_MEGABYTES:g} MB",
        size < _MEGABYTES,
    )
    for name, seed in (("second", 2), ("third", 3)):
        make_captions(annotations, place / f"{name}.jsonl", seed)
        _judge(place, f"{name}.jsonl")
    seconds = _seconds(place, "bench", "second", "third")
    yield Row(
        f"capeval report of three runs of {videos} videos, with their paired differences",
        f"{seconds:.2f} s",
        f"<= {_SECONDS:g} s",
        seconds <= _SECONDS,
    )
    opened, searches = asyncio.run(_in_browser(place))
    yield Row(
        f"the report of three runs of {videos} videos: opened in Chromium, until it is drawn",
        f"{opened:.2f} s",
        f"<= {_OPEN_SECONDS:g} s",
        opened <= _OPEN_SECONDS,
    )
    for what, searched in searches.items():
        yield Row(
            f"search {what} there, the slowest of 7 keys",
            f"{searched:.3f} s",
            f"<= {_SEARCH_SECONDS:g} s",
            searched <= _SEARCH_SECONDS,
        )


async def _in_browser(place: Path) -> tuple[float, dict[str, float]]:
    """Return the seconds to open a report, and those to search its lists."""
    opened = []
    with running(place) as address:
        for _ in range(5):
            async with tab(address, place) as page:
                await page.open(place / "report.html")
                opened.append(
                    await page.ask(
                        "new Promise((done) => requestAnimationFrame("
                        "() => setTimeout(() => done(performance.now()))))"
                    )
                )
                searches = {}
                for view in ("videos", "elements"):
                    await page.ask(f"go({{ view: '{view}'.replace('videos', '') }}); 0")
                    searches[view] = await page.ask(_SEARCH) / 1000
    return statistics.median(opened) / 1000, searches


def _judge(place: Path, captions: str) -> None:
    _capeval(
        place,
        *("judge", captions, "--annotations", "annotations.json"),
        *("--judge", "lexical", "--quiet"),
    )


def _seconds(place: Path, *runs: str) -> float:
    times = []
    for _ in range(5):
        began = time.perf_counter()
        _capeval(place, "report", *runs, "--out", "report.html", "--frames", "0")
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _capeval(folder: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "capeval", *arguments]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
