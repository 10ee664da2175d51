from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capeval.errors import InputError
from capeval.files.annotations import annotations_hash, load_annotations
from tests.files.making import record

pytestmark = pytest.mark.usefixtures("alone")

FILE = Path("a.json")
ELEMENT = {"content": "A dog runs.", "type": "action", "weight": 3}


def element(**fields: Any) -> dict[str, Any]:
    return record(events=[{"event": "A dog runs.", "visual_elements": [ELEMENT | fields]}])


_AT = 'entry 1: index "v": events.1.visual_elements.1'
WRONG: dict[str, tuple[object, str]] = {
    "no records": ([], "has no records"),
    "null": ([record("u"), None], "entry 2: must be a JSON object, not null"),
    "unknown type": ([element(type="cammera")], f"{_AT}.type: Input should be 'camera', 'scene'"),
    "unknown characteristic": (
        [record(visual_characteristic="Multi-Scene, High-Dinamic")],
        "entry 1: index \"v\": visual_characteristic.2: Input should be 'Low-Dynamic', 'High-D",
    ),
    **{
        f"weight {shown}": (
            [element(weight=json.loads(shown))],
            f"{_AT}.weight: must be the integer 1, 2 or 3, not {shown}",
        )
        for shown in ("true", '"1"', "1.0", "0", "4", "null")
    },
    "content blank": ([element(content=" \n")], f"{_AT}.content: String should match pattern"),
    "duplicate index": (
        [record("u"), record(), record()],
        'entry 3: index "v": index: is duplicated (see entry 2)',
    ),
    "no events": ([record(events=[])], 'entry 1: index "v": events: needs at least 1'),
    "hostile index": (
        [record("\x1b[31m\n" + "x" * 10_000, events=[])],
        f'entry 1: index "\\u001b[31m\\n{"x" * 46}…: events: needs at least 1',
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_annotations_are_reported_in_one_line(case: str) -> None:
    value, message = WRONG[case]
    FILE.write_text(json.dumps(value))
    with pytest.raises(InputError) as error:
        load_annotations(FILE)
    text = str(error.value)
    assert text.startswith(f"a.json: {message}")
    assert error.value.exit_code == 2
    assert text.isprintable()
    assert len(text) <= 300


LAYOUTS: dict[str, Callable[[list[dict[str, Any]]], str]] = {
    "list": json.dumps,
    "JSON lines": lambda records: "\n".join(map(json.dumps, records)) + "\n",
    "CRLF": lambda records: "\r\n".join(map(json.dumps, records)) + "\r\n",
    "byte order mark": lambda records: "\ufeff" + json.dumps(records),
    "foreign fields": lambda records: json.dumps([r | {"url": "x", "n": None} for r in records]),
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
