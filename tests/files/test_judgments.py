"""Verdicts of TUNA's result files and of tables of elements."""

import copy
import json
from pathlib import Path
from typing import Any

import pandas
import pytest

from capeval.errors import InputError
from capeval.files.judgments import (
    element_rows,
    load_tuna_results,
    table_bytes,
    tuna_result,
)
from capeval.schema import Annotation, Provenance, Scored, Unscored
from tests.files.making import annotation_of

pytestmark = pytest.mark.usefixtures("alone")

FILE = Path("result.json")
CONTENTS = [
    ["The camera pans left.", "A “red” car stands by the road.", "The driver gets out."],
    ["The camera pans left.", "It rains."],
]
ANNOTATION = annotation_of(*((" ".join(one), *one) for one in CONTENTS), index="TUNA_0001")
LABELS = [["entailment", "lack", "contradiction"], ["lack", "entailment"]]
GOOD: dict[str, Any] = {
    "index": "TUNA_0001",
    "candidate_caption": "A car. It rains. The end.",
    "candidate_events": ["A car.", "It rains.", "The end."],
    "match_ids": [[1, 1], [2, 2], [3, None]],
    "relationship": [
        {
            "candidate_event": said,
            "visual_elements": [
                {"content": content, "relationship": label}
                for content, label in zip(contents, labels, strict=True)
            ],
        }
        for said, contents, labels in zip(["A car.", "It rains."], CONTENTS, LABELS, strict=True)
    ],
}


def loaded(*results: object, ignore_unknown: bool = False) -> list[Scored | Unscored]:
    FILE.write_text(json.dumps(results))
    return load_tuna_results(FILE, FILE.read_text(), [ANNOTATION], ignore_unknown=ignore_unknown)


def element(content: str, relationship: object = "lack") -> dict[str, object]:
    return {"content": content, "relationship": relationship}


def changed(*path: str | int, to: object) -> dict[str, Any]:
    result = copy.deepcopy(GOOD)
    inner: Any = result
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = to
    return result


def elements(*given: dict[str, object]) -> dict[str, Any]:
    """GOOD with other elements in its second event."""
    return changed("relationship", 1, "visual_elements", to=list(given))


PAN, RAIN = (element("The camera pans left."), element("It rains.", "entailment"))


@pytest.mark.parametrize(
    ("result", "notes"),
    [
        (GOOD, 0),
        (elements(RAIN, PAN), 0),
        (elements(element("the CAMERA  pans left"), RAIN), 0),
        (elements(PAN, element("It rains.", " Entailment. ")), 0),
        (elements(PAN, RAIN, PAN), 1),
        (changed("match_ids", 2, to=[3, "None"]), 0),
    ],
)
def test_what_can_mean_one_thing_only_is_read(result: dict[str, Any], notes: int) -> None:
    (judgment,) = loaded(result)
    assert isinstance(judgment, Scored), judgment
    assert judgment.candidate_events == ("A car.", "It rains.", "The end.")
    assert judgment.relations == tuple(map(tuple, LABELS))
    assert judgment.matches == (1, 2, None)
    assert len(judgment.notes) == notes


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (elements(PAN), "event 2: element(s) not answered: "),
        (elements(PAN, RAIN, element("A cat sleeps.")), "event 2 has no visual element"),
        (elements(PAN, RAIN, element("It rains.", "contradiction")), "answered twice, differently"),
        (elements(PAN, element("It rains.", "partial")), "must be one of entailment"),
        (
            changed("relationship", to=GOOD["relationship"][:1]),
            "relationship has 1 events, the annotation 2",
        ),
        (changed("relationship", to=GOOD["relationship"][::-1]), "event 1 has no visual element"),
        (changed("match_ids", 1, to=[2, 3]), "it matches reference event 3 of 2"),
        (changed("match_ids", 1, to=[2, 0]), "match_ids.2.2: must be at least 1, not 0"),
        (changed("match_ids", 1, to=[2, "2"]), "match_ids.2.2: must be a whole number"),
        (changed("match_ids", to=[[1, 1], [3, None]]), "candidate events in order"),
        ({"index": "TUNA_0001"}, "candidate_events: is missing"),
    ],
)
def test_what_does_not_fit_is_unscored_with_the_reason(result: dict[str, Any], reason: str) -> None:
    (judgment,) = loaded(result)
    assert isinstance(judgment, Unscored), judgment
    assert reason in judgment.reason
    assert judgment.relations == ()


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ([{}], "entry 1: index: is missing"),
        ([GOOD, 5], "entry 2: must be a JSON object, not 5"),
        ([GOOD, GOOD], 'index "TUNA_0001": is duplicated'),
        (
            [GOOD | {"index": "TUNA_001"}],
            'index "TUNA_001": is not in the annotations; did you mean "TUNA_0001"?',
        ),
        ([], "has no records"),
    ],
)
def test_a_file_that_does_not_belong_to_the_annotations_is_refused(
    results: list[object], message: str
) -> None:
    with pytest.raises(InputError) as error:
        loaded(*results)
    assert str(error.value).startswith(f"result.json: {message}")


@pytest.mark.parametrize(
    ("contents", "given", "read"),
    [
        (("It rains.", "It rains."), ("It rains.", "it rains"), ("entailment", "lack")),
        # Equal but for their signs: each has its own label.
        (
            ("It reads +5.", "It reads -5."),
            ("It reads -5.", "It reads +5."),
            ("lack", "entailment"),
        ),
        (("It reads +5.", "It reads -5."), ("It reads 5.", "It reads +5."), None),
    ],
)
def test_elements_alike_take_their_own_labels(
    contents: tuple[str, str], given: tuple[str, str], read: tuple[str, str] | None
) -> None:
    annotation = annotation_of(("It happens.", *contents), index="v")
    labels = [element(given[0], "entailment"), element(given[1], "lack")]
    result = {
        "index": "v",
        "candidate_events": ["It happens."],
        "match_ids": [[1, 1]],
        "relationship": [{"visual_elements": labels}],
    }
    FILE.write_text(json.dumps([result]))
    (judgment,) = load_tuna_results(FILE, FILE.read_text(), [annotation])
    assert judgment.relations == ((read,) if read else ())


def test_what_is_written_is_what_was_read() -> None:
    (judged,) = loaded(GOOD)
    assert isinstance(judged, Scored)
    assert tuna_result(ANNOTATION, GOOD["candidate_caption"], judged) == GOOD


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_of_elements_has_the_verdicts(suffix: str) -> None:
    contents = ["=1+1", 'a "b"\r\nc', "c"]
    (event,) = [
        {
            "event": "Leaves.",
            "visual_elements": [
                {"content": text, "type": "action", "weight": n}
                for n, text in enumerate(contents, start=1)
            ],
        }
    ]
    annotation = Annotation.model_validate({"index": "v", "events": [event]})
    judged = Scored(
        index="v",
        candidate_events=("One.", "Two\nlines.", "-3"),
        matches=(1, None, 1),
        relations=(("lack", "entailment", "contradiction"),),
        provenance=Provenance(judge="j", prompts=None, baseline=True),
    )
    file = Path(f"verdicts{suffix}")

    file.write_bytes(table_bytes(element_rows("m", [(annotation, judged)]), suffix))

    csv = suffix == ".csv"
    table = pandas.read_csv(file, dtype=str) if csv else pandas.read_parquet(file)
    rows = table.to_dict("records")
    assert [row["relation"] for row in rows] == ["lack", "entailment", "contradiction"]
    assert [str(row["weight"]) for row in rows] == ["1", "2", "3"]
    assert [row["element_id"] for row in rows] == ["1.1", "1.2", "1.3"]
    shown = "'=1+1" if csv else "=1+1"
    assert [row["content"] for row in rows] == [shown, contents[1], "c"]
    assert {(row["run"], row["baseline"], row["candidate"]) for row in rows} == {
        ("m", "yes", "One.\n-3")
    }
    assert {row["unmatched"] for row in rows} == {"Two lines."}
