"""The text of messages: what a mistyped name means, and what pydantic finds."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from capeval.text import complaint, nearest, normal_form, words

NAMES = ["camera", "scene", "action", "attribute"]


@pytest.mark.parametrize(
    ("typed", "valid", "meant"),
    [
        ("ACTION", NAMES, "action"),
        ("score", NAMES, None),
        ("a", NAMES, None),
        ("index", ["idx", "caption"], "idx"),
        ("TUNA_001", ["TUNA_0001"], "TUNA_0001"),
        ("TUNA_0123", ["TUNA_0987"], None),
        (5, NAMES, None),
    ],
)
def test_only_a_name_that_is_likely_meant_is_suggested(
    typed: object, valid: list[str], meant: str | None
) -> None:
    assert nearest(typed, valid) == (f'; did you mean "{meant}"?' if meant else "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("एक आदमी सड़क पर चलता है।", ["एक", "आदमी", "सड़क", "पर", "चलता", "है"]),
        ("ஒரு மனிதன் நடக்கிறான்", ["ஒரு", "மனிதன்", "நடக்கிறான்"]),
        ("رَجُلٌ يَمْشِي.", ["رَجُلٌ", "يَمْشِي"]),
        ("הַכֶּלֶב רָץ", ["הַכֶּלֶב", "רָץ"]),
        ("کتاب\u200cها اینجا", ["کتابها", "اینجا"]),
        ("Cafe\u0301 -- \u0301 ❤\ufe0f!", ["caf\xe9"]),
        ("在2024年 red车・ที่", ["在", "2024", "年", "red", "车", "ที่"]),
    ],
)
def test_words_of_every_script_are_whole(text: str, expected: list[str]) -> None:
    assert words(text) == [normal_form(word) for word in expected]


class Inner(BaseModel):
    content: str


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid")

    index: str
    count: Annotated[int, Field(ge=1)] = 1
    kind: Literal["a", "b"] = "a"
    parts: Annotated[list[Inner], Field(max_length=1)] = []


@pytest.mark.parametrize(
    ("values", "field", "message"),
    [
        ({"count": 1}, "index", "Field required"),
        ({"index": 5}, "index", "Input should be a valid string, not 5"),
        ({"index": "v", "zzz": 1}, "zzz", "Extra inputs are not permitted"),
        ({"index": "v", "count": 0}, "count", "Input should be greater than or equal to 1, not 0"),
        ({"index": "v", "kind": "c"}, "kind", "Input should be 'a' or 'b', not \"c\""),
        ({"index": "v", "parts": [{}]}, "parts.1.content", "Field required"),
    ],
)
def test_pydantics_first_error_has_its_field_and_value(
    values: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(ValidationError) as faults:
        Model.model_validate(values)
    assert complaint(faults.value) == (field, message)
