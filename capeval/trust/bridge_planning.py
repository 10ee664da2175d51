"""The plan of a bridge: videos needed for a half-width, from the runs at hand or an assumption."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from capeval.errors import UsageError
from capeval.scoring import GROUPS
from capeval.scoring.result import ResultModel
from capeval.stats.bridge_line import fit_line
from capeval.stats.bridge_planning import (
    Spread,
    residual_spread,
    videos_for_anchor,
    videos_for_line,
)
from capeval.stats.calibration import FEWEST_LABELLED
from capeval.trust.bridge_pairs import RunPair

_F1 = 2


class VideosNeeded(ResultModel):
    """One type: videos of a run that the old judge must judge for its F1, and the likely range.

    `sd` is the standard deviation of the old judge's F1 of a video given the new one's, found in
    `run`, the run that needs the most; `run` is None where it was assumed.
    """

    sd: float
    needed: int
    least: int | None
    most: int | None
    run: str | None
    found_in: int


class BridgePlan(ResultModel):
    """How many videos a bridge needs; fractions from 0 to 1.

    `own_anchor` are by type of elements, None where too few videos have both judges' scores;
    `line` is the number of videos that each anchor of a line through `systems` needs, None where
    none is enough or no line can be fitted.
    """

    old: str
    new: str
    half_width: float
    videos: int
    assumed: bool
    own_anchor: dict[str, VideosNeeded | None]
    systems: int
    line: int | None


def plan_bridge(pairs: Sequence[RunPair], half_width: float, videos: int | None) -> BridgePlan:
    """Return the plan from runs of one data set, in each of which both judges scored a video.

    Raises
    ------
    UsageError
        No run has ten videos that both judges scored.
    """
    total = videos or max(int(pair.new.scored.sum()) for pair in pairs)
    if total < FEWEST_LABELLED:
        raise UsageError(
            f"a run of {total} videos is too small to plan a bridge: at least {FEWEST_LABELLED}"
        )
    needed = {group: _needed(pairs, g, half_width, total) for g, group in enumerate(GROUPS)}
    if needed["all"] is None:
        raise UsageError(
            f"no run has {FEWEST_LABELLED} videos that both judges scored differently; state an "
            "assumption with --sd, such as 12 points"
        )
    shape = (len(pairs), len(pairs[0].reference.annotations))
    old, new = np.full(shape, np.nan), np.full(shape, np.nan)
    for at, pair in enumerate(pairs):
        if pair.old is not None:
            old[at, pair.both] = pair.old.values[pair.both, 0, _F1]
            new[at, pair.both] = pair.new.values[pair.both, 0, _F1]
    line = fit_line(old, new).line
    first = next(pair for pair in pairs if pair.old is not None)
    return BridgePlan(
        old=first.old.folder.path.name if first.old else "",
        new=first.new.folder.path.name,
        half_width=half_width,
        videos=total,
        assumed=False,
        own_anchor=needed,
        systems=len(pairs),
        line=line and videos_for_line(line, half_width, total),
    )


def stated_plan(old: str, new: str, half_width: float, videos: int, sd: float) -> BridgePlan:
    """Return the plan for an assumed standard deviation, of overall F1 alone."""
    needed = videos_for_anchor(sd, half_width, videos)
    return BridgePlan(
        old=old,
        new=new,
        half_width=half_width,
        videos=videos,
        assumed=True,
        own_anchor={
            "all": VideosNeeded(sd=sd, needed=needed, least=None, most=None, run=None, found_in=0)
        },
        systems=0,
        line=None,
    )


def _needed(
    pairs: Sequence[RunPair], g: int, half_width: float, videos: int
) -> VideosNeeded | None:
    """Return the videos that the run with the largest spread needs, for one type."""
    found: list[tuple[Spread, RunPair]] = []
    for pair in pairs:
        if pair.old is None:
            continue
        old, new = (side.values[pair.both, g, _F1] for side in (pair.old, pair.new))
        there = np.isfinite(old) & np.isfinite(new)
        if spread := residual_spread(old[there], new[there]):
            found.append((spread, pair))
    if not found:
        return None
    spread, pair = max(found, key=lambda one: one[0].sd)
    needed, least, most = (
        videos_for_anchor(sd, half_width, videos) for sd in (spread.sd, spread.low, spread.high)
    )
    return VideosNeeded(
        sd=spread.sd,
        needed=needed,
        least=least,
        most=most,
        run=pair.run.name,
        found_in=spread.videos,
    )
