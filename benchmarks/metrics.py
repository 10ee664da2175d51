"""How many captions `capeval metrics` scores in a second."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from importlib.util import find_spec

from benchmarks.judging import Row

__all__ = ["measure"]

_CAPTIONS = 10_000
_WORDS = (10, 50, 100, 300)
_SECONDS_EACH = 5.0
"""How long METEOR scores captions of one length."""

# Words that METEOR finds paraphrases and synonyms for, as in captions of videos.
_VOCABULARY = (
    "a man woman dog child walks runs throws ball red blue shirt the camera pans left right to of "
    "and in on car street city rain night day beach park table cup opens closes door then while "
    "another person holds looks at turns around smiles quickly slowly large small tree building"
)


def measure() -> Iterator[Row]:
    """Yield the rows one by one."""
    yield _controls()
    yield from _meteor()


def _text(words: int, rng: random.Random) -> str:
    return " ".join(rng.choices(_VOCABULARY.split(), k=words)) + "."


def _controls() -> Row:
    from capeval.metrics.measure import measure as measure_captions

    rng = random.Random(0)
    texts = {str(n): (_text(100, rng), _text(100, rng)) for n in range(_CAPTIONS)}
    began = time.perf_counter()
    measure_captions(
        candidates={index: one for index, (one, _) in texts.items()},
        references={index: other for index, (_, other) in texts.items()},
    )
    rate = _CAPTIONS / (time.perf_counter() - began)
    return Row(
        f"unigram F1 and length of {_CAPTIONS:,} captions of 100 words, in memory",
        f"{rate:,.0f} captions/s",
        "",
        True,
    )


def _meteor() -> Iterator[Row]:
    if shutil.which("java") is None or find_spec("pycocoevalcap") is None:
        yield Row("METEOR", "not measured: Java or pycocoevalcap is not installed", "", True)
        return
    from importlib.metadata import distribution
    from pathlib import Path

    from capeval.metrics.meteor import Program

    place = distribution("pycocoevalcap").locate_file("pycocoevalcap/meteor/meteor-1.5.jar")
    began = time.perf_counter()
    program = Program("java", Path(str(place)))
    try:
        program.statistics(["a dog"], "a dog")
        yield Row(
            "METEOR: the start of a process, which loads 62 MB of paraphrases",
            f"{time.perf_counter() - began:.1f} s",
            "",
            True,
        )
        rng = random.Random(0)
        for words in _WORDS:
            done, began = 0, time.perf_counter()
            while (seconds := time.perf_counter() - began) < _SECONDS_EACH:
                program.scores([program.statistics([_text(words, rng)], _text(words, rng))])
                done += 1
            yield Row(
                f"METEOR: captions and references of {words} words, one process",
                f"{done / seconds:.1f} captions/s",
                "",
                True,
            )
    finally:
        program.close()
