"""Bad input from the command line: one line, exit code 2, nothing written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from capeval.cli import main
from tests.files.making import record
from tests.hostile import ERRORS
from tests.typed import typed

GOOD = json.dumps([record("v"), record("w")])
CAPTION = '{"index": "v", "caption": "A dog runs."}\n'


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    Path("good.json").write_text(GOOD)
    Path("good.jsonl").write_text(CAPTION)


def files() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()}


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str, notices: bool = False) -> str:
    """Return the line on stderr of a command that ends with exit code 2 and writes nothing.

    It is the only one, unless there may be `notices` before it.
    """
    before = files()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["capeval", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
    printed = capsys.readouterr().err
    assert end.value.code == 2, printed
    assert files() == before
    assert notices or printed.count("\n") == 1, printed
    printed = printed.splitlines(keepends=True)[-1]
    assert printed.startswith("capeval: ")
    return printed.removeprefix("capeval: ").rstrip("\n")


ANNOTATIONS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "bad: is empty"),
    "broken": (b'[\n{"index": }]', "bad: line 2: broken JSON at column 11 (Expecting value)"),
    "unknown type": (
        GOOD.replace("action", "acton").encode(),
        (
            "bad: entry 1: index \"v\": events.1.visual_elements.1.type: Input should be 'camera', "
            "'scene', 'action' or 'attribute', not \"acton\""
        ),
    ),
    "weight": (
        GOOD.replace(": 3", ": true").encode(),
        (
            'bad: entry 1: index "v": events.1.visual_elements.1.weight: '
            "must be the integer 1, 2 or 3, not true"
        ),
    ),
    "twice": (
        GOOD.replace('"w"', '"v"').encode(),
        'bad: entry 2: index "v": index: is duplicated (see entry 1)',
    ),
    "no events": (
        b'{"index": "v", "events": []}',
        'bad: line 1: index "v": events: needs at least 1, and has 0',
    ),
    "deep": (b"[" * 100_000, "bad: line 1: is nested too deeply"),
}
CAPTIONS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "bad: is empty"),
    "null": (
        b'{"index": "v", "caption": null}',
        'bad: line 1: index "v": caption: Input should be a valid string, not null',
    ),
    "number": (
        b'{"v": 5}',
        'bad: entry 1: index "v": caption: Input should be a valid string, not 5',
    ),
    "unknown": (
        CAPTION.encode() + CAPTION.replace('"v"', '"vv"').encode(),
        (
            'bad: index "vv": index: is unknown to the annotations; '
            "correct it, or skip such captions with --ignore-unknown"
        ),
    ),
    "control characters": (
        b'{"\\u001b[2J\\n": "A dog."}',
        (
            r'bad: no caption is known to the annotations (captions: "\u001b[2J\n"…; '
            'annotations: "v"…); name the matching --annotations'
        ),
    ),
}


@pytest.mark.parametrize("case", ANNOTATIONS)
def test_bad_annotations_end_in_one_line(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    data, message = ANNOTATIONS[case]
    Path("bad").write_bytes(data)
    arguments = ("judge", "good.jsonl", "--annotations", "bad", "--judge", "lexical")
    assert complaint(capsys, *arguments) == message


@pytest.mark.parametrize("case", CAPTIONS)
def test_bad_captions_end_in_one_line(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    data, message = CAPTIONS[case]
    Path("bad").write_bytes(data)
    arguments = ("judge", "bad", "--annotations", "good.json", "--judge", "lexical")
    assert complaint(capsys, *arguments) == message


def test_bad_file_among_good_ones_stops_all(capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad").write_text('{"v": 5}')
    arguments = ("judge", "good.jsonl", "bad", "--annotations", "good.json", "--judge", "lexical")
    assert complaint(capsys, *arguments).startswith('bad: entry 1: index "v": caption')


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "judge none.jsonl --annotations good.json",
            "none.jsonl: is neither a captions file nor a run",
        ),
        ("judge good.jsonl --annotations god.json --judge lexical", 'did you mean "good.json"?'),
        ("judge good.jsonl --annotations . --judge lexical", ".: is a folder; name a file"),
        ("judge good.jsonl --judge lexical", "--annotations"),
        ("judge good.jsonl --annotations good.json", "no judge is configured"),
        ("judge good.jsonl --annotations good.json --judge lexical --run a/b", "cannot name a run"),
        ("judge good.jsonl good.jsonl --annotations good.json --judge lexical", "'good'"),
        ("judge good.jsonl --annotations good.json --judge lexical --only z", "--only"),
        (
            "judge good.jsonl --annotations good.json --judge lexical --max-failed x",
            "--max-failed",
        ),
        (
            "judge good.jsonl --annotations good.json --judge lexical --base-url http://x",
            "--base-url",
        ),
        ("judge good.jsonl --annotations good.json --judge lexical --repeats 0", "--repeats"),
        ("judge --nope", "--nope"),
        ("jugde", "jugde"),
        ("score", "capeval score --help"),
        ("score none.jsonl", "none.jsonl: is neither a file nor a run"),
        ("score sample", "; `capeval judge sample` makes the runs of the sample"),
        ("score good.jsonl", "--annotations"),
        ("score good.jsonl --annotations good.json", "good.jsonl: has no judgments"),
        ("score . --annotations good.json", "it has no verdicts"),
    ],
)
def test_bad_usage_ends_in_one_line(
    arguments: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in complaint(capsys, *arguments.split())


def test_real_process_tells_one_line_and_writes_nothing() -> None:
    before = files()
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["capeval", "judge", "good.jsonl", "--annotations", "none", "--judge", "lexical", "--json"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines[-1] == "capeval: none: does not exist"
    assert sum(line.startswith("capeval: ") for line in lines) == 1
    assert files() == before


@pytest.mark.parametrize("case", ERRORS)
def test_unexpected_fault_is_ours_and_exits_1(
    case: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    error, described = ERRORS[case]

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("capeval.api.scoring.score_run", fail)
    monkeypatch.setattr(
        sys, "argv", ["capeval", "score", "good.jsonl", "--annotations", "good.json"]
    )
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 1
    printed = capsys.readouterr().err
    assert printed.startswith(f"capeval: internal error (a bug in capeval): {described}")
    assert printed.endswith("report it with the log that --debug FILE writes of the same command\n")
    assert printed.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "pipe"),
    [
        ("judge pipe --annotations good.json --judge lexical", "pipe"),
        ("frames pipe", "pipe"),
    ],
)
def test_a_pipe_is_refused_and_not_waited_for(
    command: str, pipe: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["judge", "good.jsonl", "--annotations", "good.json", "--judge", "lexical", "-q"]
    assert typed(Path(), *arguments).code == 0
    Path(pipe).unlink(missing_ok=True)
    os.mkfifo(pipe)
    printed = complaint(capsys, *command.split(), notices=True)
    assert f"{pipe}: is not a regular file" in printed


@pytest.mark.parametrize(
    "command",
    [
        "judge link --annotations good.json --judge lexical",
        "frames link",
        "generate --model gpt-4o --videos link",
    ],
)
def test_a_link_to_nothing_says_so(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("link").symlink_to("gone")
    printed = complaint(capsys, *command.split(), notices=True)
    assert "link: is a link to gone, which does not exist" in printed
