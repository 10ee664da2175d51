"""No verdict is read from a reply unless its whole form says that it is the answer."""

from __future__ import annotations

import json
import re
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capeval.errors import ReplyError
from capeval.judging.contracts import CONTRACTS
from capeval.judging.prompts import Stage
from capeval.llm import replies
from capeval.llm.replies import FormError, read_reply
from capeval.llm.reply_parts import exact_keys
from tests.judging.reply_shapes import CAPTION, PARTS, RIGHT, Shape, attacks, honest

# A busy machine draws and reads slowly.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
ATTACKS = list(attacks())
MATERIAL = (CAPTION, *(part.text for part in PARTS))


def verdict(shape: Shape) -> Any:
    return read_reply(shape.text, shape.read, shape.stage, MATERIAL, shape.prompt)[0]


def value(text: str, prompt: str = "") -> Any:
    return read_reply(text, lambda found, _: found, "match", (), prompt)[0]


def test_no_attack_yields_a_wrong_verdict() -> None:
    assert len({attack.text for attack in ATTACKS}) > 2000
    wrong = []
    for attack in ATTACKS:
        try:
            if verdict(attack) != attack.verdict or attack.right is None:
                wrong.append(attack.name)
        except ReplyError:
            continue
    assert wrong == []


# These are asked again: nothing tells them from a draft, a retraction or a quotation.
UNREAD = {
    *("explained before", "explained after", "draft first", "numbered list", "note", "YAML"),
    "thinking after a greeting",
}


@pytest.mark.parametrize(("name", "text"), honest().items(), ids=honest().keys())
def test_honest_replies_are_read_or_asked_again(name: str, text: str) -> None:
    shape = Shape(name, text, right=RIGHT)
    if name in UNREAD:
        with pytest.raises(FormError):
            verdict(shape)
    else:
        assert verdict(shape) == shape.verdict


def phrases(kind: str) -> st.SearchStrategy[str]:
    """Every text that one of the phrases of a kind allows."""
    patterns = st.sampled_from(replies._phrases(kind))
    return patterns.flatmap(lambda pattern: st.from_regex(pattern, fullmatch=True))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 99) | st.text("ab é\"'\\\n</think>{[", max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=2), inner),
    max_leaves=8,
).filter(lambda found: isinstance(found, list | dict))
WRITTEN = [json.dumps, repr, lambda found: json.dumps(found, indent=1, ensure_ascii=False)]
FENCES = ["{}", "```json\n{}\n```", "```\n{}\n```", "`{}`", "<answer>{}</answer>", "~~~\n{}\n~~~"]
THOUGHTS = ["", "<think>[0]</think>\n", "[1]</think>", "[THINK]{[/THINK]", "◁think▷]◁/think▷"]
ENDS = ["", "<|im_end|>", "</s>", "\n<end_of_turn>\n", ".", "\u200b"]


@UNHURRIED
@given(
    VALUES,
    st.sampled_from(WRITTEN),
    st.sampled_from(FENCES),
    st.sampled_from(THOUGHTS),
    phrases("lead") | st.just(""),
    phrases("courtesy") | st.just(""),
    st.sampled_from(ENDS),
)
def test_an_answer_is_read_from_any_allowed_form(
    answer: Any, write: Any, fence: str, thought: str, lead: str, courtesy: str, end: str
) -> None:
    whole = fence.format("{}").replace("{}", write(answer))
    # A mark of thinking within an answer that follows thinking cannot be told from its end.
    if thought and "think>" in whole:
        return
    assert value(f"{thought}{lead}:\n{whole}\n{courtesy}{end}") == answer


@UNHURRIED
@given(VALUES, VALUES, st.sampled_from(FENCES), phrases("lead") | st.text(max_size=9))
def test_a_second_answer_that_differs_is_asked_again(
    first: Any, second: Any, fence: str, between: str
) -> None:
    if json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True):
        return
    for one, other in (
        (json.dumps(first), fence.replace("{}", json.dumps(second))),
        (fence.replace("{}", repr(first)), json.dumps(second)),
    ):
        with pytest.raises(ReplyError):
            value(f"{one}\n{between}\n{other}")


@UNHURRIED
@given(st.text() | st.text("[]{}()\"'`,:\\01ane<>/thik \n", max_size=60))
def test_no_text_yields_an_answer_that_is_not_in_it(text: str) -> None:
    try:
        answer = value(text)
    except ReplyError:
        return
    letters = re.sub(r"\W", "", "".join(re.findall(r"[^\W\d]", json.dumps(answer))))
    assert isinstance(answer, list | dict)
    if "\\" not in text:
        assert set(letters.lower()) <= set(text.lower()) | set("null") | set("none")


def test_an_answer_that_equals_the_templates_example_is_read() -> None:
    prompt = f"Label each element. Answer:\n```json\n{RIGHT}\n```"
    for text in (RIGHT, f"```json\n{RIGHT}\n```", f"Sure! Here is the JSON: {RIGHT}"):
        assert value(text, prompt) == json.loads(RIGHT)
    with pytest.raises(ReplyError, match="only quotes"):
        value(f"Answer:\n```json\n{RIGHT}\n```", prompt)


@pytest.mark.parametrize(
    ("given_value", "complaint"),
    [
        ({}, 'an item has no key "s"; its keys are s, reason'),
        ({"s": 1, "error": 2}, 'an item has the key "error"; its keys are s, reason'),
        ({"s": 1, "reason": {"s": 2}}, "an item: reason must be text or a number"),
    ],
)
def test_only_requested_keys_are_accepted(given_value: Any, complaint: str) -> None:
    exact_keys({"s": 1, "reason": ["so", "and so"]}, "an item", ["s"], ["reason"])
    with pytest.raises(ReplyError) as refused:
        exact_keys(given_value, "an item", ["s"], ["reason"])
    assert complaint in str(refused.value)


UNITS = [
    *("[x]", "[", "{", "[]", "[1]", "{}", "`", "```", "```json\n[1]\n```", "~~~", "'", '"', "['"),
    *("<think>", "</think>", "<think ", "<", "<|start|> ", "<|channel|>final", "assistantfinal"),
    *("[1,", "['a', ", "('", "{'a':", '{"a":1},', '{"a":{"a":1}},', "\\", "'\\x41',", "-", "1.1,"),
    *(
        "events = ",
        "<answer>",
        "</s>",
        "<|im_start|>assistant",
        "here is the json ",
        "json answer ",
    ),
    *("let me know if you need more help ", " ", "\n", "\u200b", "\ufdfa", "&lt;", "以下是", "="),
]


MARKS = "a" + "\u0315\u0301\u0323\u0334" * 15_000
MARKED: list[tuple[Any, Stage, str]] = [
    *(({"events": [MARKS]}, "split", name) for name in ("ids", "tuna")),
    *(({"relations": [[1, MARKS]]}, "classify", name) for name in ("spans", "ids")),
    ([{"visual_elements": [{"content": MARKS, "relationship": "lack"}] * 2}], "classify", "tuna"),
    ([{"candidate_event": MARKS, "visual_elements": []}], "classify", "tuna"),
    ({"starts": [1, 2], "repeats": [2]}, "split", "spans"),
]


@pytest.mark.parametrize(("value", "stage", "contract"), MARKED)
def test_thousands_of_combining_marks_take_no_longer(
    value: Any, stage: Stage, contract: str
) -> None:
    def read(found: Any, notes: list[str]) -> None:
        if stage == "split":
            CONTRACTS[contract].read_split(found, f"A dog. {MARKS}. A dog.", notes)
        CONTRACTS[contract].read_relations(found, PARTS, notes)

    answer = json.dumps(value, ensure_ascii=False)
    began = time.process_time()
    for text in (answer, f"<think></think>{MARKS}{answer}"):
        with suppress(ReplyError):
            read_reply(text, read, stage, MATERIAL)
    assert time.process_time() - began < 1


@pytest.mark.parametrize("unit", UNITS)
def test_no_reply_takes_long_to_read(unit: str) -> None:
    many, few = unit * (199_000 // len(unit)), unit * (39_000 // len(unit))
    for text in (
        *(many, f"[{many}]", f"{{{many}", f"['{many}", f"['a', {few}]", f"Sure{many}{RIGHT}"),
        *(
            f"{RIGHT}{many}",
            f"<think>{many}</think>{RIGHT}",
            f"```{many}",
            f'{{"relations": [{many}',
        ),
    ):
        began = time.process_time()
        with suppress(ReplyError):
            read_reply(text, Shape("", text).read, "classify", MATERIAL, many)
        # Five times the limit of 0.2 s, which is kept with a margin of 2 on a machine at rest.
        assert time.process_time() - began < 1, text[:20]
