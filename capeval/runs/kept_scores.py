"""What stays of `scores.json` when it is written anew: bridged scores of the same verdicts."""

from __future__ import annotations

import hashlib

from capeval.errors import InputError
from capeval.files.reading import read_bytes
from capeval.runs.folder import JudgeFolder
from capeval.runs.stored_scores import load_scores
from capeval.scoring import Scores


def verdicts_hash(folder: JudgeFolder) -> str:
    """Return the SHA-256 of a judge's `judgments.jsonl`, to which derived scores are tied."""
    return hashlib.sha256(read_bytes(folder.judgments)).hexdigest()


def with_bridged(scores: Scores, folder: JudgeFolder) -> Scores:
    """Return scores with the bridged ones of the file that they replace, if these still belong.

    Bridged scores of other verdicts or annotations are dropped: `capeval bridge` makes them again
    without a model.
    """
    if not folder.has_scores():
        return scores
    try:
        before = load_scores(folder.scores)
    except InputError:
        return scores
    bridged = before.bridged
    if bridged is None or before.settings.get("data") != scores.settings.get("data"):
        return scores
    verdicts = bridged.settings.get("verdicts")
    if not isinstance(verdicts, dict) or verdicts.get("new") != verdicts_hash(folder):
        return scores
    return scores.model_copy(update={"bridged": bridged})
