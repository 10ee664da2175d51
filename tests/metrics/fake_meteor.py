"""Stands in for Java and METEOR's jar: `java ... -jar JAR - - -stdio ...`, misbehaving on demand.

A candidate that contains `act:NAME` makes it act so; FAKE_METEOR_START names an act for the start.
All other candidates are scored by their length alone.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

ZEROS = " ".join(["0.0"] * 23)


def die(code: int = 1) -> None:
    sys.stderr.write(
        "Exception in thread main java.lang.OutOfMemoryError: heap\n\tat Meteor.main\n"
    )
    sys.stderr.flush()
    os._exit(code)


def act(name: str, is_eval: bool) -> str | None:
    """Return what to print in place of a reply, None for nothing unusual."""
    if name == "die":
        die()
    if name == "die-once":
        mark = Path(os.environ["FAKE_METEOR_MARK"])
        if not mark.exists():
            mark.touch()
            die()
    if name == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "hang":
        time.sleep(3600)
    if name == "error":
        return "Error: specify hypothesis and at least one reference\n"
    if name == "empty":
        return "\n"
    if name == "words":
        return "not a number\n"
    if name == "few":
        return "1.0 2.0\n"
    if name == "nan":
        return ZEROS.replace("0.0", "NaN", 1) + "\n"
    if name == "cut":
        sys.stdout.write("0.0 0.0")
        sys.stdout.flush()
        die()
    if is_eval:
        return {
            "eval-nan": "NaN\nNaN\n",
            "eval-two": "2.0\n2.0\n",
            "eval-unlike": "0.5\n0.25\n",
            "eval-infinite": "Infinity\nInfinity\n",
            "eval-error": "Error: specify SCORE or EVAL or SING\n",
        }.get(name)
    return None


def main() -> None:
    if "-stdio" not in sys.argv:
        sys.stdout.write(
            f"Meteor version {os.environ.get('FAKE_METEOR_VERSION', '1.5')}\n\nUsage\n"
        )
        return
    if log := os.environ.get("FAKE_METEOR_LOG"):
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(f"start {os.getpid()}\n")
    if start := os.environ.get("FAKE_METEOR_START"):
        text = act(start, False)
        sys.stdout.write(text or "")
        sys.stdout.flush()
    name = ""
    for raw in sys.stdin.buffer:
        line = raw.decode("utf-8").removesuffix("\n")
        if log:
            with Path(log).open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        time.sleep(float(os.environ.get("FAKE_METEOR_SECONDS", "0")))
        if line.startswith("SCORE"):
            candidate = line.split(" ||| ")[-1]
            name = candidate.partition("act:")[2].split(" ")[0] if "act:" in candidate else ""
            length = len(candidate.split())
            reply = act(name, False) or ZEROS.replace("0.0", f"{length}.0", 1) + "\n"
        else:
            words = float(line.removeprefix("EVAL ||| ").split()[0])
            # The first request of each process is a text of three words against itself.
            score = 1.0 if words == 3 and not name else 1 / (1 + words)
            reply = act(name, True) or f"{score}\n{score}\n"
        sys.stdout.write(reply)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
