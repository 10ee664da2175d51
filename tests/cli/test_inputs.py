"""Bad input from the command line: one line, exit code 2, nothing written."""

import json
import os
from pathlib import Path

import pytest

from tests.files.making import record
from tests.world import ERRORS, here

GOOD = json.dumps([record("v"), record("w")])
CAPTION = '{"index": "v", "caption": "A dog runs."}\n'


@pytest.fixture(autouse=True)
def _here(alone: None) -> None:
    Path("good.json").write_text(GOOD)
    Path("good.jsonl").write_text(CAPTION)
    Path("bad").write_text('{"v": 5}')


def files() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("judge none.jsonl --annotations good.json", "is neither a captions file nor a run"),
        ("judge good.jsonl bad --annotations good.json --judge lexical", 'bad: entry 1: index "v"'),
        ("judge good.jsonl --annotations god.json --judge lexical", 'did you mean "good.json"?'),
        ("judge good.jsonl --judge lexical", "--annotations"),
        ("judge good.jsonl --annotations good.json", "no judge is configured"),
        ("judge good.jsonl --annotations sample", "no judge is configured"),
        ("judge good.jsonl --annotations good.json --judge lexical --run a/b", "cannot name a run"),
        ("judge good.jsonl --annotations good.json --judge lexical --only z", "--only"),
        ("judge --nope", "--nope"),
        ("jugde", "jugde"),
        ("compare a b --json --format latex", "omit one of them"),
        ("score", "capeval score --help"),
        ("score sample", "; `capeval judge sample` makes the runs of the sample"),
        ("score good.jsonl --layout tuna", "name it with --out"),
    ],
)
def test_bad_usage_ends_in_one_line(arguments: str, message: str) -> None:
    before = files()
    assert message in here(*arguments.split()).refusal
    assert files() == before


@pytest.mark.parametrize("case", ERRORS)
def test_unexpected_fault_is_ours_and_exits_1(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    error, described = ERRORS[case]

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("capeval.scoring.score.score_run", fail)
    done = here("score", "good.jsonl", "--annotations", "good.json")
    assert (done.code, len(done.lines)) == (1, 1)
    assert done.err.startswith(f"capeval: internal error (a bug in capeval): {described}")
    assert done.err.endswith("report it with the log of the same command with --debug FILE\n")


@pytest.mark.parametrize(
    "command", ["judge {} --annotations good.json --judge lexical", "frames {}"]
)
def test_a_pipe_is_not_waited_for_and_a_link_to_nothing_says_so(command: str) -> None:
    os.mkfifo("pipe")
    Path("link").symlink_to("gone")
    before = files()
    for name, why in (
        ("pipe", "is not a regular file"),
        ("link", "is a link to gone, which does not exist"),
    ):
        done = here(*command.format(name).split())
        assert (done.code, files()) == (2, before)
        assert f"{name}: {why}" in done.lines[-1]
