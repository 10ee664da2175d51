"""Bridged scores of one run: by its own anchor where it has one, else by the system line."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from capeval.files.judgments import short_hash
from capeval.runs.verdicts import signature_of
from capeval.scoring import GROUPS, MEASURES, Signature
from capeval.scoring.buckets import Membership, by_way
from capeval.scoring.result import (
    Bridged,
    BridgedBreakdown,
    BridgedBucket,
    BridgedEstimate,
    BridgedTypeScores,
    Ends,
)
from capeval.stats.bridge_line import MAX_ERROR, predict
from capeval.stats.calibration import FEW_LABELLED, FEWEST_LABELLED, Calibration, calibrate
from capeval.stats.values import Floats
from capeval.text import counted
from capeval.trust.bridge_build import refusals_by_run
from capeval.trust.bridge_file import SHORT, Bridge, BridgeSide, bridged_digest
from capeval.trust.bridge_pairs import JudgedVideos, RunPair

MARK = "bridged:"
"""Begins the judge of a bridged score's signature, so that no judge can be taken for it."""


def bridged_scores(bridge: Bridge, pair: RunPair, *, max_error: float = MAX_ERROR) -> Bridged:
    """Return what the old judge's scores of a run would be.

    The run's own anchor is used from 10 videos on: it needs no other system, and gives every
    bucket. Otherwise the line through systems is used for each measure and type that it admits.

    Parameters
    ----------
    max_error : largest half-width that the line may have, a fraction
    """
    if pair.old is not None and int(pair.both.sum()) >= FEWEST_LABELLED:
        made = _own_anchor(bridge, pair, pair.old)
    else:
        made = _system_line(bridge, pair, max_error)
    return made.model_copy(update={"hash": bridged_digest(made)})


def _own_anchor(bridge: Bridge, pair: RunPair, by_old: JudgedVideos) -> Bridged:
    reference, both = pair.reference, pair.both
    everything = Membership("overall", "", np.ones(len(both), dtype=bool))
    members = [everything, *reference.members_of(range(len(both)))]
    new, old = (
        np.concatenate(
            [np.where(of.inside[:, None], _flat(values), np.nan) for of in members], axis=1
        )
        for values in (pair.new.values, by_old.values)
    )
    found = calibrate(new, old[both], np.flatnonzero(both), bounds=(0.0, 1.0))
    buckets = [_bucket(found, b) for b in range(len(members))]
    warnings = []
    if pair.drawn is None and not pair.is_whole:
        warnings.append(
            f"the videos judged by {bridge.old.folder} were not drawn at random by "
            "`capeval bridge collect`: the interval assumes that they were"
        )
    anchored = int(both.sum())
    if anchored < FEW_LABELLED:
        warnings.append(
            f"only {counted(anchored, 'video')} are judged by both: below {FEW_LABELLED}, "
            "intervals cover a little less than 95%"
        )
    if pair.drawn is not None and not pair.is_whole:
        missing = pair.drawn.n - anchored
        if missing:
            warnings.append(f"{missing:,} of {pair.drawn.n:,} drawn videos are not scored by both")
    return Bridged(
        signature=_signature(bridge, pair, short_hash([*_judges(bridge), "own anchor"])),
        method="own_anchor",
        old=bridge.old.folder,
        new=bridge.new.folder,
        hash="",
        systems=1,
        anchored=anchored,
        overall=buckets[0],
        by=BridgedBreakdown(**by_way(members[1:], buckets[1:])),
        warnings=tuple(warnings),
        settings=_settings(pair) | {"N": int(pair.new.scored.sum())},
    )


def _flat(values: Floats) -> Floats:
    return values.reshape(len(values), -1)


def _bucket(found: Calibration, b: int) -> BridgedBucket:
    cells = len(GROUPS) * len(MEASURES)
    scores = {}
    for g, group in enumerate(GROUPS):
        first = b * cells + g * len(MEASURES)
        estimates = {
            measure: BridgedEstimate(
                value=_number(found.value[at]),
                low=_number(found.low[at]),
                high=_number(found.high[at]),
                same_videos=Ends(
                    low=_number(found.same_low[at]), high=_number(found.same_high[at])
                ),
                reason=found.reasons[at],
            )
            for at, measure in enumerate(MEASURES, start=first)
        }
        n, anchored = int(found.videos[first]), int(found.labelled[first])
        scores[group] = BridgedTypeScores(**estimates, n=n, anchored=anchored)
    return BridgedBucket(**scores)


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _system_line(bridge: Bridge, pair: RunPair, max_error: float) -> Bridged:
    runs = [anchor.run for anchor in bridge.anchors]
    scores = {}
    for g, group in enumerate(GROUPS):
        estimates, n = {}, 0
        lines = getattr(bridge.lines, group)
        for m, measure in enumerate(MEASURES):
            values = pair.new.values[:, g, m]
            values = values[np.isfinite(values)]
            n = len(values)
            fitted = getattr(lines, measure).fitted()
            mean, error = (float(values.mean()), 0.0) if n else (None, 0.0)
            if n > 1:
                error = float(values.std(ddof=1)) / n**0.5
            made = predict(fitted, mean, videos=n, error=error, max_error=max_error)
            estimates[measure] = BridgedEstimate(
                value=made.value,
                low=made.low,
                high=made.high,
                same_videos=Ends(low=made.same_low, high=made.same_high),
                refusals=refusals_by_run(made.refusals, runs),
            )
        scores[group] = BridgedTypeScores(**estimates, n=n, anchored=int(pair.both.sum()))
    warnings = []
    if anchored := int(pair.both.sum()):
        warnings.append(
            f"{counted(anchored, 'video')} judged by both: its own anchor needs {FEWEST_LABELLED}"
        )
    return Bridged(
        signature=_signature(bridge, pair, bridge.hash),
        method="system_line",
        old=bridge.old.folder,
        new=bridge.new.folder,
        hash="",
        systems=len(bridge.anchors),
        anchored=bridge.shared,
        overall=BridgedBucket(**scores),
        warnings=tuple(warnings),
        settings=_settings(pair)
        | {"bridge": bridge.hash, "max_error": max_error, "N": int(pair.new.scored.sum())},
    )


def has_value(bridged: Bridged) -> bool:
    """Return whether overall F1 could be bridged."""
    return bridged.overall.all.f1.value is not None


def _judges(bridge: Bridge) -> Sequence[object]:
    return [bridge.old.identity, bridge.new.identity]


def _settings(pair: RunPair) -> dict[str, object]:
    """Return what tells later whether the scores still belong to the verdicts."""
    drawn = None if pair.drawn is None or pair.is_whole else pair.drawn
    return {
        "verdicts": {"old": pair.old and pair.old.digest, "new": pair.new.digest},
        "drawn": drawn and {"seed": drawn.seed, "n": drawn.n, "N": drawn.N},
    }


def _signature(bridge: Bridge, pair: RunPair, digest: str) -> str:
    """Return the signature: both judges and the bridge in place of a judge.

    >>> _arrow("1", "1"), _arrow("v1", "v2")
    ('1', 'v1<-v2')
    """
    judged = pair.new.judged
    parts = dict(
        Signature.parse(signature_of(judged.annotations, list(judged.judgments.values()))).parts
    )
    old, new = bridge.old, bridge.new
    parts["judge"] = f"{MARK}{old.label}<-{new.label}@{digest[:SHORT]}"
    parts["prompts"] = _arrow(_prompts(old), _prompts(new))
    parts["repeats"] = _arrow(str(old.repeats), str(new.repeats))
    if old.reasoning or new.reasoning:
        effort = _arrow(old.reasoning or "not set", new.reasoning or "not set")
        at = [*parts].index("prompts") + 1
        rest = [(name, value) for name, value in parts.items() if name != "reasoning"]
        parts = dict([*rest[:at], ("reasoning", effort), *rest[at:]])
    return str(Signature.of(parts))


def _prompts(side: BridgeSide) -> str:
    return side.prompts or "none"


def _arrow(old: str, new: str) -> str:
    return old if old == new else f"{old}<-{new}"
