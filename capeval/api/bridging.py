"""`capeval.bridge` and `capeval.bridge_show`: scores carried from one judge to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from capeval.api import FilePath
from capeval.api.bridge_options import BridgeOptions, BridgePlanOptions, BridgeShowOptions
from capeval.api.sync_async import awaitable
from capeval.errors import CapevalError, InputError, UsageError
from capeval.options import takes
from capeval.runs.folder import RunFolder
from capeval.runs.resolve import find_run
from capeval.scoring.result import Bridged
from capeval.text import Loss, listed
from capeval.trust.bridge_agreement import JudgesCompared, compare_judges
from capeval.trust.bridge_build import build_bridge
from capeval.trust.bridge_file import Bridge, BridgeSide, bridge_path, load_bridge, write_bridge
from capeval.trust.bridge_pairs import (
    JudgeNames,
    PairLoader,
    RunPair,
    check_identities,
    find_judge_names,
    load_pairs,
    one_data_set,
)
from capeval.trust.bridge_planning import BridgePlan, plan_bridge, stated_plan
from capeval.trust.bridge_result import BridgeResult
from capeval.trust.bridge_scores import bridged_scores
from capeval.trust.bridge_stored import store_bridged


@takes(BridgeOptions)
def bridge(o: BridgeOptions) -> BridgeResult:
    """Carry scores by a new judge over to an old one, and store them beside the new judge's own.

    A run of which the old judge has judged random videos (`bridge_collect`) is its own anchor.
    Others are bridged by a line through the runs that both judges have judged, or refused with
    reasons.

    Raises
    ------
    InputError, UsageError
        A judge or a run is not found, or its files cannot be read.
    """
    runs = Path(o.runs)
    named = [find_run(one, runs) for one in o.judged_runs]
    given = None if o.use is None else load_bridge(Path(o.use))
    if given is not None and o.anchor:
        raise UsageError("--use names a bridge that has its anchors; omit --anchor")
    anchors = [find_run(one, runs) for one in o.anchor] or RunFolder.all(runs)
    names = (
        find_judge_names(o.old, o.new, _distinct([*named, *anchors]), runs)
        if given is None
        else _names_in(given, o.old, o.new)
    )
    pairs, targets = _loaded(names, named, anchors, o)
    same, others = one_data_set(pairs)
    file = bridge_path(runs, names.old, names.new)
    if given is None:
        places = {run.path.resolve() for run in anchors}
        allowed = [pair for pair in same if pair.run.path.resolve() in places]
        reasons = {pair.run.name: "it has other annotations" for pair in others}
        made = build_bridge(names, _judged_by_old(allowed, names), reasons)
        _keep_lost_anchors(file, runs)
    else:
        made = given
        _check_judges(made, pairs)
    write_bridge(file, made)
    if not named:
        targets = [pair for pair in pairs if pair.data == made.data]
    for pair in targets:
        if pair.data != made.data:
            raise InputError("has other annotations than the bridge", file=pair.run.path)
    found = {
        pair.run.name: bridged_scores(made, pair, max_error=o.max_error / 100)
        for pair in targets
        if not pair.is_whole
    }
    stored = _store(found, targets, o.on_notice)
    return BridgeResult(
        bridge=made,
        file=str(file),
        runs=found,
        stored=tuple(stored),
        whole=tuple(pair.run.name for pair in targets if pair.is_whole),
    )


@takes(BridgePlanOptions)
def bridge_plan(o: BridgePlanOptions) -> BridgePlan:
    """Return how many videos the old judge must judge for a bridged score of some precision.

    Raises
    ------
    InputError, UsageError
        A judge is not found, or no run has enough videos by both; `sd` needs no run.
    """
    if o.sd is not None:
        return stated_plan(o.old, o.new, o.half_width / 100, o.videos or 1000, o.sd / 100)
    pairs = _both(o.old, o.new, (), o)
    return plan_bridge(pairs, o.half_width / 100, o.videos)


@takes(BridgeShowOptions)
def bridge_show(o: BridgeShowOptions) -> JudgesCompared:
    """Compare two judges on the runs that both have judged.

    Raises
    ------
    InputError, UsageError
        A judge or a run is not found, or both judges have scored no video of it.
    """
    pairs = _both(o.old, o.new, o.judged_runs, o)
    return compare_judges(pairs)


_ASSUME = "to plan without verdicts, state an assumption: --sd 12, in points of F1"


def _loaded(
    names: JudgeNames, named: Sequence[RunFolder], anchors: Sequence[RunFolder], o: BridgeOptions
) -> tuple[list[RunPair], list[RunPair]]:
    """Return all runs by both judges, and those of them that were named."""
    loader = PairLoader(names, o.annotations)
    targets = [loader.load(run) for run in _distinct(named)]
    paths = {pair.run.path.resolve() for pair in targets}
    rest = [run for run in anchors if run.path.resolve() not in paths]
    pairs = [*targets, *load_pairs(rest, loader, o.on_notice)]
    if not pairs:
        raise InputError(f"no run was judged by {names.new}", file=o.runs)
    return pairs, targets


def _both(
    old: str, new: str, named: Sequence[FilePath], o: BridgePlanOptions | BridgeShowOptions
) -> list[RunPair]:
    """Return the runs of one data set in which both judges have scored a video."""
    runs = Path(o.runs)
    found = [find_run(one, runs) for one in named]
    among = found or RunFolder.all(runs)
    planning = isinstance(o, BridgePlanOptions)
    names = find_judge_names(old, new, among, runs, _ASSUME if planning else "")
    loader = PairLoader(names, o.annotations)
    if found:
        pairs = [loader.load(run) for run in _distinct(found)]
    else:
        pairs = load_pairs(RunFolder.all(runs), loader, o.on_notice)
    same, others = one_data_set(pairs)
    for pair in others:
        o.on_notice(f"left out: {pair.run}: it has other annotations")
    both = [pair for pair in same if pair.both.any()]
    if not both:
        advice = f"; or {_ASSUME}" if planning else ""
        raise InputError(_nothing_in_common(names) + advice, file=runs)
    check_identities(both)
    return both


def _nothing_in_common(names: JudgeNames) -> str:
    return (
        f"no video was scored by both {names.old} and {names.new}; have random videos judged "
        f"with `capeval bridge collect {names.old} {names.new} RUN`"
    )


def _judged_by_old(pairs: Sequence[RunPair], names: JudgeNames) -> Sequence[RunPair]:
    if not any(pair.old for pair in pairs):
        raise UsageError(_nothing_in_common(names))
    return pairs


def _keep_lost_anchors(file: Path, runs: Path) -> None:
    """Refuse to replace a bridge whose anchors are not here: it could not be made again."""
    if not file.exists():
        return
    lost = [one.run for one in load_bridge(file).anchors if not (runs / one.run).exists()]
    if lost:
        raise UsageError(
            f"{file} has anchors that are not under {runs}/ ({listed(lost)}); go on with it by "
            f"--use {file}, or delete it to make another"
        )


def _names_in(given: Bridge, old: str, new: str) -> JudgeNames:
    for typed, side in ((old, given.old), (new, given.new)):
        if not side.folder.startswith(typed):
            raise UsageError(f"the bridge is between other judges: {side.folder}, not {typed}")
    return JudgeNames(given.old.folder, given.new.folder)


def _check_judges(given: Bridge, pairs: Sequence[RunPair]) -> None:
    for pair in pairs:
        for side, of in ((pair.new, given.new), (pair.old, given.old)):
            if side is None:
                continue
            here = BridgeSide.of(of.folder, side.identity, ())
            if here.identity != of.identity:
                raise InputError(
                    f"holds verdicts of another judge ({side.identity}) than the bridge's "
                    f"{of.folder}",
                    file=side.folder.path,
                )


def _store(
    found: Mapping[str, Bridged], targets: Sequence[RunPair], on_notice: Callable[[str], None]
) -> list[str]:
    """Write bridged scores; a run that is not scored yet, or is being judged, gets a notice."""
    stored = []
    for pair in targets:
        if (bridged := found.get(pair.run.name)) is None:
            continue
        try:
            stored.append(str(store_bridged(pair.new.folder, bridged)))
        except CapevalError as fault:
            on_notice(Loss(f"not stored: {fault}"))
    return stored


def _distinct(runs: Sequence[RunFolder]) -> list[RunFolder]:
    return list({run.path.resolve(): run for run in runs}.values())


bridge_async = awaitable(bridge)
bridge_plan_async = awaitable(bridge_plan)
bridge_show_async = awaitable(bridge_show)
