"""Verdicts of TUNA's result files and of tables of elements."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capeval.errors import InputError
from capeval.files.judgments import (
    element_rows,
    load_element_table,
    load_tuna_results,
    table_bytes,
    tuna_result,
)
from capeval.files.ratings import load_human
from capeval.schema import Annotation, Provenance, Scored, Unscored
from capeval.text import storable
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
            'index "TUNA_001": is unknown to the annotations; did you mean "TUNA_0001"?',
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


# Beside any text: formulas, their escapes, quotes and line breaks, and what UTF-8 cannot have.
TEXTS = st.one_of(
    st.text(), st.sampled_from(["'=x", "''-1", "=1", 'a "b"\r\nc', "\r", "", "\ud800"])
)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@settings(deadline=None, max_examples=20)
@given(texts=st.lists(TEXTS, min_size=8, max_size=8))
def test_a_table_of_elements_has_the_verdicts(suffix: str, texts: list[str]) -> None:
    run, judge, index, *contents = (storable(text) + "x" for text in texts[:5])
    events = [
        {"event": text, "visual_elements": [{"content": text, "type": "action", "weight": n}] * n}
        for n, text in enumerate(contents, start=1)
    ]
    annotation = Annotation.model_validate({"index": index, "events": events})
    judged = Scored(
        index=annotation.index,
        candidate_events=tuple(texts[5:]),
        matches=(2, None, 2),
        relations=(("lack",), ("entailment", "contradiction")),
        provenance=Provenance(judge=judge, prompts=None, baseline=True),
    )
    file = Path(f"verdicts{suffix}")

    file.write_bytes(table_bytes(element_rows(run, [(annotation, judged)]), suffix))

    (read,) = load_element_table(file, [annotation])
    assert (read.index, read.relations) == (judged.index, judged.relations)
    assert (read.provenance, read.matches) == (judged.provenance, (2, 2, None))
    kept = [storable(text.replace("\n", " ")) or " " for text in texts[5:]]
    assert read.candidate_events == (kept[0], kept[2], kept[1])
    with pytest.raises(InputError, match="video_id"):
        load_human(file)


def table_of_two() -> tuple[list[Annotation], list[str]]:
    """Two videos, and the lines of the CSV with their verdicts, below the header."""
    (judged,) = loaded(GOOD)
    assert isinstance(judged, Scored)
    names = ("TUNA_0001", "TUNA_0002")
    annotations = [ANNOTATION.model_copy(update={"index": name}) for name in names]
    pairs = [(one, judged.model_copy(update={"index": one.index})) for one in annotations]
    return annotations, table_bytes(element_rows("m", pairs), ".csv").decode().splitlines()


def test_the_order_of_a_table_does_not_matter_and_unknown_videos_are_skipped_on_demand() -> None:
    annotations, (header, *lines) = table_of_two()
    read = []
    for order in (lines, lines[::-1], lines[::2] + lines[1::2]):
        Path("v.csv").write_text("\n".join([header, *order]))
        read.append({one.index: one for one in load_element_table(Path("v.csv"), annotations)})
    assert len(read[0]) == 2
    assert read[0] == read[1] == read[2]
    (one,) = load_element_table(Path("v.csv"), annotations[1:], ignore_unknown=True)
    assert one.index == "TUNA_0002"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("lack", "maybe", "line 3: relation: must be"),
        ('"2.2"', '"2.3"', "other elements than the annotation .2.2, 2.3.: name the --annotations"),
        ('"2.2"', '"2.1"', "TUNA_0001, 2.1 is duplicated"),
        ('"The driver gets out."', '"He gets out."', "other elements than the annotation .1.3.: "),
        ("action", "scene", "other elements than the annotation .1.1, "),
        (",1,", ",2,", "other elements than the annotation .1.1, "),
        ('"TUNA_0002"', '"x"', "unknown to the annotations"),
        ('"TUNA_0002","m"', '"TUNA_0001","n"', "has several runs or judges .m, .*; n, .*: keep"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(old: str, new: str, message: str) -> None:
    annotations, lines = table_of_two()
    text = "\n".join(lines)
    assert old in text
    Path("v.csv").write_text(text.replace(old, new))
    with pytest.raises(InputError, match=message):
        load_element_table(Path("v.csv"), annotations)
