"""Building a bridge: a line for every measure and type from the runs that both judges judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from capeval.scoring import GROUPS, MEASURES
from capeval.scoring.result import BridgeRefusal, ByType
from capeval.stats.bridge_line import FittedLine, Refusal, fit_line
from capeval.trust.bridge_file import (
    Bridge,
    BridgeAnchor,
    BridgeLine,
    BridgeMeasures,
    BridgeMisfit,
    BridgeSide,
    LineFigures,
)
from capeval.trust.bridge_pairs import JudgeNames, RunPair, check_identities


def build_bridge(
    names: JudgeNames, pairs: Sequence[RunPair], left_out: Mapping[str, str] | None = None
) -> Bridge:
    """Return the bridge that some runs of one data set support; its lines may all be refused.

    The anchors are the runs in which both judges scored a video. Their order does not matter: they
    are sorted by name.

    Parameters
    ----------
    pairs : at least one, with at least one by the old judge
    left_out : further runs that could not be anchors, with reasons

    Raises
    ------
    InputError
        The verdicts of one name are of several judges.
    """
    check_identities(pairs)
    anchors = sorted((p for p in pairs if p.both.any()), key=lambda pair: pair.run.name)
    shape = (len(anchors), len(pairs[0].reference.annotations), len(GROUPS), len(MEASURES))
    old, new = np.full(shape, np.nan), np.full(shape, np.nan)
    for at, pair in enumerate(anchors):
        if pair.old is not None:
            old[at, pair.both], new[at, pair.both] = (
                pair.old.values[pair.both],
                pair.new.values[pair.both],
            )
    both = np.isfinite(old[:, :, 0, 2]) & np.isfinite(new[:, :, 0, 2])
    lines = {
        group: BridgeMeasures(
            **{
                measure: _line(fit_line(old[:, :, g, m], new[:, :, g, m]), anchors)
                for m, measure in enumerate(MEASURES)
            }
        )
        for g, group in enumerate(GROUPS)
    }
    shared = int(both.all(axis=0).sum()) if anchors else 0
    reference, old_side = next((pair, pair.old) for pair in [*anchors, *pairs] if pair.old)
    return Bridge(
        old=BridgeSide.of(names.old, old_side.identity, _models(anchors, "old")),
        new=BridgeSide.of(names.new, reference.new.identity, _models(pairs, "new")),
        data=reference.data,
        annotated=len(reference.reference.annotations),
        anchors=tuple(
            BridgeAnchor(
                run=pair.run.name,
                old="" if pair.old is None else pair.old.digest,
                new=pair.new.digest,
                both=int(pair.both.sum()),
                N=int(pair.new.scored.sum()),
                seed=None if pair.drawn is None or pair.is_whole else pair.drawn.seed,
            )
            for pair in anchors
        ),
        shared=shared,
        not_shared=int(both.any(axis=0).sum()) - shared,
        left_out=dict(left_out or {}),
        lines=ByType[BridgeMeasures](**lines),
    ).signed()


def refusals_by_run(refusals: Sequence[Refusal], runs: Sequence[str]) -> tuple[BridgeRefusal, ...]:
    """Return refusals with the names of runs in place of their numbers."""
    return tuple(
        BridgeRefusal(
            rule=one.rule,
            figures={
                name: runs[int(value)] if name == "system" and not isinstance(value, str) else value
                for name, value in one.figures.items()
            },
        )
        for one in refusals
    )


def _line(fitted: FittedLine, anchors: Sequence[RunPair]) -> BridgeLine:
    runs = [pair.run.name for pair in anchors]
    of = fitted.line
    return BridgeLine(
        line=of and LineFigures(**{name: getattr(of, name) for name in LineFigures.model_fields}),
        k=fitted.systems,
        n=fitted.videos,
        refusals=refusals_by_run(fitted.refusals, runs),
        left_out=tuple(
            BridgeMisfit(
                run=runs[one.system],
                shift=one.shift,
                error=one.error,
                p=one.p,
                adjusted=one.adjusted,
            )
            for one in fitted.left_out
        ),
        means=fitted.means,
    )


def _models(pairs: Sequence[RunPair], of: str) -> tuple[str, ...]:
    sides = [side for pair in pairs if (side := getattr(pair, of)) is not None]
    return tuple(sorted({model for side in sides for model in side.models}))
