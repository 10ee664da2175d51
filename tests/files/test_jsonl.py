import os
import resource
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capeval.errors import InputError
from capeval.files.jsonl import (
    JsonlAppender,
    json_lines,
    parse_json,
    read_text,
    whole_lines,
    write_atomic,
    write_jsonl,
)

pytestmark = pytest.mark.usefixtures("alone")

FILE = Path("a.json")
# Every code point, lone surrogates too: that is what captions can hold.
TEXT = st.text(st.characters(), max_size=20)
LINE = st.dictionaries(
    TEXT, TEXT | st.integers() | st.none() | st.lists(TEXT, max_size=3), max_size=4
)
LINES: list[dict[str, Any]] = [
    {"index": "a", "text": "\u2028 \u0085 \r\n {}"},
    {"index": "b", "nested": {"list": [1, 2, {"x": None}]}},
    {"index": "c", "text": "狗 \ud800 \x00 " + "\U0001f415" * 3},
]


def append_all(path: Path, lines: list[dict[str, Any]]) -> None:
    with JsonlAppender(path) as appender:
        for line in lines:
            appender.append(line)


@settings(deadline=None, max_examples=50)
@given(st.lists(LINE, min_size=1))
def test_what_is_written_is_read_the_same(lines: list[dict[str, Any]]) -> None:
    written, appended = Path("written.jsonl"), Path("appended.jsonl")
    appended.unlink(missing_ok=True)
    write_jsonl(written, lines)
    append_all(appended, lines)
    assert written.read_bytes() == appended.read_bytes()
    assert written.read_bytes().count(b"\n") == len(lines)
    assert whole_lines(written) == lines
    assert list(json_lines(read_text(written), file=written)) == [
        (f"line {number}", line) for number, line in enumerate(lines, start=1)
    ]


def test_file_torn_at_any_byte_keeps_its_whole_lines_and_goes_on() -> None:
    append_all(FILE, LINES)
    data = FILE.read_bytes()
    ends = [place for place, byte in enumerate(data) if byte == ord("\n")]
    for cut in range(len(data) + 1):
        FILE.write_bytes(data[:cut])
        kept = sum(end <= cut for end in ends)
        assert whole_lines(FILE) == LINES[:kept], cut
        append_all(FILE, LINES[kept:])
        assert FILE.read_bytes() == data, cut


def test_damage_before_the_last_line_is_reported() -> None:
    for line in (b'{"a', b"\xff"):
        FILE.write_bytes(b'{"a": 1}\n' + line + b'\n{"b": 2}\n')
        with pytest.raises(InputError, match=r"a\.json: line 2: "):
            whole_lines(FILE)


def test_a_full_disk_leaves_whole_lines_and_is_named() -> None:
    append_all(FILE, LINES[:1])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with JsonlAppender(FILE) as appender:
            resource.setrlimit(resource.RLIMIT_FSIZE, (FILE.stat().st_size + 5, before[1]))
            with pytest.raises(OSError, match="too large") as error:
                appender.append(LINES[1])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert error.value.filename == str(FILE)
    assert whole_lines(FILE) == LINES[:1]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_interrupted_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "scores.json"
    write_atomic(path, "old")

    def die(*_: object) -> None:
        raise OSError(28, "the disk is full")

    monkeypatch.setattr(*{"fsync": (os, "fsync", die), "replace": (Path, "replace", die)}[call])
    with pytest.raises(OSError, match=r"the disk is full: .*/scores\.json"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("empty", "empty: is empty"),
        ("latin", "latin: line 2: is not UTF-8; save the file as UTF-8"),
        ("annotation.json", 'annotation.json: does not exist; did you mean "annotations.json"?'),
        ("no/such.json", "no/such.json: does not exist (nor does its folder no)"),
        ("folder", "folder: is a folder; name a file"),
        ("link", "link: is a link to gone, which does not exist"),
    ],
)
def test_what_is_not_text_is_reported_in_one_line(path: str, message: str) -> None:
    Path("empty").write_bytes(b"\xef\xbb\xbf \r\n\t\n")
    Path("latin").write_bytes(b'["ok",\n"caf\xe9"]')
    Path("annotations.json").write_text("[1]")
    Path("folder").mkdir()
    Path("link").symlink_to("gone")
    with pytest.raises(InputError) as error:
        read_text(Path(path))
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a":\n', "line 1: broken JSON at column 6 (Expecting value)"),
        ("[1]\n[2]", "line 2: broken JSON at column 1 (Extra data)"),
        ("A dog runs.", 'line 1: is not JSON: "A dog runs."; give JSON or JSON lines'),
        ('["NaN", NaN]', "line 1: NaN is not a number in JSON"),
        (f"[{'1' * 5000}]", "line 1: Exceeds the limit"),
        ("[" * 100_000, "line 1: maximum recursion depth exceeded"),
        ('{"a": 1, "\\u0061": 2}', 'line 1: the key "a" is duplicated'),
    ],
)
def test_broken_json_is_reported_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        parse_json(text, file=FILE)
    assert str(error.value).startswith(f"a.json: {message}")
    with pytest.raises(InputError, match=r"line 4[23]: "):
        parse_json(text, file=FILE, line=42)
