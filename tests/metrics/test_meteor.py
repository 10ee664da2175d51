"""METEOR: its program's failures leave captions unscored, and its own output is what is stored."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest

from capeval.metrics.meteor import Meteor, score_of, summed
from capeval.metrics.meteor_program import Program, cleaned
from tests.cli_runs import environment
from tests.metrics.meteor_setup import fake_program, needs_meteor
from tests.typed import Said, typed

OK = "two words"


def captions(folder: Path, *texts: str) -> list[str]:
    """Write candidates, with a reference each, and return the arguments of a command."""
    candidates = {str(n): text for n, text in enumerate(texts, start=1)}
    references = {str(n): ["a dog runs"] for n in range(1, len(texts) + 1)}
    (folder / "c.json").write_text(json.dumps(candidates), encoding="utf-8")
    (folder / "r.json").write_text(json.dumps(references), encoding="utf-8")
    return ["metrics", "--metric", "meteor", "--candidates", "c.json", "--references", "r.json"]


def measure(folder: Path, *command: str, **variables: str) -> Said:
    """Run a command in this process, with variables for the fake program."""
    return typed(folder, *command, env={**os.environ, **variables})


def rows(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


# What the fake does for a caption, and the reason that is stored.
MALFORMED = [
    ("die", "the program ended with 1: Exception in thread main java.lang.OutOfMemoryError"),
    ("killed", "the program ended with -9"),
    ("cut", "the program ended with 1"),
    ("hang", "no reply within 1 s"),
    ("error", "Error: specify hypothesis and at least one reference"),
    ("empty", 'it answered SCORE with ""'),
    ("words", 'it answered SCORE with "not a number"'),
    ("few", 'it answered SCORE with "1.0 2.0"'),
    ("nan", "it answered SCORE with"),
    ("eval-nan", "it answered EVAL with"),
    ("eval-two", "it answered EVAL with"),
    ("eval-unlike", "it answered EVAL with"),
    ("eval-infinite", "it answered EVAL with"),
    ("eval-error", "Error: specify SCORE or EVAL or SING"),
]


def test_a_reply_that_is_no_score_leaves_one_caption_unscored(tmp_path: Path) -> None:
    texts = [text for act, _ in MALFORMED for text in (f"act:{act} x", OK)]
    command = captions(tmp_path, *texts)
    command += [*fake_program(tmp_path / "fake"), "--meteor-processes", "1", "--timeout", "1"]
    ended = measure(tmp_path, *command)
    assert ended.code == 3
    found = rows(tmp_path)
    for (act, reason), row, following in zip(MALFORMED, found[::2], found[1::2], strict=True):
        assert row["value"] is None, act
        assert reason in row["reason"], act
        assert (following["value"], following["reason"]) == (1 / 3, None), act
    assert f"(scored {len(MALFORMED)}/{2 * len(MALFORMED)})" in ended.out
    assert f"1 is unscored: METEOR: {MALFORMED[0][1]}" in ended.out


def test_a_caption_is_scored_again_where_a_process_died(tmp_path: Path) -> None:
    command = captions(tmp_path, OK, "act:die-once x")
    options = fake_program(tmp_path / "fake")
    ended = measure(tmp_path, *command, *options, FAKE_METEOR_MARK=str(tmp_path / "mark"))
    assert (ended.code, [row["value"] for row in rows(tmp_path)]) == (0, [1 / 3, 1 / 3])


def test_a_program_that_fails_on_every_caption_stops_the_run(tmp_path: Path) -> None:
    command = captions(tmp_path, OK, *["act:die x"] * 9)
    command += [*fake_program(tmp_path / "fake"), "--meteor-processes", "1"]
    ended = measure(tmp_path, *command)
    assert ended.code == 3
    assert "METEOR fails on one caption after another" in ended.err
    values = rows(tmp_path)
    assert [row["value"] for row in values if row["value"] is not None] == [1 / 3]
    assert len(values) < 6


def without_java(folder: Path, options: list[str]) -> dict[str, str]:
    options += ["--java", "no-such-java"]
    return {}


def without_jar(folder: Path, options: list[str]) -> dict[str, str]:
    options += ["--meteor-jar", "absent.jar"]
    return {}


def without_table(folder: Path, options: list[str]) -> dict[str, str]:
    (folder / "fake" / "data" / "paraphrase-en.gz").unlink()
    return {}


def of_another_version(folder: Path, options: list[str]) -> dict[str, str]:
    return {"FAKE_METEOR_VERSION": "1.4"}


def dying_at_once(folder: Path, options: list[str]) -> dict[str, str]:
    return {"FAKE_METEOR_START": "die"}


def talking_nonsense(folder: Path, options: list[str]) -> dict[str, str]:
    return {"FAKE_METEOR_START": "words"}


def that_is_no_java(folder: Path, options: list[str]) -> dict[str, str]:
    (folder / "fake" / "java").write_text("#!/bin/sh\necho oops >&2; exit 7\n", encoding="utf-8")
    return {}


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (without_java, "METEOR needs Java, and there is no no-such-java: install a Java runtime"),
        (without_jar, "absent.jar: does not exist; name meteor-1.5.jar"),
        (without_table, "METEOR's table of paraphrases is missing: it must be data/"),
        (of_another_version, "meteor-1.5.jar: is Meteor version 1.4; METEOR 1.5 is needed"),
        (dying_at_once, "METEOR does not work: the program ended with 1: Exception in thread"),
        (talking_nonsense, "METEOR does not work: it answered"),
        (that_is_no_java, "METEOR cannot be run: oops"),
    ],
)
def test_what_is_missing_is_one_line_and_leaves_nothing(
    broken: Any, message: str, tmp_path: Path
) -> None:
    options = fake_program(tmp_path / "fake")
    variables = broken(tmp_path, options)
    ended = measure(tmp_path, *captions(tmp_path, OK), *options, **variables)
    assert ended.code == 2
    last = ended.err.splitlines()[-1]
    assert message in last
    assert not (tmp_path / "metrics.jsonl").exists()
    assert not (tmp_path / "metrics.details").exists()


def test_without_the_package_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("capeval.metrics.meteor.distribution", absent)
    ended = measure(tmp_path, *captions(tmp_path, OK), *fake_program(tmp_path / "fake")[:2])
    assert ended.code == 2
    assert "pip install '.[meteor]'" in ended.err
    assert "--meteor-jar" in ended.err


HOSTILE = [
    "one\ntwo",
    "one ||| two",
    "a ||||||| b",
    "|||",
    "\r\n\x00\x0b\x85\u2028",
    "\ud800 alone",
    "",
    " ",
    "EVAL ||| 1",
]


def test_no_text_can_be_more_than_one_field_of_one_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    whole = [text for text in HOSTILE if "\ud800" not in text]  # that is refused in any file
    (tmp_path / "c.json").write_text(json.dumps({str(n): t for n, t in enumerate(whole)}))
    (tmp_path / "r.json").write_text(
        json.dumps({str(n): [f"{t}.", "x"] for n, t in enumerate(whole)})
    )
    command = ["metrics", "--metric", "meteor", "--candidates", "c.json", "--references", "r.json"]
    options = [*fake_program(tmp_path / "fake"), "--meteor-processes", "1"]
    ended = measure(tmp_path, *command, *options, FAKE_METEOR_LOG=str(log))
    assert ended.code == 0, ended.err
    sent = log.read_text(encoding="utf-8").split("\n")[:-1]
    requests = [line for line in sent if line.startswith("SCORE")]
    assert len(sent) == 1 + 2 * (1 + len(whole))  # the start, the first request, the captions
    for line in requests[1:]:
        assert line.count("|||") == 3
        assert line.isprintable()


@pytest.mark.parametrize("text", HOSTILE)
def test_cleaned_text_has_no_separator(text: str) -> None:
    assert "|||" not in cleaned(text)
    assert cleaned(text).isprintable()


def test_killed_and_resumed(tmp_path: Path) -> None:
    command = captions(tmp_path, *[f"{'word ' * n}" for n in range(1, 21)])
    command += [*fake_program(tmp_path / "fake"), "--meteor-processes", "1"]
    log = str(tmp_path / "log")
    process = subprocess.Popen(
        [sys.executable, "-m", "capeval", *command],
        cwd=tmp_path,
        env=environment(tmp_path, FAKE_METEOR_LOG=log, FAKE_METEOR_SECONDS="0.05"),
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    details = tmp_path / "metrics.details" / "meteor.jsonl"
    until = time.monotonic() + 30
    while not (details.exists() and details.read_bytes().count(b"\n") >= 3):
        assert time.monotonic() < until
        time.sleep(0.02)
    process.kill()
    process.wait()
    kept = details.read_bytes().count(b"\n")
    assert 3 <= kept < 20
    # The processes of the killed one end with their input.
    for line in Path(log).read_text(encoding="utf-8").splitlines():
        if line.startswith("start"):
            assert ends(int(line.split()[1]))
    before = Path(log).read_text(encoding="utf-8").count("SCORE")
    ended = measure(tmp_path, *command, FAKE_METEOR_LOG=log)
    assert ended.code == 0, ended.err
    assert len(rows(tmp_path)) == 20
    sent = Path(log).read_text(encoding="utf-8").count("SCORE") - before
    assert sent == 20 - kept + 1


def ends(process: int) -> bool:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        state = Path(f"/proc/{process}/stat")
        if state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z":
            return True  # ended; its parent, which has not awaited it, is not this process
        time.sleep(0.05)
    return False


def test_ctrl_c_ends_the_processes_and_says_how_to_go_on(tmp_path: Path) -> None:
    command = captions(tmp_path, OK, "act:hang x")
    command += [*fake_program(tmp_path / "fake"), "--meteor-processes", "1"]
    log = tmp_path / "log"
    with subprocess.Popen(
        [sys.executable, "-m", "capeval", *command],
        cwd=tmp_path,
        env=environment(tmp_path, FAKE_METEOR_LOG=str(log)),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as process:
        until = time.monotonic() + 30
        while not (log.exists() and "act:hang" in log.read_text(encoding="utf-8")):
            assert time.monotonic() < until
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "run the same command to resume" in err
    pid = int(log.read_text(encoding="utf-8").split()[1])
    assert ends(pid)


# Of the program itself: SCORE and EVAL typed into it.
KNOWN = [
    ("a dog runs", "a cat", 0.06106870229007633),
    ("a dog runs", "a dog runs", 1.0),
    ("a dog runs", "", 0.0),
    ("A DOG.", "a dog .", 1.0),
    ("the of", "the of", 1.0),
    ("a\x0bb", "a b", 1.0),
    ("😀 dog", "😀 dog", 1.0),
    ("... ... dog", "...", None),
    ("A man is throwing the ball to his dogs", "The dog of a man runs after a thrown ball", None),
]


def test_the_program_itself() -> None:
    """One start of the real program: values, statistics, the aggregate, the locale."""
    needs_meteor()
    jar = Path(
        str(distribution("pycocoevalcap").locate_file("pycocoevalcap/meteor/meteor-1.5.jar"))
    )
    os.environ["JAVA_TOOL_OPTIONS"] = "-Duser.language=de -Duser.country=DE"
    try:
        program = Program("java", jar, 120)
    finally:
        del os.environ["JAVA_TOOL_OPTIONS"]
    try:
        replies = [program.score([reference], text) for reference, text, _ in KNOWN]
        for (reference, text, known), reply in zip(KNOWN, replies, strict=True):
            assert known is None or reply.score == known, (reference, text)
            assert math.isclose(score_of(reply.statistics), reply.score, abs_tol=1e-12)
        best = program.score(["a cat", "a dog runs"], "a dog runs")
        assert best.score == 1.0
        lines = [" ".join(map(str, reply.statistics)) for reply in replies]
        *each, aggregate = program._ask("EVAL ||| " + " ||| ".join(lines), len(lines) + 1, 60)
        assert list(map(float, each)) == [reply.score for reply in replies]
        ours = score_of(summed([reply.statistics for reply in replies]))
        assert math.isclose(ours, float(aggregate), abs_tol=1e-12)
        assert not math.isclose(float(aggregate), sum(map(float, each)) / len(each), abs_tol=1e-3)
    finally:
        program.close()


def test_statistics_of_no_words_are_zero() -> None:
    assert score_of([0.0] * 23) == 0.0
    assert Meteor.name == "meteor"
