"""Probes: right by construction, the same for the same seed, and counted where none is possible."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capeval.files.annotations import load_annotations
from capeval.runs.sources import annotations_of
from capeval.schema import Annotation, Judgment, Scored
from capeval.trust.probe import KINDS, Probe
from capeval.trust.probe_grading import grade_probes
from capeval.trust.probe_set import build_probes
from tests.trust.generated import annotation_sets
from tests.trust.probed_judges import Oracle

SAMPLE = annotations_of("sample")
TUNA = Path(__file__).resolve().parents[3] / "shared" / "data" / "tuna_example_metadata.json"


def video(*events: list[str], kind: str = "action", index: str = "v") -> Annotation:
    return Annotation.model_validate(
        {
            "index": index,
            "events": [
                {
                    "event": " ".join(event),
                    "visual_elements": [
                        {"content": content, "type": kind, "weight": 1} for content in event
                    ],
                }
                for event in events
            ],
        }
    )


def named(annotations: list[Annotation], name: str, **given_: int) -> Probe | None:
    found = build_probes(annotations, videos=given_.get("videos", 9), seed=given_.get("seed", 0))
    return found.by_id.get(f"{annotations[0].index}#{name}")


KITCHEN = video(
    ["A chef stands in a kitchen.", "The chef wears a white hat.", "A pot boils on the stove."],
    ["The chef slices an onion.", "The camera zooms in on the knife.", "Steam fills the room."],
    ["A waiter opens the oven.", "The waiter carries three plates.", "A bell rings loudly."],
)


# ---- any annotations -------------------------------------------------------------------------


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(annotation_sets, st.integers(0, 3))
def test_a_judge_that_knows_the_construction_is_always_right(
    annotations: list[Annotation], seed: int
) -> None:
    probes = build_probes(annotations, videos=4, seed=seed)
    oracle = Oracle(annotations, videos=4, seed=seed)
    judgments: dict[str, Judgment] = {
        probe.id: Scored(
            index=probe.id, **dict(oracle.judge(probe.annotation, probe.caption, repeat=0))
        )
        for probe in probes.probes
    }
    graded = grade_probes(probes, judgments)
    assert [grade for grade in graded.grades if not grade.correct] == []
    assert all(all(events) for events in graded.unmatched.values())
    assert graded.ungraded == {}
    assert all(one == n for one, n in graded.agreement.values())


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(annotation_sets, st.integers(0, 3))
def test_probes_are_whole_and_can_be_stored(annotations: list[Annotation], seed: int) -> None:
    probes = build_probes(annotations, videos=3, seed=seed)
    assert build_probes(annotations, videos=3, seed=seed) == probes
    assert len(probes.by_id) == len(probes.probes)
    for probe in probes.probes:
        line = json.loads(json.dumps(probe.line(), ensure_ascii=False).encode("utf-8"))
        assert line["id"].rpartition("#")[0] == probe.video
        assert probe.caption.strip()
        assert [len(event) for event in probe.expected] == list(probe.annotation.sizes)
        assert probe.base is None or probe.base in probes.by_id
        if probe.kind != "repeat":
            assert any(one is not None for event in probe.expected for one in event)


def test_more_videos_keep_the_probes_of_fewer() -> None:
    few, many = (build_probes(SAMPLE, videos=n, seed=3) for n in (3, 8))
    assert set(few.videos) < set(many.videos)
    assert all(many.by_id[probe.id] == probe for probe in few.probes)
    assert [p.video for p in many.probes] == sorted(p.video for p in many.probes)


def test_another_seed_draws_other_videos_and_other_edits() -> None:
    first, second = (build_probes(SAMPLE, videos=5, seed=seed) for seed in (0, 1))
    assert first.videos != second.videos
    whole = [build_probes(SAMPLE, videos=10, seed=seed) for seed in (0, 1)]
    assert whole[0].videos == whole[1].videos
    assert whole[0].digest != whole[1].digest


# ---- the kinds -------------------------------------------------------------------------------


def test_verbatim_has_the_element_sentences_in_order() -> None:
    probe = named([KITCHEN], "verbatim")
    assert probe is not None
    assert probe.caption.startswith("A chef stands in a kitchen. The chef wears a white hat. A pot")
    assert probe.caption.endswith("The waiter carries three plates. A bell rings loudly.")
    assert {one for event in probe.expected for one in event} == {"entailment"}


def test_a_sentence_gets_the_full_stop_that_it_lacks() -> None:
    probe = named([video(["A dog  barks", "It says “woof!”", "Who is there?"])], "verbatim")
    assert probe is not None
    assert probe.caption == "A dog barks. It says “woof!” Who is there?"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("x" * 1_001, "is longer than a statement"),
        ("...", "has no words"),
        ("A dog\x07 barks.", "has characters that cannot be shown"),
        ("A \u202edog barks.", "has characters that cannot be shown"),
        ("A dog </caption> barks.", "looks like markup"),
        ('{"id": 1} is on the sign.', "looks like markup"),
        ("A CAT sits there", "repeats an earlier sentence"),
    ],
)
def test_what_is_no_plain_statement_is_left_out_and_counted(content: str, why: str) -> None:
    made = video(["A cat sits there.", content, "A dog barks at the tree."])
    probes = build_probes([made], videos=1, seed=0)
    verbatim = probes.by_id["v#verbatim"]
    assert verbatim.expected == (("entailment", None, "entailment"),)
    assert verbatim.caption == "A cat sits there. A dog barks at the tree."
    assert probes.unused["verbatim"] == {f"element {why}": 1}


def test_another_language_is_only_told_verbatim() -> None:
    made = video(["一个人走进房间。", "他打开门。"], ["Ein Mann lacht laut."], ["Il pleut."])
    probes = build_probes([made], videos=1, seed=0)
    assert [probe.id for probe in probes.probes] == ["v#verbatim", "v#injected-lack", "v#repeat"]
    assert probes.unused["contradicted"] == {"video is not in English": 1}


def test_a_left_out_event_is_unmatched_and_its_own_statements_lack() -> None:
    for seed in range(6):
        probe = named([KITCHEN], "dropped-event", seed=seed)
        assert probe is not None
        (number,) = probe.unmatched
        left_out = KITCHEN.events[number - 1].visual_elements
        assert set(probe.expected[number - 1]) == {"lack"}
        assert not any(element.content in probe.caption for element in left_out)
        rest = [one for n, event in enumerate(probe.expected, 1) if n != number for one in event]
        assert set(rest) == {"unchanged"}


def test_what_another_event_states_too_is_not_graded() -> None:
    made = video(
        ["The dog barks.", "The camera pans right."],
        ["The puppy was barking.", "A cat sleeps on the sofa."],
    )
    found = [named([made], "dropped-event", seed=seed) for seed in range(9)]
    by_event = {probe.unmatched[0]: probe.expected for probe in found if probe}
    # Whoever says puppy says dog, and whoever says dog may mean the puppy.
    assert by_event[1][0] == (None, "lack")
    assert by_event[2][1] == (None, "lack")


def test_a_left_out_element_has_two_words_of_its_own() -> None:
    made = video(
        ["The dog runs.", "The dog barks.", "The dog eats a large bone."],
        ["The cat sleeps."],
        ["It rains."],
    )
    probes = build_probes([made], videos=1, seed=0)
    probe = probes.by_id["v#dropped-element"]
    assert probe.edits[0]["edit"] == "left out: The dog eats a large bone."
    assert probe.expected[0] == ("unchanged", "unchanged", "lack")
    assert probe.unmatched == ()
    why = "element has fewer than two words of its own within its event"
    assert probes.unused["dropped"][why] == 3
    assert probes.unused["dropped"]["element is the only one of its event"] == 1


def test_the_first_event_is_told_last() -> None:
    probe = named([KITCHEN], "reordered")
    assert probe is not None
    assert probe.caption.startswith("The chef slices an onion.")
    assert probe.caption.endswith("A pot boils on the stove.")
    assert (probe.unmatched, probe.expected[0]) == ((1,), ("lack", "lack", "lack"))
    assert {one for event in probe.expected[1:] for one in event} == {"unchanged"}


def test_what_says_that_it_is_the_beginning_is_not_told_last() -> None:
    made = video(
        ["The video begins with a chef in a kitchen.", "A pot boils on the stove."],
        ["The chef slices an onion.", "Steam rises."],
        ["A waiter enters the room.", "A bell rings loudly."],
    )
    probe = named([made], "reordered")
    assert probe is not None
    assert "begins" not in probe.caption
    assert probe.expected[0] == (None, "lack")


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([["A dog barks."], ["A cat sleeps.", "It rains on the roof."]], "fewer than three events"),
        (
            [["A dog barks.", "A bird sings.", "A man is here."], ["A cat sleeps."], ["It rains."]],
            "first event is as long as the rest",
        ),
        (
            [["A big brown dog barks at a bird in the tree."], ["A cat sleeps."], ["It rains."]],
            "first event is as long as the rest",
        ),
        (
            [["A dog barks."], ["A cat is in the house.", "The dog is barking."], ["It rains."]],
            "first event states nothing that is not in another",
        ),
    ],
)
def test_orders_with_several_readings_are_not_used(events: list[list[str]], why: str) -> None:
    probes = build_probes([video(*events)], videos=1, seed=0)
    assert "v#reordered" not in probes.by_id
    assert any(why in reason for reason in probes.unused["reordered"])


def test_one_edit_in_each_event_of_three_elements() -> None:
    probe = named([KITCHEN], "contradicted")
    assert probe is not None
    assert [edit["element"][0] for edit in probe.edits] == ["1", "3"]
    edited = [[one == "contradiction" for one in event] for event in probe.expected]
    assert [sum(event) for event in edited] == [1, 0, 1]
    others = [one for event in probe.expected for one in event if one != "contradiction"]
    assert set(others) == {"unchanged"}
    small = video(["The red car stops.", "The dog barks."])
    probes = build_probes([small], videos=1, seed=0)
    assert probes.unused["contradicted"]["event has fewer than three elements"] == 1


def test_added_sentences_share_no_content_word_with_the_video() -> None:
    probes = build_probes(SAMPLE, videos=10, seed=0)
    by_index = {annotation.index: annotation for annotation in SAMPLE}
    found = [probe for probe in probes.probes if probe.kind == "hallucinated"]
    assert len(found) >= 5
    for probe in found:
        own = set(probe.caption.split("added")[0].lower().split())
        for edit in probe.edits:
            text = edit["edit"].removeprefix("added: ")
            elements = {e.content: e.type for e in by_index[edit["from"]].elements.values()}
            assert elements[text] in ("action", "attribute")
            assert "camera" not in text
            assert probe.caption.index(text) > len(probe.caption) // 2
        assert {one for event in probe.expected for one in event} == {"unchanged"}
        assert own


@pytest.mark.parametrize("text", ["A man throws a ball.", "Puppies sleep.", "He wears a crown."])
def test_a_sentence_that_could_be_about_the_video_is_not_added(text: str) -> None:
    first = video(["The men are throwing stones.", "A dog sleeps.", "The sky is blue."], index="a")
    second = video([text], index="b")
    assert named([first, second], "hallucinated", videos=2) is None


def test_a_foreign_caption_states_none_of_the_graded_elements() -> None:
    first = video(["The dog barks at the car.", "The chef slices an onion.", "Static."], index="a")
    second = video(["A chef slices onions.", "The kitchen is dark."], index="b")
    probe = named([first, second], "foreign", videos=2)
    assert probe is not None
    assert probe.caption == "A chef slices onions. The kitchen is dark."
    assert probe.expected == (("not entailed", None, None),)


def test_injections_demand_what_is_wrong() -> None:
    probes = build_probes(SAMPLE, videos=10, seed=0)
    for probe in (one for one in probes.probes if one.kind == "injected"):
        demanded = probe.edits[0]["demands"]
        base = probes.by_id[probe.base or ""]
        assert base.kind == ("dropped" if demanded == "entailment" else "verbatim")
        assert base.caption in probe.caption
        assert f'"{demanded}"' in probe.caption
        graded = [
            before
            for now, old in zip(probe.expected, base.expected, strict=True)
            for one, before in zip(now, old, strict=True)
            if one is not None
        ]
        assert graded
        assert demanded not in graded


def test_every_kind_is_built_of_the_sample() -> None:
    probes = build_probes(SAMPLE, videos=10, seed=0)
    assert {probe.kind for probe in probes.probes} == {*KINDS, "repeat"}
    assert probes.annotated == 10


@pytest.mark.skipif(not TUNA.is_file(), reason="the TUNA example is not at hand")
def test_probes_of_a_published_annotation() -> None:
    probes = build_probes(load_annotations(TUNA), videos=1, seed=0)
    edits = [edit["edit"] for edit in probes.by_id["TUNA_0348#contradicted"].edits]
    # Of the second event no quoted number, no shoulder, and nothing military.
    assert edits[0].startswith(("camera move: moves to the right", "colour: white"))
    assert edits[1].startswith("colour: black")
    assert "begins" not in probes.by_id["TUNA_0348#reordered"].caption


def test_the_probes_of_the_docs_are_those_of_the_sample() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "probing.md").read_text("utf-8")
    shown = re.findall(r"^\| `(sample_\d+#[\w-]+)` \| (.+) \| (.+) \|$", page, re.MULTILINE)
    assert len(shown) == 10
    probes = build_probes(SAMPLE, videos=10, seed=0)
    plain = re.sub(r"\s", "", page.replace("\\", ""))
    for name, _, _ in shown:
        for edit in probes.by_id[name].edits:
            assert re.sub(r"\s", "", edit["edit"]) in plain, name
    assert f"> {probes.by_id['sample_07#contradicted'].caption}\n" in page
