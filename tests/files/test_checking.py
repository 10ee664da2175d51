import json
from pathlib import Path
from typing import Any

import pytest

from capeval.errors import InputError, VideoError
from capeval.evaluating.check import check_annotations
from capeval.files.annotations import load_annotations
from capeval.schema import Annotation
from tests.files.making import element, record
from tests.world import typed


def video(index: str, *events: list[dict[str, object]], **fields: Any) -> dict[str, Any]:
    parts = [{"event": "A dog runs, fast.", "visual_elements": list(one)} for one in events]
    return record(index, events=parts, **fields)


def written(folder: Path, *records: object) -> Path:
    file = folder / "set.jsonl"
    file.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in records))
    return file


def test_all_problems_are_found_in_one_pass(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        video("a", [element(weight=4), element("x", type="sound")], []),
        '{"index": "b", "events": [',
        ["no object"],
        video("c", [element()], video="missing"),
        video("c", [element()]),
        video("", [element("", weight=1)], visual_characteristic="Fast"),
        {"events": "none"},
    )

    done = typed(tmp_path, "check", "set.jsonl", "--videos", ".")

    assert done.code == 2
    first, *lines = done.out.splitlines()[:13]
    assert first == "set.jsonl: 11 problems, 1 warning; 1 valid video."
    expected = [
        'line 1: index "a": event 1: element 1: weight: ',
        'line 1: index "a": event 1: element 2: type: ',
        'line 1: index "a": event 2: visual_elements: needs at least 1',
        "line 3: must be a JSON object",
        'line 5: index "c": is duplicated (see line 4)',
        'line 6: index "": event 1: element 1: content: ',
        'line 6: index "": index: ',
        'line 6: index "": visual_characteristic.1: ',
        "line 7: events: ",
        "line 7: index: ",
        "set.jsonl: line 2: broken JSON",
        'warning: line 4: index "c": video: ',
    ]
    for line, start in zip(sorted(lines), sorted(expected), strict=True):
        assert line.startswith(start)
    told = typed(tmp_path, "check", "set.jsonl", "--json")
    assert (told.code, told.json["total"]["videos"]) == (2, 1)
    assert {(p["event"], p["element"]) for p in told.json["problems"]} == {
        *((1, 1), (1, 2), (2, None), (None, None))
    }
    with pytest.raises(InputError):
        load_annotations(file)


def test_doubts_are_warnings(tmp_path: Path) -> None:
    def seconds(one: Annotation) -> float | None:
        if one.index == "b":
            raise VideoError("has no frames", file=Path("b.mp4"))
        return 8.0 if one.index == "a" else 4.0

    file = written(
        tmp_path,
        video("a", [element(), element("He sits.")], [element("A  DOG runs"), element("A hen.")]),
        video("b", [element("Heather sits."), element("This one stands.")], visual_charateristic=1),
        video("c", [element()], note="Other fields are the user's own.", visual_charateristic=1),
    )
    found = check_annotations(file, seconds)
    assert not found.problems
    assert [str(one) for one in found.warnings] == [
        'line 1: index "a": event 1: element 2: begins with "He"; name who or what is meant',
        'line 1: index "a": event 2: element 1: repeats element 1.1',
        'line 2: index "b": event 1: element 2: begins with "This"; name who or what is meant',
        'line 2: index "b": video: b.mp4: has no frames',
        (
            'the field "visual_charateristic" of 2 videos is not read; did you mean '
            '"visual_characteristic"?'
        ),
        "all 7 elements have the weight 3: main and minor content count alike",
    ]
    assert found.total.means()["seconds"] == 6.0


def test_statistics_are_those_of_the_papers_table(tmp_path: Path) -> None:
    hindi = [{"event": "एक आदमी चलता है।", "visual_elements": [element()]}]
    file = written(
        tmp_path,
        video("a", [element()], [element("x", type="camera", weight=1)], domain="Film"),
        video("b", [element()] * 4, visual_characteristic="High-Dynamic,Multi-Scene"),
        record("c", events=hindi, domain="Sports"),
    )

    found = check_annotations(file)

    # "A dog runs, fast." has four words and two marks; combining marks belong to their letters.
    assert found.total.means() == {
        "videos": 3,
        "seconds": None,
        "events": 4 / 3,
        "elements": 7 / 3,
        "elements_per_event": 7 / 4,
        "tokens": 23 / 3,
    }
    assert found.domains["Film"].means()["tokens"] == 12.0
    assert found.domains["Sports"].means()["tokens"] == 5.0
    assert {name: one.elements for name, one in found.characteristics.items()} == {
        "High-Dynamic": 4,
        "Multi-Scene": 4,
    }
    assert found.weights == {("action", 3): 6, ("camera", 1): 1}
    assert found.as_json()["types"]["camera"] == {"1": 1, "2": 0, "3": 0}
    groups = [row["Group"] for row in found.records() if "Group" in row]
    assert groups == ["all", "High-Dynamic", "Multi-Scene", "Film", "Sports"]
