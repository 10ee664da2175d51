from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capeval.errors import InputError
from capeval.files.reading import parse_json, read_text

FILE = Path("a.json")
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)

UNREADABLE = {
    "empty": (b"", "a.json: is empty"),
    "blank": (b" \r\n\t\n", "a.json: is empty"),
    "only a mark": (b"\xef\xbb\xbf", "a.json: is empty"),
    "UTF-16 LE": ('["a"]'.encode("utf-16-le"), "a.json: is UTF-16 or UTF-32; save it as UTF-8"),
    "UTF-16 BE": ('["a"]'.encode("utf-16-be"), "a.json: is UTF-16 or UTF-32; save it as UTF-8"),
    "UTF-16 marked": ('["a"]'.encode("utf-16"), "a.json: is UTF-16 or UTF-32; save it as UTF-8"),
    "UTF-32": ('["a"]'.encode("utf-32"), "a.json: is UTF-16 or UTF-32; save it as UTF-8"),
    "UTF-16 Chinese": (
        '["狗"]'.encode("utf-16"),
        "a.json: is UTF-16 or UTF-32; save it as UTF-8",
    ),
    "Latin-1": (
        b'["ok",\n"caf\xe9"]',
        "a.json: line 2: byte 0xe9 is not UTF-8; save the file as UTF-8",
    ),
    "surrogate bytes": (
        b'["\xed\xa0\x80"]',
        "a.json: line 1: byte 0xed is not UTF-8; save the file as UTF-8",
    ),
    "gzip": (b"\x1f\x8b\x08\0\0", "a.json: is compressed; unpack it first"),
    "xz": (b"\xfd7zXZ\0\0", "a.json: is compressed; unpack it first"),
}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_is_not_text_is_told_in_one_line(case: str) -> None:
    data, message = UNREADABLE[case]
    FILE.write_bytes(data)
    with pytest.raises(InputError) as error:
        read_text(FILE)
    assert str(error.value) == message


def test_byte_order_mark_is_read() -> None:
    FILE.write_bytes(b"\xef\xbb\xbf[1]")
    assert read_text(FILE) == "[1]"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("annotation.json", 'annotation.json: does not exist; did you mean "annotations.json"?'),
        ("zzz", "zzz: does not exist"),
        ("no/such.json", "no/such.json: does not exist (nor does its folder no)"),
        ("folder", "folder: is a folder; name a file"),
        ("annotations.json/x", "annotations.json/x: cannot be read (Not a directory)"),
        ("a\x00b", r"a\x00b: cannot be read (its name has a NUL character)"),
        ("n" * 300, f"{'n' * 299}…"),
    ],
)
def test_path_that_is_no_file_is_told_in_one_line(path: str, message: str) -> None:
    Path("annotations.json").write_text("[1]")
    Path("folder").mkdir()
    with pytest.raises(InputError) as error:
        read_text(Path(path))
    assert str(error.value) == message


BROKEN = {
    "cut off": ('{"a":\n', "line 2: broken JSON at column 1 (Expecting value)"),
    "trailing comma": (
        "[1,\n2,\n]",
        "line ",
    ),
    "two values": ("[1]\n[2]", "line 2: broken JSON at column 1 (Extra data)"),
    "raw line break": (
        '["a\nb"]',
        "line 1: broken JSON at column 4 (Invalid control character at)",
    ),
    "NUL": ('["a\x00b"]', "line 1: broken JSON at column 4 (Invalid control character at)"),
    "Python": ("{'a': 1}", "line 1: broken JSON at column 2 "),
    "NaN": ('["NaN",\n"a",\nNaN]', "line 3: NaN is not a number in JSON"),
    "Infinity": ("[1,\nInfinity]", "line 2: Infinity is not a number in JSON"),
    "-Infinity": ("[\n-Infinity]", "line 2: -Infinity is not a number in JSON"),
    "beyond a float": ("[1,\n1e999]", "line 2: 1e999 is not a number in JSON"),
    "5000 digits": (
        f'["{"1" * 5000}",\n-{"1" * 5000}]',
        "line 2: has a number of more than 4,300 digits",
    ),
    "doubled": ('{"a": 1,\n"a": 2}', 'line 2: the key "a" is duplicated'),
    "doubled, escaped": ('{"a": 1,\n"\\u0061": 2}', 'line 2: the key "\\u0061" is duplicated'),
    "doubled later": (
        '[{"a": "{"},\n{"a": "\\"a\\":", "b": {"a": 1}},\n{"a": 1,\n"b": [],\n"a" : 2}]',
        'line 5: the key "a" is duplicated',
    ),
    "nested": ("[" * 100_000, "line 1: is nested too deeply"),
    "nested objects": ('{"a":' * 100_000, "line 1: is nested too deeply"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_json_is_told_with_its_line(case: str) -> None:
    text, message = BROKEN[case]
    with pytest.raises(InputError) as error:
        parse_json(text, file=FILE)
    assert str(error.value).startswith(f"a.json: {message}"[: len(str(error.value))])
    assert len(str(error.value).splitlines()) == 1


def test_lines_are_counted_from_where_the_text_starts() -> None:
    with pytest.raises(InputError, match="line 42: "):
        parse_json("{", file=FILE, line=42)


@settings(deadline=None)
@given(JSON)
def test_what_json_writes_is_read_the_same(value: object) -> None:
    assert parse_json(json.dumps(value), file=FILE) == value
    assert parse_json(json.dumps(value, ensure_ascii=False, indent=1), file=FILE) == value


@settings(deadline=None)
@given(st.text())
def test_any_text_is_read_or_refused_as_input(text: str) -> None:
    with suppress(InputError):
        parse_json(text, file=FILE)


def test_a_link_to_nothing_is_told_as_such(tmp_path: Path) -> None:
    link = tmp_path / "link.csv"
    link.symlink_to("gone.csv")
    with pytest.raises(InputError, match=r"link.csv: is a link to gone.csv, which does not exist"):
        read_text(link)
