"""Where the cards of judges are, and which of them is about the judge of some stored verdicts."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from capeval.errors import CapevalError
from capeval.files.reading import Stamp, stamp_of
from capeval.runs.folder import JudgeFolder
from capeval.runs.verdicts import first_repeats, identity_of
from capeval.schema import JUDGMENT, Judgment, Scored
from capeval.trust.probe_card import Card, identity_fields, load_card

CARD, PROBES = "probe.json", "probes.jsonl"
"""The names of the card and of its probes in the folder of a judge."""

_MOST_LINES = 200
"""Lines of verdicts that are read to find a scored one: a run whose first ones all failed has no
score worth a card."""


def probes_folder(runs: Path) -> Path:
    """Return the folder of all cards: `probes/` next to the folder of runs."""
    # "." and ".." name no folder whose parent the path could tell.
    named = runs if runs.name not in ("", "..") else Path(os.path.abspath(runs))  # noqa: PTH100 - links stay
    return named.parent / "probes"


def card_for(judgments: Path) -> Card | None:
    """Return the card of the judge that made stored verdicts, or None where there is none.

    The card must have the identity that the verdicts record: the judge as requested, its prompts,
    endpoint, repeats and settings, and, where both record it, the snapshot that answered. A card
    that cannot be read counts as none: `capeval probe` replaces it.

    Parameters
    ----------
    judgments : a `judgments.jsonl` in `RUNS/RUN/JUDGE/`
    """
    verdict: Judgment | None = _first_scored(judgments)
    if verdict is None:
        return None
    if asked := JudgeFolder(judgments.parent).repeats:
        verdict = first_repeats(verdict, asked)
    folder = probes_folder(judgments.absolute().parent.parent.parent)
    try:
        # That of this judge's own folder first: others are of other judges, nearly always.
        found = sorted(
            folder.glob(f"*/{CARD}"), key=lambda p: p.parent.name != judgments.parent.name
        )
    except OSError:
        return None
    return next((card for file in found if (card := _read(file)) and is_of(card, verdict)), None)


def is_of(card: Card, verdict: Judgment) -> bool:
    """Return whether a card is of the judge that gave a verdict."""
    if card.judge.identity != identity_fields(identity_of(verdict)):
        return False
    if verdict.inputs is not None and verdict.inputs.judge not in card.judge.hashes:
        return False
    models = set(verdict.provenance.models)
    return not models or not card.judge.models or models <= set(card.judge.models)


def _read(file: Path) -> Card | None:
    try:
        return _unchanged(file, stamp_of(file))
    except (CapevalError, OSError, ValueError):
        return None


@lru_cache(maxsize=64)
def _unchanged(file: Path, _stamp: Stamp) -> Card:
    # A leaderboard asks for each of hundreds of runs.
    return load_card(file)


def _first_scored(file: Path) -> Scored | None:
    try:
        with file.open(encoding="utf-8") as lines:
            for _, line in zip(range(_MOST_LINES), lines, strict=False):
                value = json.loads(line)
                if isinstance(value, dict) and value.get("status") == "scored":
                    found = JUDGMENT.validate_python(value)
                    return found if isinstance(found, Scored) else None
    except (OSError, ValueError, ValidationError, RecursionError):
        # Its own reader says what is wrong with it.
        pass
    return None
