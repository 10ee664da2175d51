"""The first line of a file: told whatever the file's end is like, or what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from capeval.errors import InputError
from capeval.files.reading import first_line


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b'{"a": 1}\n{"b"', '{"a": 1}'),
        (b"\xef\xbb\xbf\n\n  [\n1]", "["),
        (b'{"a": 1}\n{"b": "\xe2\x80', '{"a": 1}'),
        (b'{"a": "\xe2\x80', '{"a": "'),
        ('{"a": "\u2028"}\n'.encode(), '{"a": "\u2028"}'),
        (b'{"a": 1}\n\xff\n', '{"a": 1}'),
    ],
)
def test_the_rest_is_not_looked_at(tmp_path: Path, data: bytes, line: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    assert first_line(path) == line


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf \n\n", "is empty"),
        (b'{"a": "\xff"}\n', "line 1: byte 0xff is not UTF-8"),
        (b'\n{"a": "\xe2\n', "line 2: byte 0xe2 is not UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "is UTF-16 or UTF-32"),
        ('{"a": 1}'.encode("utf-16-le"), "is UTF-16 or UTF-32"),
    ],
)
def test_what_is_no_text_is_refused_as_everywhere(tmp_path: Path, data: bytes, told: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(InputError, match=told):
        first_line(path)


def test_what_is_no_file_is_refused_as_everywhere(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        first_line(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        first_line(tmp_path / "none")
