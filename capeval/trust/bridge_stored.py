"""Bridged scores in `scores.json`: stored beside the judge's own, and whether they still belong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from capeval.errors import InputError
from capeval.files.jsonl import dumps, write_atomic
from capeval.runs.folder import JudgeFolder, RunFolder
from capeval.runs.judged_run import JudgedRun
from capeval.runs.stored_scores import load_scores, stored_bridged, verdicts_hash
from capeval.scoring import Scores, Signature
from capeval.scoring.result import Bridged
from capeval.trust.bridge_file import Bridge, bridge_path, bridged_digest, load_bridge


def store_bridged(folder: JudgeFolder, bridged: Bridged) -> Path:
    """Write bridged scores into the `scores.json` of the new judge, and return the file.

    Raises
    ------
    InputError
        There is no `scores.json` yet, or it is damaged or of other annotations.
    RunLocked
        Another process is working on the run.
    """
    if not folder.scores.is_file():
        raise InputError(
            "is not scored yet; finish with the same `capeval judge` command as before",
            file=folder.path,
        )
    with (folder.run or RunFolder(folder.path.parent)).locked():
        scores = load_scores(folder.scores)
        if not _is_of_same_data(scores, bridged):
            raise InputError(
                "is of other annotations; run the same `capeval judge` command again, or `capeval "
                "score` with --out, and then this one",
                file=folder.scores,
            )
        changed = scores.model_copy(update={"bridged": bridged})
        if changed != scores:
            text = dumps(changed.model_dump(mode="json"), indent=1) + "\n"
            write_atomic(folder.scores, text)
    return folder.scores


def why_outdated(scores: Scores, folder: JudgeFolder, runs: Path | None = None) -> str | None:
    """Return why the bridged scores of a file no longer belong to what they were made of, or None.

    They must not have been edited. The verdicts of both judges on this run must be the same as then
    and, for a line through systems, `bridge.json` and the verdicts of those anchors that are still
    there.

    Parameters
    ----------
    folder : of the new judge
    runs : the folder of runs, if the run is not in it
    """
    bridged = scores.bridged
    if bridged is None:
        return None
    if bridged.hash != bridged_digest(bridged):
        return "they were edited"
    made = bridged.settings.get("verdicts")
    if not isinstance(made, dict) or made.get("new") != _hash(folder):
        return f"the verdicts of {bridged.new} have changed"
    if not _is_of_same_data(scores, bridged):
        return "the annotations have changed"
    run = folder.path.absolute().parent
    if bridged.method == "own_anchor":
        if made.get("old") != _hash(JudgeFolder(run / bridged.old)):
            return f"the verdicts of {bridged.old} have changed, or are no longer here"
        return None
    around = runs or run.parent
    file = bridge_path(around, bridged.old, bridged.new)
    try:
        bridge = load_bridge(file)
    except InputError as fault:
        return f"its bridge cannot be checked ({fault})"
    if bridge.hash != bridged.settings.get("bridge"):
        return "the bridge was made again since"
    return changed_anchor(bridge, around)


def changed_anchor(bridge: Bridge, runs: Path) -> str | None:
    """Return which anchor of a bridge has other verdicts now, or None; missing ones do not count.

    A bridge may have come without its anchors.
    """
    for anchor in bridge.anchors:
        for judge, digest in ((bridge.old.folder, anchor.old), (bridge.new.folder, anchor.new)):
            folder = JudgeFolder(runs / anchor.run / judge)
            if folder.judgments.is_file() and _hash(folder) != digest:
                return f"the verdicts of the anchor {anchor.run} by {judge} have changed"
    return None


def read_bridged(folder: JudgeFolder) -> tuple[Bridged | None, str | None]:
    """Return the bridged scores beside a judge's own, or why those that are stored are outdated."""
    if stored_bridged(folder) is None:
        return None, None
    scores = load_scores(folder.scores)
    why = why_outdated(scores, folder)
    return (None, why) if why else (scores.bridged, None)


def with_bridged(judged: JudgedRun) -> tuple[JudgedRun, str | None]:
    """Return a judged run with the bridged scores that are stored beside its verdicts.

    If these are outdated, the run is returned as it is, with a notice.
    """
    folder = JudgeFolder(judged.file.parent)
    if judged.run is None or judged.file.name != folder.judgments.name:
        return judged, None
    bridged, why = read_bridged(folder)
    if why:
        return judged, (
            f"{judged.name}: its bridged scores are left out: {why}; make them again with "
            "`capeval bridge`"
        )
    return replace(judged, bridged=bridged), None


def _is_of_same_data(scores: Scores, bridged: Bridged) -> bool:
    ours, theirs = (Signature.parse(one.signature).get("data") for one in (scores, bridged))
    return ours == theirs


def _hash(folder: JudgeFolder) -> str | None:
    return verdicts_hash(folder) if folder.judgments.is_file() else None
