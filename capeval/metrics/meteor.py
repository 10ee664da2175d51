"""METEOR 1.5 (Denkowski and Lavie 2014) by its authors' own Java program.

nltk's `meteor_score` is another metric: it has other matchers, parameters and no paraphrases.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from capeval.errors import InputError, MissingExtra, ModelDown, UsageError
from capeval.metrics.meteor_program import (
    STATISTICS,
    VERSION,
    Program,
    ProgramError,
    ProgramTimeout,
    Reply,
    RequestError,
    version_of,
)
from capeval.metrics.protocol import (
    Context,
    HasRoom,
    Item,
    Metric,
    Outcome,
    Output,
    Record,
    Scored,
    Summary,
    Unscored,
)
from capeval.runs.concurrency import in_thread, work_through

NAME = "meteor"
PARAPHRASES = Path("data") / "paraphrase-en.gz"
_PACKAGED = Path("pycocoevalcap") / "meteor" / "meteor-1.5.jar"

# Captions for which another process pays: one scores so many of them while another starts.
_CAPTIONS_EACH = 50
_MEMORY_EACH = 1_500_000_000
"""Bytes of one process: 1.1 to 1.4 GB were measured."""

# A caption of which one process dies may kill another; a third in a row is no accident.
_FAILURES = 3

# Of the program, for English and its default task, "rank".
_ALPHA, _BETA, _GAMMA, _DELTA = 0.85, 0.2, 0.6, 0.75
_WEIGHTS = (1.0, 0.6, 0.8, 0.6)
_CHUNKS = 20
"""The place of the chunks among the statistics."""


class Meteor(Metric):
    """METEOR 1.5 in English with `-norm`; with several references the best of them.

    The program gives an empty caption 0. Over all captions it computes one score from the summed
    statistics, as its authors define the score of a system; that is not the mean.
    """

    name = NAME
    outputs = (Output(NAME),)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        options = context.options
        java = shutil.which(str(options.java))
        if java is None:
            raise UsageError(
                f"METEOR needs Java, and there is no {options.java}: install a Java runtime "
                "(Debian: apt-get install default-jre-headless), or name it with --java"
            )
        self._java = java
        self._jar = jar = _jar(options.meteor_jar)
        table = jar.parent / PARAPHRASES
        if not table.is_file():
            raise InputError(
                f"METEOR's table of paraphrases is missing: it must be {PARAPHRASES} next to the "
                "jar",
                file=table,
            )
        self.settings = {
            "version": VERSION,
            "lang": "en",
            "norm": "yes",
            "jar": _digest(jar),
            "paraphrases": _digest(table),
            "references": "max",
        }
        self._idle: list[Program] = []
        self._programs: set[Program] = set()
        self._failures = 0
        self._is_closed = False

    async def score(self, items: Sequence[Item], record: Record, has_room: HasRoom) -> None:
        """Score all captions, in several processes."""
        options = self.context.options
        most = options.meteor_processes or _processes(len(items))
        if not self._programs:
            await in_thread(self._check_version)

        async def outcome(item: Item) -> Outcome:
            return await in_thread(partial(self._outcome, item))

        await work_through(items, outcome, concurrency=most, record=record, has_room=has_room)

    def _check_version(self) -> None:
        try:
            found = version_of(self._java, self._jar)
        except ProgramError as error:
            raise UsageError(f"METEOR cannot be run: {error}") from None
        if found != f"Meteor version {VERSION}":
            raise InputError(f"is {found}; METEOR {VERSION} is needed", file=self._jar)

    def _outcome(self, item: Item) -> Outcome:
        """Score one caption; where the process dies of it, once more in a new one."""
        try:
            try:
                reply = self._reply(item)
            except ProgramTimeout:
                raise  # It would take as long again.
            except ProgramError:
                reply = self._reply(item)
        except RequestError as error:
            self._failures = 0
            return Unscored(f"METEOR: {error}")
        except ProgramError as error:
            self._failures += 1
            if self._failures >= _FAILURES:
                raise ModelDown(
                    f"METEOR fails on one caption after another, the last time with: {error}"
                ) from None
            return Unscored(f"METEOR: {error}")
        self._failures = 0
        return Scored({NAME: reply.score}, details={"statistics": reply.statistics})

    def _reply(self, item: Item) -> Reply:
        try:
            program = self._idle.pop()
        except IndexError:
            program = self._start()
        try:
            reply = program.score(item.references, item.caption)
        except RequestError:
            self._idle.append(program)
            raise
        except BaseException:
            self._programs.discard(program)
            program.close()
            raise
        self._idle.append(program)
        return reply

    def _start(self) -> Program:
        try:
            program = Program(self._java, self._jar, self.context.options.timeout)
        except ProgramError as error:
            raise UsageError(f"METEOR does not work: {error}") from None
        self._programs.add(program)
        if self._is_closed:  # Ctrl-C came while it started
            program.close()
        return program

    def summarise(self, scored: Sequence[tuple[Item, Scored]]) -> Mapping[str, Summary]:
        """Return the program's own score of all captions together."""
        if not scored:
            return {NAME: Summary(None, 0, reason="no caption has a value")}
        lines = [one.details["statistics"] for _, one in scored]
        return {NAME: Summary(score_of(summed(lines)), len(lines))}

    def close(self) -> None:
        """End all processes."""
        self._is_closed = True
        for program in [*self._programs]:
            program.close()
        self._programs.clear()
        self._idle.clear()


def summed(lines: Iterable[Sequence[float]]) -> list[float]:
    """Return statistics of several captions in one, as the program adds them up.

    A caption that equals its reference adds no chunk.
    """
    total = [0.0] * STATISTICS
    for line in lines:
        total = [one + other for one, other in zip(total, line, strict=True)]
        if _is_whole(line):
            total[_CHUNKS] -= 1
    return total


def _is_whole(statistics: Sequence[float]) -> bool:
    """Return whether all words are matched, in one chunk."""
    return statistics[21:23] == statistics[0:2] and statistics[_CHUNKS] == 1


def score_of(statistics: Sequence[float]) -> float:
    """Return METEOR's score of statistics, or of their sums: what the program answers to EVAL.

    Statistics are, for candidate and reference: words (2), function words (2); for each of the
    matchers exact, stem, synonym and paraphrase the matched content words (2) and function words
    (2); chunks; all matched words (2).

    >>> score_of([2, 3, 1, 1, 0, 0, 1, 1, *[0] * 12, 1, 1, 1])
    0.06106870229007633
    """
    lengths, functions = statistics[0:2], statistics[2:4]
    chunks, *matched = statistics[_CHUNKS:]
    shares = []
    for side in (0, 1):
        content = sum(w * statistics[4 + 4 * n + side] for n, w in enumerate(_WEIGHTS))
        function = sum(w * statistics[6 + 4 * n + side] for n, w in enumerate(_WEIGHTS))
        total = _DELTA * (lengths[side] - functions[side]) + (1 - _DELTA) * functions[side]
        shares.append((_DELTA * content + (1 - _DELTA) * function) / total if total else 0.0)
    precision, recall = shares
    if not precision or not recall:
        return 0.0
    mean = 1 / ((1 - _ALPHA) / precision + _ALPHA / recall)
    fragmentation = 0.0 if _is_whole(statistics) else chunks / (sum(matched) / 2)
    penalty: float = _GAMMA * fragmentation**_BETA
    return mean * (1 - penalty)


def _jar(named: str | Path | None) -> Path:
    """Return the jar that is named, or that of the installed package, which is never imported."""
    if named is not None:
        if not Path(named).is_file():
            raise InputError("does not exist; name meteor-1.5.jar", file=named)
        return Path(named)
    try:
        jar = Path(str(distribution("pycocoevalcap").locate_file(_PACKAGED)))
    except PackageNotFoundError:
        raise MissingExtra(
            "METEOR needs the jar of pycocoevalcap", "meteor", ", or name one with --meteor-jar"
        ) from None
    if not jar.is_file():
        raise InputError(
            "is missing from the installed pycocoevalcap; name the jar with --meteor-jar", file=jar
        )
    return jar


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()[:6]


def _processes(captions: int) -> int:
    """Return how many processes suit so many captions, the cores and the free memory."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    by_memory = _available_memory() // _MEMORY_EACH
    return max(1, min(cores or 1, by_memory, -(-captions // _CAPTIONS_EACH)))


def _available_memory() -> int:
    """Return the bytes that new processes can use; without limit where that is not known."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        return 1024 * int(text.partition("MemAvailable:")[2].split()[0])
    except (OSError, ValueError, IndexError):
        return 1 << 62
