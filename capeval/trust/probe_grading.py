"""Verdicts on probes compared with what they must be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from capeval.schema import ElementType, Judgment, Relation, Scored
from capeval.trust.probe import Expectation, Kind, Probe
from capeval.trust.probe_set import ProbeSet


class Grade(NamedTuple):
    """One verdict on one element.

    `tested` says whether the element is what the probe is about; of the others, the verdict must
    stay as it is on the base caption. `expected` is the verdict that is right by construction, None
    where several are ("not entailed"). `counts` is False where the verdict on the base caption is
    wrong or missing: the element says nothing about this probe, but its expected and given verdicts
    are known.
    """

    probe: str
    video: str
    kind: Kind
    element: tuple[int, int]
    type: ElementType
    tested: bool
    expected: Relation | None
    given: Relation
    correct: bool
    counts: bool = True


@dataclass(frozen=True)
class Graded:
    """All grades of one judge, and what could not be graded.

    Attributes
    ----------
    unmatched : by kind, whether each event that must have no match has none
    agreement : for each video, the elements with the same verdict when its caption was judged
        again, and all its elements
    unscored : by kind, the number of captions without a verdict
    ungraded : by kind, elements that were not graded although their caption was, by reason
    """

    grades: tuple[Grade, ...]
    unmatched: Mapping[Kind, tuple[bool, ...]]
    agreement: Mapping[str, tuple[int, int]]
    unscored: Mapping[Kind, int]
    ungraded: Mapping[Kind, Mapping[str, int]]


@dataclass
class _Found:
    grades: list[Grade] = field(default_factory=list)
    unmatched: dict[Kind, list[bool]] = field(default_factory=dict)
    agreement: dict[str, tuple[int, int]] = field(default_factory=dict)
    unscored: Counter[Kind] = field(default_factory=Counter)
    ungraded: dict[Kind, Counter[str]] = field(default_factory=dict)


def grade_probes(probes: ProbeSet, judgments: Mapping[str, Judgment]) -> Graded:
    """Grade the verdicts on probes.

    A caption without a verdict is counted as unscored and is neither right nor wrong. An element
    whose verdict must stay as it is on another caption is graded only if that verdict is right: so
    each probe counts its own mistakes, and not once more those of the verbatim caption.

    Parameters
    ----------
    judgments : by the ids of the probes
    """
    found = _Found()
    scored = {name: one for name, one in judgments.items() if isinstance(one, Scored)}
    for probe in probes.probes:
        judgment = scored.get(probe.id)
        if judgment is None:
            found.unscored[probe.kind] += 1
        elif probe.kind == "repeat":
            _compare(probe, judgment, scored, found)
        else:
            found.grades += _grades(probe, judgment, probes, scored, found)
            found.unmatched.setdefault(probe.kind, []).extend(
                number not in judgment.matches for number in probe.unmatched
            )
    return Graded(
        grades=tuple(found.grades),
        unmatched={kind: tuple(each) for kind, each in found.unmatched.items()},
        agreement=found.agreement,
        unscored=dict(found.unscored),
        ungraded={kind: dict(counts) for kind, counts in found.ungraded.items()},
    )


def _grades(
    probe: Probe,
    judgment: Scored,
    probes: ProbeSet,
    scored: Mapping[str, Scored],
    found: _Found,
) -> Iterator[Grade]:
    base = probes.by_id.get(probe.base) if probe.base else None
    before = scored.get(probe.base) if probe.base else None
    only_unchanged = not _has_exact(probe)
    for e, event in enumerate(probe.expected):
        for k, expected in enumerate(event):
            if expected is None:
                continue
            given = judgment.relations[e][k]
            label: Relation | None
            if expected == "unchanged":
                label = _exact(base.expected[e][k]) if base else None
                why = "the base caption is unscored" if before is None else None
                if before is not None and before.relations[e][k] != label:
                    why = "the verdict on the base caption is wrong"
                if why is not None:
                    found.ungraded.setdefault(probe.kind, Counter())[why] += 1
                correct = given == label
            else:
                label, why = _exact(expected), None
                correct = given != "entailment" if label is None else given == label
            yield Grade(
                probe=probe.id,
                video=probe.video,
                kind=probe.kind,
                element=(e, k),
                type=probe.annotation.events[e].visual_elements[k].type,
                tested=expected != "unchanged" or only_unchanged,
                expected=label,
                given=given,
                correct=correct,
                counts=why is None,
            )


def _has_exact(probe: Probe) -> bool:
    return any(one not in (None, "unchanged") for event in probe.expected for one in event)


def _exact(expected: Expectation) -> Relation | None:
    return None if expected == "unchanged" or expected == "not entailed" else expected  # noqa: PLR1714 - mypy narrows this


def _compare(probe: Probe, again: Scored, scored: Mapping[str, Scored], found: _Found) -> None:
    first = scored.get(probe.base or "")
    if first is None:
        found.ungraded.setdefault("repeat", Counter())["the base caption is unscored"] += 1
        return
    pairs = [
        pair
        for one, other in zip(first.relations, again.relations, strict=True)
        for pair in zip(one, other, strict=True)
    ]
    found.agreement[probe.video] = (sum(one == other for one, other in pairs), len(pairs))
