import json
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from capeval.errors import RequestRefused
from capeval.files.references import load_references
from capeval.llm.replies import ChatRequest
from capeval.metrics.autodq import harmonic_mean
from capeval.metrics.measure import MetricTable
from tests.metrics.chat_world import data_of, measured, reply_to
from tests.world import typed, write_lines

PRECISION, RECALL, F1 = "autodq-precision", "autodq-recall", "autodq-f1"

LISTED = [{"index": "1", "references": ["A dog barks. A cat runs."], "events": ["e1", "e2"]}]
"""A reference with two events: what is asked is extraction, recall, precision."""


def events(*names: str) -> str:
    return json.dumps({"events": names})


def relations(*labels: str) -> str:
    """E: entailment, N: neutral, C: contradiction; events are numbered from 1."""
    names = {"E": "entailment", "N": "neutral", "C": "contradiction"}
    pairs = [{"id": n, "relation": names.get(x, x)} for n, x in enumerate(labels, start=1)]
    return json.dumps({"events": pairs})


def of(found: Any, name: str) -> Any:
    return found.results[0].summaries[name]


READ: list[tuple[str, list[str], str]] = [
    (events("A dog barks."), ["A dog barks."], ""),
    (events("A dog.", "a  dog.", "b"), ["A dog.", "b"], "1 repeated event left out"),
    (events(*map(str, range(12))), [*map(str, range(12))], "12 events, where at most 10"),
]


@pytest.mark.parametrize(("reply", "names", "note"), READ)
def test_events_are_read(reply: str, names: list[str], note: str, tmp_path: Path) -> None:
    script = [reply, relations("E", "N"), relations(*("E" for _ in names))]
    found, client, lines = measured("autodq", tmp_path, script, references=LISTED)
    assert len(client.requests) == 3
    details = lines["1"].details
    assert details["caption_events"] == [[name, "entailment"] for name in names]
    assert details["reference_events"] == [["e1", "entailment"], ["e2", "neutral"]]
    assert note in " ".join(details.get("notes", []))
    assert (of(found, PRECISION).value, of(found, RECALL).value) == (1.0, 0.5)


# The replies before a malformed one, the malformed one, and the reason.
UNREAD: list[tuple[list[str], str, str]] = [
    ([], '{"events": "a"}', "events: Input should be a valid list"),
    ([], events("a", ""), "events.2: must be a text with words"),
    ([events("a")], relations("E", "E").replace("2", "1"), "event 1 is answered twice"),
    ([events("a")], relations("E"), "event(s) 2 are not answered"),
    ([events("a")], relations("E", "E", "E"), "there is no event 3; ids go from 1 to 2"),
    ([events("a")], relations("E", "lack"), "events.2.relation: Input should be 'entailment'"),
]


@pytest.mark.parametrize(("before", "reply", "reason"), UNREAD)
def test_other_replies_are_asked_again_and_then_unscored(
    before: list[str], reply: str, reason: str, tmp_path: Path
) -> None:
    script = [*before, *[reply] * 3]
    found, client, lines = measured("autodq", tmp_path, script, references=LISTED)
    assert reason in found.results[0].unscored["1"]
    assert len(client.requests) == lines["1"].usage.calls == len(script)
    rows = [json.loads(one) for one in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(row["metric"], row["value"], bool(row["reason"])) for row in rows] == [
        (name, None, True) for name in (PRECISION, RECALL, F1)
    ]
    # What was paid for is not asked again; the rest is.
    script = [*([] if before else [events("a")]), relations("E", "N"), relations("C")]
    found, client, _ = measured("autodq", tmp_path, script, references=LISTED)
    assert len(client.requests) == len(script)
    assert (of(found, PRECISION).value, of(found, RECALL).value) == (0.0, 0.5)


# By subset: captions with their events and relations, reference events with theirs.
WORLD: dict[str, list[tuple[str, str | None, str, str]]] = {
    # group: (index, caption's relations, reference's relations, what is special)
    "a": [
        ("a1", "EE", "EENN", ""),  # P 1, R 0.5
        ("a2", "ENCN", "E", ""),  # P 0.25, R 1
        ("a3", "", "EN", ""),  # P undefined, R 0.5
    ],
    "b": [
        ("b1", "NC", "NN", ""),  # P 0, R 0
        ("b2", "E", "", ""),  # P 1, R undefined
        ("b3", "", "", ""),  # neither
        ("b4", "E", "EE", "fail"),  # unscored
    ],
    "c": [
        ("c1", None, "NN", "empty"),  # P undefined, R 0
    ],
}


def world() -> tuple[dict[str, str], list[dict[str, Any]], Callable[[ChatRequest], Any]]:
    captions: dict[str, str] = {}
    references = []
    answers: dict[str, str | None] = {}
    for group, cases in WORLD.items():
        for index, mine, theirs, special in cases:
            captions[index] = "" if special == "empty" else f"caption {index}"
            listed = [f"reference event {index} {n}" for n in range(len(theirs))]
            texts = {"references": [f"reference {index}"], "events": listed}
            references.append({"index": index, "group": group, **texts})
            answers[f"caption {index}"] = theirs
            answers[f"reference {index}"] = mine
            answers[f"events {index}"] = None if special == "fail" else mine

    def script(request: ChatRequest) -> Any:
        prompt = request.messages[0]["content"]
        description, *listed = data_of(prompt)
        if prompt.startswith("List"):
            mine = answers["events " + description.split()[1]]
            if mine is None:
                return RequestRefused("no")
            return events(*(f"event {n} of {description}" for n in range(len(mine))))
        found = answers[description] or ""
        assert len(listed) == len(found)
        return relations(*found)

    return captions, references, script


def test_values_by_hand(tmp_path: Path) -> None:
    captions, references, script = world()
    found, client, lines = measured("autodq", tmp_path, script, captions, references)
    (result,) = found.results
    assert (result.scored, result.captioned, [*result.unscored]) == (7, 8, ["b4"])
    precision, recall, f1 = (of(found, name) for name in (PRECISION, RECALL, F1))
    # Subsets count alike, however many captions they have; c has no precision.
    assert precision.groups == {"a": (1 + 0.25) / 2, "b": (0 + 1) / 2}
    assert recall.groups == {"a": (0.5 + 1 + 0.5) / 3, "b": 0.0, "c": 0.0}
    assert precision.value == (0.625 + 0.5) / 2
    assert recall.value == pytest.approx((2 / 3) / 3)
    assert f1.value == harmonic_mean(precision.value, recall.value)
    assert f1.groups == {"a": harmonic_mean(0.625, 2 / 3), "b": 0.0}
    assert (precision.n, precision.undefined) == (4, 3)
    assert (recall.n, recall.undefined) == (5, 2)
    assert (f1.n, f1.undefined) == (6, 1)
    each = {index: (line.values, line.undefined) for index, line in lines.items()}
    assert each["a1"] == ({PRECISION: 1, RECALL: 0.5, F1: 2 / 3}, {})
    assert each["b1"] == ({PRECISION: 0, RECALL: 0, F1: 0}, {})
    no_caption, no_reference = "the caption has no events", "the reference has no events"
    assert each["a3"] == ({RECALL: 0.5}, {PRECISION: no_caption, F1: no_caption})
    assert each["b2"] == ({PRECISION: 1}, {RECALL: no_reference, F1: no_reference})
    both = f"{no_caption} and {no_reference}"
    assert each["b3"] == ({}, {PRECISION: no_caption, RECALL: no_reference, F1: both})
    assert each["c1"] == ({RECALL: 0, F1: 0}, {PRECISION: no_caption})
    # Nothing is asked about an empty caption, an empty list of events, or what failed.
    asked = [request.messages[0]["content"] for request in client.requests]
    assert len(asked) == 3 + 3 + 2 + 3 + 2 + 1 + 1
    assert not any("c1" in prompt for prompt in asked)


def test_empties_as_in_the_authors_code(tmp_path: Path) -> None:
    captions, references, script = world()
    before, _, _ = measured("autodq", tmp_path, script, captions, references)
    (tmp_path / "capeval.toml").write_text("[metrics.autodq]\nupstream_empties = true\n", "utf-8")
    with chdir(tmp_path):
        refuse = [RequestRefused("no")]
        found, client, lines = measured("autodq", tmp_path, refuse, captions, references)
    assert len(client.requests) == 1  # that which failed; the rest is in the cache
    precision, recall, f1 = (of(found, name) for name in (PRECISION, RECALL, F1))
    assert precision.groups == {"a": (1 + 0.25 + 1) / 3, "b": (0 + 1 + 1) / 3, "c": 1}
    assert recall.groups == {"a": (0.5 + 1 + 0.5) / 3, "b": (0 + 1 + 1) / 3, "c": 0}
    assert f1.value == harmonic_mean(precision.value, recall.value)
    assert lines["b3"].values == {PRECISION: 1, RECALL: 1, F1: 1}
    assert lines["c1"].values == {PRECISION: 1, RECALL: 0, F1: 0}
    assert (precision.n, precision.undefined, recall.undefined, f1.undefined) == (7, 0, 0, 0)
    assert "no-events:undefined" in before.results[0].metric.signature
    assert "no-events:upstream" in found.results[0].metric.signature


def test_without_groups_it_is_the_mean(tmp_path: Path) -> None:
    captions, references, script = world()
    for one in references:
        del one["group"]
    found, _, _ = measured("autodq", tmp_path, script, captions, references)
    assert of(found, PRECISION).value == (1 + 0.25 + 0 + 1) / 4
    assert of(found, PRECISION).groups == of(found, F1).groups == {}
    assert len(MetricTable([found]).pages()[0].tables) == 1
    references[0]["group"] = "a"
    found, _, _ = measured("autodq", tmp_path, script, captions, references)
    assert of(found, PRECISION).groups == {"a": 1.0, "(no group)": 1.25 / 3}
    table = MetricTable([found]).pages()[0].tables[1]
    assert [row[:3] for row in table.rows] == [["a", 1.0, 0.5], ["(no group)", 1.25 / 3, 0.375]]
    assert "By group: use --json" in " ".join(MetricTable([found] * 2).pages()[0].notes)


def test_references_are_joined_and_texts_sent_in_lower_case(tmp_path: Path) -> None:
    def script(request: ChatRequest) -> str:
        return reply_to(request.messages[0]["content"])

    references = {"1": ["A CAT runs.", "The camera pans. It runs."]}
    _, client, _ = measured("autodq", tmp_path, script, {"1": "A Dog barks."}, references)
    sent = {data_of(request.messages[0]["content"])[0] for request in client.requests}
    assert sent == {"a dog barks.", "a cat runs.\nthe camera pans. it runs."}


def test_a_reference_that_fails_is_paid_for_once(tmp_path: Path) -> None:
    captions = {str(n): f"Caption {n}." for n in range(4)}

    def script(request: ChatRequest) -> str:
        prompt = request.messages[0]["content"]
        is_reference = prompt.startswith("List") and "brown dog" in prompt
        return "none" if is_reference else reply_to(prompt)

    found, client, _ = measured("autodq", tmp_path, script, captions, max_concurrency=1)
    assert len(found.results[0].unscored) == 4
    assert len(client.requests) == 3


def dream(**changes: Any) -> dict[str, Any]:
    part = {"reference": "A man waves.", "text": "", "type": "text", "video": None}
    question = {"reference": None, "text": "Describe it.", "type": "text", "video": None}
    messages = [{"content": [question], "role": "user"}, {"content": [part], "role": "assistant"}]
    extra = {"duration": 5.0, "events": ["A man waves."], "n_events": 1}
    common = {"dataset": "DREAM/videvo", "task": "video/caption", "idx": 7, "vid": 7}
    return {"messages": messages, "extra_info": extra, **common, **changes}


def test_dream_1k_is_read_as_published(tmp_path: Path) -> None:
    file = tmp_path / "dream.jsonl"
    records = [dream(), dream(idx=8, extra_info={"events": []}), dream(idx=9, extra_info={})]
    write_lines(file, records)
    first, second, third = load_references(file)
    assert (first.index, first.references) == ("7", ("A man waves.",))
    assert (first.events, first.group) == (("A man waves.",), "DREAM/videvo")
    assert (second.events, third.events) == ((), None)


FAULTS: list[tuple[dict[str, Any], str]] = [
    (dream(messages=[]), "line 1: references"),
    (dream(messages=[{"role": "assistant", "content": [{"reference": 5}]}]), "references.1"),
    (dream(extra_info={"events": "A man waves."}), "events"),
]


@pytest.mark.parametrize(("record", "message"), FAULTS)
def test_a_faulty_record_is_one_line(record: dict[str, Any], message: str, tmp_path: Path) -> None:
    write_lines(tmp_path / "dream.jsonl", [record])
    (tmp_path / "c.json").write_text('{"7": "A man."}', "utf-8")
    command = ("metrics", "--candidates", "c.json", "--references", "dream.jsonl")
    done = typed(tmp_path, *command)
    assert done.code == 2
    assert "dream.jsonl: line 1" in done.lines[-1]
    assert message in done.lines[-1]
