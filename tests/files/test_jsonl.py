from __future__ import annotations

import os
import resource
import signal
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capeval.errors import InputError
from capeval.files.jsonl import (
    JsonlAppender,
    dumps,
    json_lines,
    read_text,
    whole_lines,
    write_atomic,
    write_jsonl,
)

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
same_folder = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def append_all(path: Path, lines: list[dict[str, Any]]) -> None:
    with JsonlAppender(path) as appender:
        for line in lines:
            appender.append(line)


@same_folder
@given(st.lists(LINE, min_size=1))
def test_what_is_written_is_read_the_same(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    written, appended = tmp_path / "written.jsonl", tmp_path / "appended.jsonl"
    appended.unlink(missing_ok=True)
    write_jsonl(written, lines)
    append_all(appended, lines)
    assert written.read_bytes() == appended.read_bytes()
    assert written.read_bytes().count(b"\n") == len(lines)
    assert whole_lines(written) == lines
    assert list(json_lines(read_text(written), file=written)) == list(enumerate(lines, start=1))


def test_file_torn_at_any_byte_keeps_its_whole_lines_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "torn.jsonl"
    append_all(path, LINES)
    data = path.read_bytes()
    ends = [place for place, byte in enumerate(data) if byte == ord("\n")]
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        kept = sum(end <= cut for end in ends)
        assert whole_lines(path) == LINES[:kept], cut
        append_all(path, LINES[kept:])
        assert path.read_bytes() == data, cut


def test_damage_before_the_last_line_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "damaged.jsonl"
    for line in (b'{"a', b"\xff"):
        path.write_bytes(b'{"a": 1}\n' + line + b'\n{"b": 2}\n')
        with pytest.raises(InputError, match=r"damaged\.jsonl: line 2: "):
            whole_lines(path)


def test_a_full_disk_leaves_whole_lines_and_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append_all(path, LINES[:1])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with JsonlAppender(path) as appender:
            resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 5, before[1]))
            with pytest.raises(OSError, match="too large") as error:
                appender.append(LINES[1])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert error.value.filename == str(path)
    assert whole_lines(path) == LINES[:1]


def test_unicode_is_written_unescaped_if_utf8_has_it() -> None:
    assert dumps("狗") == '"狗"'
    assert dumps("狗\ud800") == r'"\u72d7\ud800"'


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_interrupted_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "scores.json"
    write_atomic(path, "old")

    def die(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(*{"fsync": (os, "fsync", die), "replace": (Path, "replace", die)}[call])
    with pytest.raises(OSError, match="the disk is full"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_only_files_are_replaced(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link, tmp_path):
        with pytest.raises(InputError, match="is not a regular file"):
            write_atomic(path, "new")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert sorted(tmp_path.iterdir()) == [link, pipe]


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_one_and_its_file_is_written(tmp_path: Path, there: bool) -> None:
    file, link = tmp_path / "deep" / "file", tmp_path / "link"
    link.symlink_to(file)
    if there:
        write_atomic(file, "old")
    write_atomic(link, "new")
    assert (link.is_symlink(), file.read_text()) == (True, "new")
    assert list(file.parent.iterdir()) == [file]
