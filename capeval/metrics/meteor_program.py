"""METEOR's Java program, one process of it: requests go to stdin, replies come from stdout.

`SCORE ||| reference ||| ... ||| candidate` is answered with 23 statistics, and `EVAL ||| ` with
these by the score and, on a second line, the aggregate of all scores, which is the same for one. A
request that it does not understand is answered with a line that begins with `Error:`, on stdout.
"""

from __future__ import annotations

import math
import re
import subprocess
import threading
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

from capeval.text import one_line, shown

VERSION = "1.5"
STATISTICS = 23

# Loading the paraphrase table takes 7 s on an idle machine, and 24 s on a busy one was measured.
START_SECONDS = 300.0

_BARS = "|||"
_FLAGS = (
    "-Xmx2G",
    # The program reads its own numbers by the rules of the locale, and fails where the decimal
    # separator is a comma.
    "-Duser.language=en",
    "-Duser.country=US",
)
_ARGUMENTS = ("-", "-", "-stdio", "-l", "en", "-norm")
_HANDSHAKE = "a dog runs"


class ProgramError(Exception):
    """A process of the program gave no usable reply, and cannot be used any more."""


class ProgramTimeout(ProgramError):
    """A process was ended because it did not reply in time."""


class RequestError(Exception):
    """The program refused one request; the process can be used again."""


@dataclass(frozen=True)
class Reply:
    """The score of one candidate, from 0 to 1, and the statistics that it is computed from."""

    score: float
    statistics: tuple[float, ...]


def cleaned(text: str) -> str:
    r"""Return a text as it can be sent: what would end a line or a field becomes a space.

    These are `|||`, line breaks, other control characters and unpaired surrogates.

    >>> cleaned("one\ntwo ||| three\x00 ")
    'one two   three'
    """
    return "".join(
        " " if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") else character
        for character in text.replace(_BARS, " ")
    ).strip()


def version_of(java: str, jar: Path) -> str:
    """Return what the program calls itself, such as "Meteor version 1.5"; raises `ProgramError`."""
    try:
        done = subprocess.run(  # noqa: S603 - the user's own Java
            [java, "-jar", str(jar)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=START_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProgramError(f"{java} cannot be run: {one_line(str(error))}") from None
    text = (done.stdout + b"\n" + done.stderr).decode("utf-8", "replace")
    found = re.search(r"^Meteor version .*$", text, re.MULTILINE)
    if found is None:
        raise ProgramError(_last_line(text) or f"it ended with {done.returncode}, printing nothing")
    return found[0].strip()


class Program:
    """A running process, checked with a first request. Calls block; one at a time.

    Parameters
    ----------
    seconds : how long a reply may take

    Raises
    ------
    ProgramError
        It cannot be started, or does not work.
    """

    def __init__(self, java: str, jar: Path, seconds: float) -> None:
        self._seconds = seconds
        self._timed_out = False
        self._stderr = TemporaryFile()  # noqa: SIM115 - closed with the process
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the user's own Java
                [java, *_FLAGS, "-jar", str(jar.absolute()), *_ARGUMENTS],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                # Ctrl-C is for this process; without it, the program ends at the end of its input.
                start_new_session=True,
            )
        except OSError as error:
            self._stderr.close()
            raise ProgramError(f"{java} cannot be run: {one_line(str(error))}") from None
        try:
            reply = self._score([_HANDSHAKE], _HANDSHAKE, START_SECONDS)
            if reply.score != 1.0:
                raise ProgramError(f"it scores a text against itself as {reply.score}")
        except RequestError as error:
            self.close()
            raise ProgramError(str(error)) from None
        except BaseException:
            self.close()
            raise

    def score(self, references: Sequence[str], candidate: str) -> Reply:
        """Return the score of a candidate; texts are cleaned first.

        Raises
        ------
        RequestError
            The program refuses it.
        ProgramError
            The process ended, did not answer in time, or gave a reply that is none.
        """
        return self._score(references, candidate, self._seconds)

    def _score(self, references: Sequence[str], candidate: str, seconds: float) -> Reply:
        texts = [text for reference in references if (text := cleaned(reference))]
        if not texts:
            raise RequestError("no reference has a visible character")
        # A last field without any character would not count as one.
        (line,) = self._ask(
            f"SCORE {_BARS} " + f" {_BARS} ".join([*texts, cleaned(candidate)]) + " ", 1, seconds
        )
        statistics = _numbers(line)
        if len(statistics) != STATISTICS:
            raise ProgramError(f"it answered SCORE with {shown(line)}")
        score, aggregate = (_numbers(one) for one in self._ask(f"EVAL {_BARS} {line}", 2, seconds))
        if len(score) != 1 or score != aggregate or not 0 <= score[0] <= 1:
            raise ProgramError(f"it answered EVAL with {score} and {aggregate}")
        return Reply(score[0], statistics)

    def _ask(self, request: str, lines: int, seconds: float) -> list[str]:
        process = self._process
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - pipes
        watch = threading.Timer(seconds, self._give_up)
        watch.daemon = True
        watch.start()
        try:
            process.stdin.write(f"{request}\n".encode())
            process.stdin.flush()
            found = []
            for _ in range(lines):
                line = process.stdout.readline()
                if not line.endswith(b"\n"):
                    raise self._end(seconds)
                text = line.decode("utf-8", "replace").strip()
                if text.startswith("Error:"):
                    raise RequestError(one_line(text))
                found.append(text)
        except (OSError, ValueError):
            # The pipe is closed: the process has ended, or was closed by another thread.
            raise self._end(seconds) from None
        finally:
            watch.cancel()
        return found

    def _give_up(self) -> None:
        self._timed_out = True
        self._process.kill()

    def _end(self, seconds: float) -> ProgramError:
        """Return why the process gave no reply."""
        if self._timed_out:
            return ProgramTimeout(f"no reply within {seconds:g} s")
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        said = ""
        with suppress(OSError, ValueError):
            self._stderr.seek(0)
            said = _last_line(self._stderr.read(1_000_000).decode("utf-8", "replace"))
        ended = f"the program ended with {self._process.poll()}"
        return ProgramError(f"{ended}: {said}" if said else ended)

    def close(self) -> None:
        """End the process at once."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        self._process.wait()
        self._stderr.close()


def _last_line(text: str) -> str:
    """Return what a program said at its end: the exception of a Java stack trace, else the end."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("\t")]
    return one_line(lines[-1]) if lines else ""


def _numbers(line: str) -> tuple[float, ...]:
    try:
        found = tuple(map(float, line.split()))
    except ValueError:
        return ()
    return found if all(map(math.isfinite, found)) else ()
