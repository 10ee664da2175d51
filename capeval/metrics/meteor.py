"""METEOR 1.5 (Denkowski and Lavie 2014) by its authors' own Java program.

`SCORE ||| reference ||| ... ||| candidate` on its stdin is answered with 23 statistics, and
`EVAL ||| statistics ||| ...` with the score of each and, on a last line, that of all together.

nltk's `meteor_score` differs: it has other matchers and parameters, and no paraphrases.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import unicodedata
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from capeval.errors import InputError, MissingExtra, UsageError
from capeval.metrics.protocol import (
    Context,
    Item,
    Metric,
    MetricOutput,
    NoValues,
    Outcome,
    Record,
    Settings,
    Summary,
    Values,
)
from capeval.runs.concurrency import in_thread
from capeval.text import one_line

NAME = "meteor"
PARAPHRASES = Path("data") / "paraphrase-en.gz"
_PACKAGED = Path("pycocoevalcap") / "meteor" / "meteor-1.5.jar"
_FLAGS = (
    "-Xmx2G",
    # The program reads its own numbers by the rules of the locale, and fails where the decimal
    # separator is a comma.
    "-Duser.language=en",
    "-Duser.country=US",
)
_ARGUMENTS = ("-", "-", "-stdio", "-l", "en", "-norm")


class Program:
    """The running program. Calls block, and raise `ValueError` or `OSError` without an answer."""

    def __init__(self, java: str, jar: Path) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - the user's own Java
            [java, *_FLAGS, "-jar", str(jar.absolute()), *_ARGUMENTS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            # Ctrl-C must not reach the program, which ends at the end of its input.
            start_new_session=True,
        )

    def statistics(self, references: Sequence[str], candidate: str) -> list[float]:
        """Return the statistics of a candidate; texts are cleaned first."""
        texts = [text for reference in references if (text := cleaned(reference))]
        if not texts:
            raise ValueError("no reference has a visible character")
        # A last field without any character would not count as one.
        (found,) = self._ask(["SCORE", *texts, cleaned(candidate) + " "], 1)
        return found

    def scores(self, statistics: Sequence[Sequence[float]]) -> list[float]:
        """Return the score of each caption's statistics, and of all together, from 0 to 1."""
        lines = [" ".join(map(str, one)) for one in statistics]
        return [score for (score,) in self._ask(["EVAL", *lines], len(lines) + 1)]

    def _ask(self, fields: Sequence[str], lines: int) -> list[list[float]]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None  # noqa: S101, PT018 - pipes
        try:
            stdin.write(" ||| ".join(fields) + "\n")
            stdin.flush()
            answers = [stdout.readline() for _ in range(lines)]
        except OSError:
            answers = [""]
        if not answers[-1]:
            raise ValueError(self._end_reason())
        return [[float(number) for number in answer.split()] for answer in answers]

    def _end_reason(self) -> str:
        """Return why the program ended: the exception that it printed, or else its last line."""
        self._process.kill()
        printed = self._process.stderr.read() if self._process.stderr else ""
        lines = [one for one in printed.splitlines() if one.strip() and not one.startswith("\t")]
        return f"the program ended: {one_line(lines[-1])}" if lines else "the program ended"

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class MeteorSettings(Settings):
    """The Java to run, and the meteor-1.5.jar, by default from pycocoevalcap."""

    java: str = "java"
    jar: Path | None = None


class Meteor(Metric):
    """METEOR 1.5 in English with `-norm`; with several references the best of them.

    The program gives an empty caption 0. The score of a system is computed from the summed
    statistics of all captions, as its authors define it; it is not the mean.
    """

    name = NAME
    outputs = (MetricOutput(NAME),)
    form = MeteorSettings
    chosen: MeteorSettings

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        java = shutil.which(self.chosen.java)
        if java is None:
            raise UsageError(
                f"METEOR needs Java, and there is no {self.chosen.java}: install a Java runtime "
                "(Debian: apt-get install default-jre-headless), or name it as java in "
                "[metrics.meteor] of capeval.toml"
            )
        self._java, self._jar = java, self.chosen.jar or _packaged_jar()
        table = self._jar.parent / PARAPHRASES
        for file in (self._jar, table):
            if not file.is_file():
                raise InputError(
                    f"is missing: METEOR needs meteor-1.5.jar, and {PARAPHRASES} next to it",
                    file=file,
                )
        self.settings = {
            "version": "1.5",
            "lang": "en",
            "norm": "yes",
            "jar": _digest(self._jar),
            "paraphrases": _digest(table),
            "references": "max",
        }
        self._running: Program | None = None

    async def score(self, items: Sequence[Item], record: Record) -> None:
        for item in items:
            record(item, await in_thread(partial(self._outcome, item)))

    def _outcome(self, item: Item) -> Outcome:
        program = self._program()
        try:
            statistics = program.statistics(item.references, item.caption)
            score = program.scores([statistics])[0]
        except (OSError, ValueError) as error:
            # The next caption gets a new program: this one may have ended or may still answer.
            self.close()
            return NoValues(f"METEOR: {error}")
        return Values({NAME: score}, details={"statistics": statistics})

    def _program(self) -> Program:
        if self._running is None:
            try:
                self._running = Program(self._java, self._jar)
                self._running.statistics(["a dog runs"], "a dog runs")
            except (OSError, ValueError) as error:
                self.close()
                raise UsageError(f"METEOR cannot be run: {one_line(str(error))}") from None
        return self._running

    def summarise(self, scored: Sequence[tuple[Item, Values]]) -> Mapping[str, Summary]:
        if not scored:
            return {NAME: Summary(None, 0, reason="no caption has a value")}
        statistics = [one.details["statistics"] for _, one in scored]
        try:
            return {NAME: Summary(self._program().scores(statistics)[-1], len(scored))}
        except (OSError, ValueError) as error:
            raise UsageError(f"METEOR cannot compute the score of all captions: {error}") from None

    def close(self) -> None:
        # On Ctrl-C, a thread may be closing it at the same time.
        running, self._running = self._running, None
        if running is not None:
            running.close()


def cleaned(text: str) -> str:
    r"""Return a text in which spaces replace `|||`, control characters and unpaired surrogates.

    They would end a line or a field.

    >>> cleaned("one\ntwo ||| three\x00 ")
    'one two   three'
    """
    return "".join(
        " " if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") else character
        for character in text.replace("|||", " ")
    ).strip()


def _packaged_jar() -> Path:
    """Return the jar of the installed package, which is never imported."""
    try:
        return Path(str(distribution("pycocoevalcap").locate_file(_PACKAGED)))
    except PackageNotFoundError:
        raise MissingExtra(
            "METEOR needs the jar of pycocoevalcap",
            "meteor",
            ", or name one as jar in [metrics.meteor] of capeval.toml",
        ) from None


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()[:6]
