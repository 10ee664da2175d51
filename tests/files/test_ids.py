import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.errors import InputError
from capeval.files.annotations import load_annotations
from capeval.files.captions import read_captions
from capeval.files.ratings import load_human, load_metrics
from capeval.files.references import load_references
from capeval.mcq.question_files import load_questions
from tests.files.making import record
from tests.mcq.question_files import own

NFC, NFD = "caf\u00e9", "cafe\u0301"

READERS: dict[str, tuple[Callable[[Any], dict[str, Any]], Callable[[Path], list[str]]]] = {
    "captions": (
        lambda index: {"index": index, "caption": "A dog."},
        lambda path: [one.index for one in read_captions(path, ()).captions],
    ),
    "annotations": (record, lambda path: [one.index for one in load_annotations(path)]),
    "references": (
        lambda index: {"index": index, "reference": "A dog."},
        lambda path: [one.index for one in load_references(path)],
    ),
    "questions": (lambda id_: own(id=id_), lambda path: [one.id for one in load_questions(path)]),
    "ratings": (
        lambda index: {"video_id": index, "score": 1},
        lambda path: [video for video, _ in load_human(path).keys],
    ),
    "metrics": (
        lambda index: {"video_id": index, "score": 1},
        lambda path: [video for video, _ in load_metrics(path, "m").metrics[0].scores],
    ),
}


@pytest.mark.parametrize("reader", READERS)
def test_ids_are_read_alike_everywhere(reader: str, tmp_path: Path) -> None:
    make, ids = READERS[reader]
    file = tmp_path / "a.json"

    def read(*given: object) -> list[str]:
        file.write_text(json.dumps([*map(make, given)]))
        return ids(file)

    assert read(7, "12", NFD) == ["7", "12", NFC]
    for wrong in (True, 1.5, None):
        with pytest.raises(InputError, match=r"(entry|index) .*(must be|is) "):
            read("7", wrong)
    for pair in ((7, "7"), (7, 7.0), (NFC, NFD)):
        with pytest.raises(InputError, match="is duplicated"):
            read(*pair)


@pytest.mark.parametrize(
    ("captions", "annotations", "message"),
    [
        ({7: "a", 8: "b"}, ["007", "8"], '"7" and "007" look alike: leading zeros were lost'),
        ({7: "a", "7": "b"}, ["7"], "is duplicated"),
        ({1.5: "a"}, ["1.5"], r"caption 1: index: must be text, not 1\.5"),
    ],
)
def test_ids_in_memory(captions: Any, annotations: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        capeval.judge(captions, [record(one) for one in annotations], judge="lexical")


def test_ids_in_memory_may_be_numbers_or_in_another_form() -> None:
    scores = capeval.judge({7: "A dog.", NFD: "A dog."}, [record(7), record(NFC)], judge="lexical")  # type: ignore[dict-item,arg-type]
    assert scores.counts.captioned == 2
