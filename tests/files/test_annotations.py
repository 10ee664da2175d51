from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capeval.errors import InputError
from capeval.files.annotations import annotations_hash, load_annotations
from tests.files.making import record

FILE = Path("a.json")
ELEMENT = {"content": "A dog runs.", "type": "action", "weight": 3}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def element(**fields: Any) -> dict[str, Any]:
    return record(events=[{"event": "A dog runs.", "visual_elements": [ELEMENT | fields]}])


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in record().items() if key != name}


_AT = 'entry 1: index "v": events.1.visual_elements.1'
WRONG: dict[str, tuple[object, str]] = {
    "no records": ([], "has no records"),
    "a number": ([7], "entry 1: must be a JSON object, not 7"),
    "null": ([record("u"), None], "entry 2: must be a JSON object, not null"),
    "unknown type": ([element(type="cammera")], f"{_AT}.type: Input should be 'camera', 'scene'"),
    "type in capitals": ([element(type="ACTION")], f"{_AT}.type: Input should be 'camera', 'sc"),
    "type a list": ([element(type=["action"])], f"{_AT}.type: Input should be 'camera', 'scene'"),
    "unknown characteristic": (
        [record(visual_characteristic="Multi-Scene, High-Dinamic")],
        "entry 1: index \"v\": visual_characteristic.2: Input should be 'Low-Dynamic', 'High-D",
    ),
    "characteristic a number": (
        [record(visual_characteristic=5)],
        'entry 1: index "v": visual_characteristic: Input should be a valid tuple, not 5',
    ),
    "domain a number": (
        [record(domain=5)],
        'entry 1: index "v": domain: Input should be a valid string, not 5',
    ),
    "weight true": (
        [element(weight=True)],
        f"{_AT}.weight: must be the integer 1, 2 or 3, not true",
    ),
    "weight 1.0": ([element(weight=1.0)], f"{_AT}.weight: must be the integer 1, 2 or 3, not 1.0"),
    "weight text": ([element(weight="1")], f'{_AT}.weight: must be the integer 1, 2 or 3, not "1"'),
    "weight 4": ([element(weight=4)], f"{_AT}.weight: must be the integer 1, 2 or 3, not 4"),
    "content null": ([element(content=None)], f"{_AT}.content: Input should be a valid string"),
    "content blank": ([element(content=" \n")], f"{_AT}.content: String should match pattern"),
    "element a string": (
        [record(events=[{"event": "A dog.", "visual_elements": ["A dog."]}])],
        f"{_AT}: Input should be a valid dictionary",
    ),
    "duplicate index": (
        [record("u"), record(), record()],
        'entry 3: index "v": index: is duplicated (see entry 2)',
    ),
    "no index": ([record("u"), without("index")], "entry 2: index: Field required"),
    "index a number": (
        [record() | {"index": 5}],
        "entry 1: index: Input should be a valid string, not 5",
    ),
    "events missing": ([without("events")], 'entry 1: index "v": events: Field required'),
    "no events": ([record(events=[])], 'entry 1: index "v": events: Tuple should have at least 1'),
    "events null": ([record(events=None)], 'entry 1: index "v": events: Input should be a valid t'),
    "event without elements": (
        [record(events=[*record()["events"], {"event": "A dog.", "visual_elements": []}])],
        'entry 1: index "v": events.2.visual_elements: Tuple should have at least 1 item',
    ),
    "unpaired surrogate": ([element(content="a \ud800")], f"{_AT}.content: Input should be"),
    "hostile index": (
        [record("\x1b[31m\n" + "x" * 10_000, events=[])],
        f'entry 1: index "\\u001b[31m\\n{"x" * 46}…: events: Tuple should have at least 1 item',
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_annotations_are_told_in_one_line(case: str) -> None:
    value, message = WRONG[case]
    FILE.write_text(json.dumps(value))
    with pytest.raises(InputError) as error:
        load_annotations(FILE)
    told = str(error.value)
    assert told.startswith(f"a.json: {message}")
    assert error.value.exit_code == 2
    assert told.isprintable()
    assert len(told) <= 300


def test_wrong_json_line_is_told_by_its_number() -> None:
    FILE.write_text(
        "\n".join([json.dumps(record("a")), "", '{"index": "b",', json.dumps(record())])
    )
    with pytest.raises(InputError, match=r"^a\.json: line 3: broken JSON at column 15 "):
        load_annotations(FILE)


def test_duplicate_index_in_json_lines_names_both_lines() -> None:
    FILE.write_text("\n".join([json.dumps(record()), "", json.dumps(record())]))
    with pytest.raises(InputError, match=r"line 3: .*is duplicated \(see line 1\)"):
        load_annotations(FILE)


LAYOUTS: dict[str, Callable[[list[dict[str, Any]]], str]] = {
    "list": json.dumps,
    "indented list": lambda records: json.dumps(records, indent=2),
    "JSON lines": lambda records: "\n".join(map(json.dumps, records)) + "\n",
    "no last line break": lambda records: "\n".join(map(json.dumps, records)),
    "blank lines": lambda records: "\n\n" + "\n \n".join(map(json.dumps, records)) + "\n\n",
    "CRLF": lambda records: "\r\n".join(map(json.dumps, records)) + "\r\n",
    "list with CRLF": lambda records: json.dumps(records, indent=1).replace("\n", "\r\n"),
    "byte order mark": lambda records: "\ufeff" + json.dumps(records),
    "lines after a mark": lambda records: "\ufeff" + "\n".join(map(json.dumps, records)),
    "foreign fields": lambda records: json.dumps([r | {"url": "x", "n": None} for r in records]),
    "spaces after commas": lambda records: json.dumps(
        [r | {"visual_characteristic": "High-Dynamic, Multi-Scene"} for r in records]
    ),
    "characteristics in a list": lambda records: json.dumps(
        [r | {"visual_characteristic": ["High-Dynamic", "Multi-Scene"]} for r in records]
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_loads_the_same_and_hashes_the_same(layout: str) -> None:
    records = [
        record(index, visual_characteristic="High-Dynamic,Multi-Scene", domain="Film")
        for index in ("b", "a", "U\u2028 \u0085\U0001f415")
    ]
    FILE.write_text(json.dumps(records))
    expected = load_annotations(FILE)
    FILE.write_bytes(LAYOUTS[layout](records).encode())
    loaded = load_annotations(FILE)
    assert loaded == expected
    assert annotations_hash(loaded) == annotations_hash(expected)
    assert [annotation.index for annotation in loaded] == ["b", "a", "U\u2028 \u0085\U0001f415"]


def test_line_separators_inside_strings_do_not_end_a_line() -> None:
    text = "\n".join(
        json.dumps(record(i + "\u2028\u2029\u0085\x0b"), ensure_ascii=False) for i in "ab"
    )
    FILE.write_text(text.replace("\x0b", ""), encoding="utf-8")
    assert len(load_annotations(FILE)) == 2


def test_hash_does_not_depend_on_the_video_file_but_on_what_is_judged() -> None:
    def hashed(*records: dict[str, Any]) -> str:
        FILE.write_text(json.dumps(records))
        return annotations_hash(load_annotations(FILE))

    same = hashed(record())
    assert hashed(record(video="elsewhere.mp4")) == same
    assert hashed(record(note="x")) == same
    others = {
        hashed(element(weight=2)),
        hashed(element(type="scene")),
        hashed(element(content="A cat runs.")),
        hashed(record(domain="Film")),
        hashed(record(visual_characteristic="Low-Dynamic")),
        hashed(record("w")),
        hashed(record(), record("w")),
    }
    assert len(others | {same}) == 8
