"""Text and JSON: read as written, or refused in one line with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from capeval.errors import InputError
from capeval.files.jsonl import first_line, parse_json, read_text

pytestmark = pytest.mark.usefixtures("alone")

FILE = Path("a.json")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_text_is_read_whatever_its_mark(encoding: str) -> None:
    FILE.write_bytes('["狗"]'.encode(encoding))
    assert read_text(FILE) == '["狗"]'


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "a.json: is empty"),
        (b"\xef\xbb\xbf \r\n\t\n", "a.json: is empty"),
        (b'["ok",\n"caf\xe9"]', "a.json: line 2: is not UTF-8; save the file as UTF-8"),
    ],
)
def test_what_is_not_text_is_reported_in_one_line(data: bytes, message: str) -> None:
    FILE.write_bytes(data)
    for read in (read_text, first_line) if b"ok" not in data else (read_text,):
        with pytest.raises(InputError) as error:
            read(FILE)
        assert str(error.value) == message


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("annotation.json", 'annotation.json: does not exist; did you mean "annotations.json"?'),
        ("no/such.json", "no/such.json: does not exist (nor does its folder no)"),
        ("folder", "folder: is a folder; name a file"),
        ("link", "link: is a link to gone, which does not exist"),
    ],
)
def test_a_path_without_a_file_is_reported_in_one_line(path: str, message: str) -> None:
    Path("annotations.json").write_text("[1]")
    Path("folder").mkdir()
    Path("link").symlink_to("gone")
    for read in (read_text, first_line):
        with pytest.raises(InputError) as error:
            read(Path(path))
        assert str(error.value) == message


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b'{"a": 1}\n{"b"', '{"a": 1}'),
        (b"\xef\xbb\xbf\n\n  [\n1]", "["),
        (b'{"a": 1}\n{"b": "\xe2\x80', '{"a": 1}'),
        ('{"a": "\u2028"}\n'.encode(), '{"a": "\u2028"}'),
    ],
)
def test_of_the_first_line_the_rest_is_not_looked_at(data: bytes, line: str) -> None:
    FILE.write_bytes(data)
    assert first_line(FILE) == line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a":\n', "line 2: broken JSON at column 1 (Expecting value)"),
        ("[1]\n[2]", "line 2: broken JSON at column 1 (Extra data)"),
        ('["a\nb"]', "line 1: broken JSON at column 4 (Invalid control character at)"),
        ("A dog runs.", 'line 1: is not JSON: "A dog runs."; give JSON or JSON lines'),
        ('["NaN", NaN]', "line 1: NaN is not a number in JSON"),
        (f"[{'1' * 5000}]", "line 1: Exceeds the limit"),
        ('{"a": 1, "\\u0061": 2}', 'line 1: the key "a" is duplicated'),
        ("[" * 100_000, "line 1: is nested too deeply"),
    ],
)
def test_broken_json_is_reported_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        parse_json(text, file=FILE)
    assert str(error.value).startswith(f"a.json: {message}")
    with pytest.raises(InputError, match=r"line 4[23]: "):
        parse_json(text, file=FILE, line=42)
