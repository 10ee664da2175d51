from __future__ import annotations

import pytest
from pydantic import ValidationError

from capeval.schema import (
    JUDGMENT,
    Likelihoods,
    Provenance,
    Question,
    Response,
    Scored,
)


def test_unscored_needs_a_reason_and_scored_has_none() -> None:
    with pytest.raises(ValidationError):
        JUDGMENT.validate_python({"index": "v", "status": "unscored", "reason": ""})
    with pytest.raises(ValidationError):
        JUDGMENT.validate_python({"index": "v", "status": "unscored"})
    verdict = {"candidate_events": [], "matches": [], "relations": [["lack"]]}
    assert isinstance(
        JUDGMENT.validate_python({"index": "v", "status": "scored", **verdict}), Scored
    )
    with pytest.raises(ValidationError):
        JUDGMENT.validate_python({"index": "v", "status": "scored", "reason": "why", **verdict})


@pytest.mark.parametrize(
    "field",
    [
        {"relations": [["Entailment"]]},
        {"relations": [["maybe"]]},
        {"relations": [[None]]},
        {"matches": [0]},
        {"matches": [-1]},
        {"matches": [True]},
        {"matches": ["1"]},
        {"matches": [1.0]},
        {"surprise": 1},
    ],
)
def test_verdicts_outside_the_closed_set_are_refused(field: dict[str, object]) -> None:
    verdict = {"candidate_events": ["A dog."], "matches": [1], "relations": [["lack"]]}
    with pytest.raises(ValidationError):
        JUDGMENT.validate_python({"index": "v", "status": "scored", **(verdict | field)})


@pytest.mark.parametrize(
    ("base_url", "endpoint", "name"),
    [
        (None, None, None),
        ("https://api.openai.com/v1", None, "openai"),
        ("http://localhost:8000/v1", None, "other"),
        ("https://api.openai.com.example/v1", None, "other"),
        ("no address", None, "other"),
        ("http://localhost:8000/v1", "mine", "mine"),
    ],
)
def test_an_endpoint_has_a_name(
    base_url: str | None, endpoint: str | None, name: str | None
) -> None:
    assert Provenance(base_url=base_url, endpoint=endpoint).endpoint_name == name


QUESTION = {"id": "q", "video": "v", "question": "Which?", "options": ["x", "y"], "answer": "B"}


def test_response_has_the_question_and_its_tags_beside_its_own_fields() -> None:
    question = Question.model_validate(QUESTION | {"tags": {"task": "count"}})
    scores = (0.5, 1.0)
    likelihood = Likelihoods(
        symbol=scores, symbol_text=scores, text=scores, tokens={"symbol": (1, 1)}
    )
    response = Response.to(question, "B", likelihood=likelihood)
    line = response.model_dump(mode="json")
    assert (line["task"], line["answer"], line["reply"]) == ("count", "B", "B")
    assert Response.model_validate(line) == response
