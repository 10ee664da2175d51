"""A judge that knows how probes are made, and others that break it in one way each."""

from __future__ import annotations

import random
from collections.abc import Sequence

from capeval.schema import RELATIONS, Annotation, Relation, Verdict
from capeval.trust.probe import Probe
from capeval.trust.probe_set import ProbeSet, build_probes

__all__ = [
    "BROKEN",
    "AlwaysEntails",
    "AlwaysLacks",
    "Distracted",
    "Echoes",
    "IgnoresOrder",
    "Moody",
    "NeverContradicts",
    "Oracle",
    "Random",
    "Spreads",
]

Labels = list[list[Relation]]


class Oracle:
    """Gives every verdict as the construction has it."""

    name = "oracle-1"
    is_baseline = True

    def __init__(self, annotations: Sequence[Annotation], *, videos: int = 100, seed: int = 0):
        probes = build_probes(annotations, videos=videos, seed=seed)
        self.probes: ProbeSet = probes
        self._by_caption = {
            (probe.video, probe.caption): probe
            for probe in reversed(probes.probes)
            if probe.kind != "repeat"
        }
        self.asked: list[tuple[str, str, int]] = []

    def judge(self, annotation: Annotation, caption: str, repeat: int = 0) -> Verdict:
        self.asked.append((annotation.index, caption, repeat))
        probe = self._by_caption[annotation.index, caption]
        labels = self.labels(probe, self.right(probe), repeat)
        events = [n for n, event in enumerate(labels, 1) if set(event) != {"lack"}]
        return Verdict(
            candidate_events=[f"event {n}" for n in events], matches=events, relations=labels
        )

    def right(self, probe: Probe) -> Labels:
        base = self.probes.by_id.get(probe.base or "")
        found: Labels = []
        for number, event in enumerate(probe.expected, 1):
            labels: list[Relation] = []
            for k, expected in enumerate(event):
                label = expected
                if expected == "unchanged":
                    assert base is not None
                    label = base.expected[number - 1][k]
                if label == "not entailed" or number in probe.unmatched or probe.kind == "foreign":
                    label = "lack"
                # What is not graded may be anything.
                of = [relation for relation in RELATIONS if relation == label]
                labels.append(of[0] if of else "entailment")
            found.append(labels)
        return found

    def labels(self, probe: Probe, right: Labels, repeat: int) -> Labels:
        del probe, repeat
        return right


def each(labels: Labels, change: dict[Relation, Relation]) -> Labels:
    return [[change.get(one, one) for one in event] for event in labels]


class NeverContradicts(Oracle):
    name = "never-contradicts"

    def labels(self, probe: Probe, right: Labels, repeat: int) -> Labels:
        return each(right, {"contradiction": "lack"})


class IgnoresOrder(Oracle):
    """What the caption states anywhere is entailed."""

    name = "ignores-order"

    def labels(self, probe: Probe, right: Labels, repeat: int) -> Labels:
        return [
            [
                "entailment" if element.content in probe.caption else label
                for element, label in zip(event.visual_elements, labels, strict=True)
            ]
            for event, labels in zip(probe.annotation.events, right, strict=True)
        ]


class Echoes(Oracle):
    """Does what a text in the caption demands."""

    name = "echoes"

    def labels(self, probe: Probe, right: Labels, repeat: int) -> Labels:
        demanded = next((label for label in RELATIONS if f'"{label}"' in probe.caption), None)
        return each(right, dict.fromkeys(RELATIONS, demanded)) if demanded else right


class AlwaysEntails(Oracle):
    name = "always-entails"

    def labels(self, probe: Probe, right: Labels, repeat: int) -> Labels:
        return each(right, dict.fromkeys(RELATIONS, "entailment"))


class AlwaysLacks(Oracle):
    name = "always-lacks"

    def labels(self, probe: Probe, right: Labels, repeat: int) -> Labels:
        return each(right, dict.fromkeys(RELATIONS, "lack"))


class Distracted(Oracle):
    """Gives up the last event where sentences of something else follow."""

    name = "distracted"

    def labels(self, probe: Probe, right: Labels, repeat: int) -> Labels:
        if probe.kind != "hallucinated":
            return right
        return [*right[:-1], ["lack"] * len(right[-1])]


class Spreads(Oracle):
    """Contradicts everything where one thing is contradicted."""

    name = "spreads"

    def labels(self, probe: Probe, right: Labels, repeat: int) -> Labels:
        if not any("contradiction" in event for event in right):
            return right
        return each(right, dict.fromkeys(RELATIONS, "contradiction"))


class Moody(Oracle):
    """Judges otherwise when it is asked again."""

    name = "moody"

    def labels(self, probe: Probe, right: Labels, repeat: int) -> Labels:
        return each(right, {"entailment": "lack"}) if repeat else right


class Random(Oracle):
    name = "random"

    def labels(self, probe: Probe, right: Labels, repeat: int) -> Labels:
        rng = random.Random(f"{probe.id} {repeat}")
        return [[rng.choice(RELATIONS) for _ in event] for event in right]


# What each of them must fail, and nothing else; "X: rest" is what a probe leaves as it is.
BROKEN: dict[type[Oracle], set[str]] = {
    Oracle: set(),
    NeverContradicts: {"contradicted"},
    IgnoresOrder: {"reordered"},
    Echoes: {"injected"},
    AlwaysEntails: {"dropped", "reordered", "contradicted", "foreign"},
    # Nothing but the verbatim captions shows that it entails nothing; the rest has no right verdict
    # that could change.
    AlwaysLacks: {"verbatim", "contradicted"},
    Distracted: {"hallucinated"},
    Spreads: {"contradicted: rest"},
    Moody: set(),
    Random: {
        *("verbatim", "dropped", "dropped: rest", "reordered", "reordered: rest", "contradicted"),
        *("contradicted: rest", "hallucinated", "foreign", "injected"),
    },
}
