from __future__ import annotations

import pytest
from pydantic import ValidationError

from capeval.schema import JUDGMENT, Annotation, Caption, Scored, Unscored, Usage, VisualElement

ELEMENT = {"content": "A dog runs.", "type": "action", "weight": 3}
EVENT = {"event": "A dog runs.", "visual_elements": [ELEMENT]}


@pytest.mark.parametrize("weight", [True, 1.0, "1", 0, 4, -1, None, [1], 10**30])
def test_weight_is_the_integer_1_2_or_3(weight: object) -> None:
    with pytest.raises(ValidationError):
        VisualElement.model_validate(ELEMENT | {"weight": weight})


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("High-Dynamic,Multi-Scene", ("High-Dynamic", "Multi-Scene")),
        ("High-Dynamic, Multi-Scene", ("High-Dynamic", "Multi-Scene")),
        (" High-Dynamic ,,", ("High-Dynamic",)),
        (["Low-Dynamic", "Multi-Subject"], ("Low-Dynamic", "Multi-Subject")),
        ([], ()),
        ("", ()),
        (None, ()),
    ],
)
def test_characteristics_are_read_from_text_or_list(given: object, read: tuple[str, ...]) -> None:
    annotation = Annotation.model_validate(
        {"index": "v", "visual_characteristic": given, "events": [EVENT]}
    )
    assert annotation.visual_characteristic == read


def test_tags_may_be_absent() -> None:
    annotation = Annotation.model_validate({"index": "v", "events": [EVENT, EVENT]})
    assert (annotation.visual_characteristic, annotation.domain) == ((), None)
    assert annotation.element_count == 2


@pytest.mark.parametrize(
    ("text", "empty"),
    [
        ("", True),
        (" \n\t", True),
        ("...", False),
        ("\u200b\x00", True),
        ("\U0001f415", False),
        ("A dog.", False),
        ("7", False),
        ("狗", False),
        ("собака", False),
    ],
)
def test_caption_is_empty_when_nothing_can_be_seen(text: str, empty: bool) -> None:
    assert Caption(index="v", caption=text).is_empty is empty


def test_caption_keeps_the_other_fields_of_its_line() -> None:
    caption = Caption.model_validate({"index": "v", "caption": "A dog.", "frames": [1, 2]})
    assert caption.model_dump()["frames"] == [1, 2]


def test_nouns_are_frozen() -> None:
    caption = Caption(index="v", caption="A dog.")
    with pytest.raises(ValidationError):
        caption.caption = "A cat."  # type: ignore[misc]


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


def test_judgment_survives_its_own_json() -> None:
    for judgment in (
        Scored(index="v", candidate_events=("a",), matches=(None,), relations=(("lack",),)),
        Unscored(index="v", reason="the judge refused", usage={"split": Usage(calls=2)}),
    ):
        assert JUDGMENT.validate_json(judgment.model_dump_json()) == judgment


def test_usage_refuses_negative_counts() -> None:
    with pytest.raises(ValidationError):
        Usage(calls=-1)
