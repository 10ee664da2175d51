"""The text of messages: what a mistyped name means, and what pydantic finds, in plain English."""

from __future__ import annotations

import sys
import time
import unicodedata
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from capeval.text import complaint, either, normal_form, similar

NAMES = ["camera", "scene", "action", "attribute"]


@pytest.mark.parametrize(
    ("typed", "valid", "meant"),
    [
        ("cammera", NAMES, "camera"),
        ("ACTION", NAMES, "action"),
        ("acton", NAMES, "action"),
        ("sence", NAMES, "scene"),
        ("score", NAMES, None),
        ("a", NAMES, None),
        ("attr", NAMES, "attribute"),
        ("att", NAMES, None),
        ("video", NAMES, None),
        ("index", ["idx", "caption"], "idx"),
        ("jugde", ["judge", "generate"], "judge"),
        ("f", ["sf"], None),
        ("form", ["from"], "from"),
        ("hello", ["help"], None),
        ("tuna", ["tuna-cap-v1"], "tuna-cap-v1"),
        ("qwen", ["qwen-7b", "qwen-72b"], None),
        ("sample_99", ["sample_01", "sample_02"], None),
        ("TUNA_1", ["TUNA_0010", "TUNA_0001"], "TUNA_0001"),
        ("sample_11", ["sample_01"], "sample_01"),
        ("TUNA_001", ["TUNA_0001"], "TUNA_0001"),
        ("V11", ["V1", "V222"], "V1"),
        ("TUNA_0123", ["TUNA_0987"], None),
        ("llava-vido-7b", ["llava-video-7b", "llava-onevision-7b"], "llava-video-7b"),
        ("wmt", ["tuna", "wmt23"], "wmt23"),
        ("", NAMES, None),
        (5, NAMES, None),
        ("x" * 1000, ["x" * 100, "y" * 1000], None),
    ],
)
def test_only_a_name_that_is_likely_meant_is_suggested(
    typed: Any, valid: list[str], meant: str | None
) -> None:
    assert similar(typed, valid) == meant


class Inner(BaseModel):
    content: str


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    index: str
    count: Annotated[int, Field(ge=1, lt=5)] = 1
    share: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 1.0
    on: bool = True
    kind: Literal["a", "bcd"] = "a"
    parts: Annotated[list[Inner], Field(min_length=1, max_length=2)] = []
    pair: tuple[int, ...] = ()
    table: dict[str, int] = {}
    nothing: None = None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"idx": "v"}, 'index: is missing; rename "idx" to "index"'),
        ({"count": 1}, "index: is missing"),
        ({"indices": 1, "count": 1}, "index: is missing"),
        ({"index": 5}, "index: must be a string, not 5"),
        ({"index": "v", "counts": 1}, 'counts: is not a known key; did you mean "count"?'),
        ({"index": "v", "zzz": 1}, "zzz: is not a known key; remove it"),
        ({"index": "v", "count": 0}, "count: must be at least 1, not 0"),
        ({"index": "v", "count": 5}, "count: must be less than 5, not 5"),
        ({"index": "v", "count": "5"}, 'count: must be a whole number, not "5"'),
        ({"index": "v", "count": 1.5}, "count: must be a whole number, not 1.5"),
        ({"index": "v", "share": 0}, "share: must be more than 0, not 0"),
        ({"index": "v", "share": 2}, "share: must be at most 1, not 2"),
        ({"index": "v", "share": "x"}, 'share: must be a number, not "x"'),
        ({"index": "v", "share": float("nan")}, "share: must be a finite number, not NaN"),
        ({"index": "v", "on": 1}, "on: must be true or false, not 1"),
        ({"index": "v", "kind": "bcde"}, '"bcde" is unknown; one of a, bcd; did you mean "bcd"?'),
        ({"index": "v", "parts": 5}, "parts: must be a list, not 5"),
        ({"index": "v", "parts": []}, "parts: must have at least one entry"),
        ({"index": "v", "parts": [{"content": "x"}] * 3}, "parts: has too many entries"),
        ({"index": "v", "parts": [{"contents": "x"}]}, 'rename "contents" to "content"'),
        ({"index": "v", "parts": [5]}, "parts.1: must be a JSON object, not 5"),
        ({"index": "v", "pair": 5}, "pair: must be a list, not 5"),
        ({"index": "v", "table": 5}, "table: must be a JSON object, not 5"),
        ({"index": "v", "nothing": 5}, "nothing: must be null, not 5"),
    ],
)
def test_what_pydantic_finds_is_in_plain_english(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as faults:
        Model.model_validate(values)
    told = ": ".join(complaint(faults.value, list(Model.model_fields)))
    assert message in told
    assert "Input should" not in told


def test_a_name_that_begins_with_what_was_typed_comes_before_a_similar_one() -> None:
    assert similar("gpt-4o", ["gpt-4", "gpt-4o-2024-08-06"]) == "gpt-4o-2024-08-06"
    assert similar("gpt-4o", ["gpt-4.1", "gpt-4o-a", "gpt-4o-b"]) is not None


def test_alternatives_are_joined_as_in_a_sentence() -> None:
    assert [either(each) for each in ([], ["a"], ["a", "b"])] == ["", "a", "a or b"]


# A starter and up to 29 marks, in any order.
CLUSTERS = st.tuples(
    st.characters(exclude_categories=["Cs", "Mn", "Mc"]).filter(lambda c: c not in "\uff9e\uff9f"),
    st.text("\u0301\u0323\u0315\u0344\u0345\u0f73\u302e\u3099\uff9e", max_size=29),
).map("".join)


@given(st.lists(CLUSTERS).map("".join) | st.text(max_size=29), st.sampled_from(["NFC", "NFKC"]))
def test_a_text_with_few_marks_in_a_row_has_its_normal_form(
    text: str, form: Literal["NFC", "NFKC"]
) -> None:
    assert normal_form(text, form) == unicodedata.normalize(form, text)


def test_a_run_of_any_combining_mark_is_divided() -> None:
    for character in map(chr, range(sys.maxunicode + 1)):
        if unicodedata.combining(unicodedata.normalize("NFKD", character)[0]):
            assert "\u034f" in normal_form(31 * character)
    assert normal_form("é😀漢" * 40) == "é😀漢" * 40


@pytest.mark.parametrize("unit", ["\u0301\u0323", "\u0315\u0301\u0323\u0334", "\uff9e\u0323"])
def test_marks_are_normalised_in_linear_time(unit: str) -> None:
    began = time.process_time()
    assert len(normal_form("a" + unit * (200_000 // len(unit)))) > 199_000
    # It takes 20 s or more where the marks are sorted all at once.
    assert time.process_time() - began < 2
