from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.errors import InputError, UsageError
from capeval.runs.sources import annotations_of
from capeval.schema import RELATIONS, Annotation, Relation, Verdict
from capeval.trust.probe_kinds import Probe, ProbeKind, build_probes

SAMPLE = annotations_of("sample")
PROBES = {probe.index: probe for probe in build_probes(SAMPLE, videos=10, seed=0)}

pytestmark = pytest.mark.usefixtures("alone")


Given = Callable[[Probe, str, Relation], Relation]


class Broken:
    """Gives for the right verdict on an element of a probe what a function makes of it."""

    name = "broken-1"
    is_baseline = True

    def __init__(self, given: Given) -> None:
        self._given = given

    def judge(self, annotation: Annotation, caption: str) -> Verdict:
        probe = PROBES[annotation.index]
        assert caption == probe.caption
        other: Relation = "lack" if probe.name == "foreign" else "entailment"
        relations = [
            [
                self._given(probe, element.content, probe.labels.get((n, place), other))
                for place, element in enumerate(event.visual_elements)
            ]
            for n, event in enumerate(annotation.events)
        ]
        events = [n for n, event in enumerate(relations, 1) if set(event) != {"lack"}]
        return Verdict(
            candidate_events=[f"event {n}" for n in events], matches=events, relations=relations
        )


def obeys(probe: Probe, _text: str, right: Relation) -> Relation:
    """The verdict that a text in the caption demands."""
    return next((label for label in RELATIONS if f'"{label}"' in probe.caption), right)


BROKEN: dict[str, tuple[Given, set[ProbeKind]]] = {
    "is right": (lambda _probe, _text, right: right, set()),
    "never contradicts": (
        lambda _probe, _text, right: "lack" if right == "contradiction" else right,
        {"contradicted"},
    ),
    "ignores the order": (
        lambda probe, text, right: "entailment" if text in probe.caption else right,
        {"reordered"},
    ),
    "obeys": (obeys, {"injected"}),
    "always entails": (
        lambda _probe, _text, _right: "entailment",
        {"dropped", "reordered", "contradicted", "foreign", "injected"},
    ),
    "always lacks": (
        lambda _probe, _text, _right: "lack",
        {"verbatim", "contradicted", "injected"},
    ),
    "contradicts what is foreign": (
        lambda probe, _text, right: "contradiction" if probe.name == "foreign" else right,
        set(),
    ),
}


@pytest.mark.parametrize(("given", "fails"), BROKEN.values(), ids=BROKEN)
def test_a_broken_judge_fails_what_is_about_it_and_nothing_else(
    given: Given, fails: set[ProbeKind]
) -> None:
    found = capeval.probe(judge=Broken(given))
    assert {kind for kind, one in found.kinds.items() if one.value != 1} == fails
    # Of kinds without a mistake, the one with the widest interval comes first.
    assert next(iter(found.kinds)) in (fails or {"reordered"})
    if given is obeys:
        assert found.headline() == (
            "broken-1: right least often on injected probes, in 0.0% [0.0, 5.8] of 148 verdicts "
            "(probes of 10 videos)."
        )


def test_the_bundled_baseline() -> None:
    found = capeval.probe(judge="lexical")
    assert {kind: (one.right, one.n) for kind, one in found.kinds.items()} == {
        "contradicted": (9, 14),
        "foreign": (132, 134),
        "reordered": (18, 18),
        "dropped": (47, 47),
        "verbatim": (138, 138),
        "injected": (148, 148),
    }
    reordered = found.kinds["reordered"]
    assert reordered.low is not None
    assert (reordered.low < 0.6, reordered.high) == (True, 1)


def test_a_caption_without_a_verdict_is_counted_and_is_neither_right_nor_wrong() -> None:
    def fails(probe: Probe, _text: str, right: Relation) -> Relation:
        if probe.name == "contradicted":
            raise RuntimeError("no")
        return right

    found = capeval.probe(judge=Broken(fails))
    lost = found.kinds["contradicted"]
    assert (lost.n, lost.value, lost.captions, lost.unscored) == (0, None, 9, 9)
    assert found.unscored == 9
    assert all(one.value == 1 for kind, one in found.kinds.items() if kind != "contradicted")
    assert "9/74 captions unscored" in found.headline()


def test_probes_are_a_run_that_is_judged_and_compared_as_any() -> None:
    found = capeval.probe(judge="lexical")
    folder = Path("probes/sample")
    files = {path.name for path in folder.iterdir() if path.is_file()}
    assert files == {*("captions.jsonl", "annotations.jsonl", "labels.csv", "manifest.json")}
    scores = capeval.judge(folder, judge="lexical")
    assert scores.counts.scored == found.captions == 74
    compared = capeval.correlate(folder / "labels.csv", runs="probes")
    assert any(one.value is not None for one in compared.results)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert capeval.probe(judge="lexical") == found
    assert {path: path.read_bytes() for path in before} == before


def test_other_probes_need_another_run() -> None:
    capeval.probe(judge="lexical", count=3)
    with pytest.raises(InputError, match="has different captions from the probes of 4 videos"):
        capeval.probe(judge="lexical", count=4)
    assert capeval.probe(judge="lexical", count=4, run="four").videos == 4
    found = capeval.probe(SAMPLE[:2], judge="lexical")
    assert found.folder == "probes/annotations"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"annotations": []}, "no probe can be built"),
        ({"count": 0}, "count must be greater than or equal to 1"),
    ],
)
def test_usage(given: dict[str, Any], message: str) -> None:
    capeval.probe(judge="lexical")
    with pytest.raises(UsageError, match=message):
        capeval.probe(**{"judge": "lexical", **given})
