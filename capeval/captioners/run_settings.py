"""The settings of a run, which all of its captions share."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from capeval.errors import InputError
from capeval.files.jsonl import dumps
from capeval.runs.folder import RunFolder
from capeval.text import cut, listed, shown

_HASH = "generation.weights.sha256"
_NAMED = 3
"""How many of the settings that differ an error names."""


def settings_id(settings: Mapping[str, Any]) -> str:
    """Return a short hash of settings, which every caption line carries."""
    return hashlib.sha256(dumps(settings).encode("utf-8")).hexdigest()[:12]


def same_settings(run: RunFolder, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings to continue a run with; raises `InputError` if it has others.

    They are `settings`, but a model in a folder keeps the name that the run began with: a folder
    can be renamed, and its weights are known by their hash.
    """
    manifest = run.read_manifest()
    before = manifest.get("generation")
    if before is None:
        if run.captions.exists():
            raise InputError(
                "has captions that were not generated here; choose another --run", file=run.path
            )
        return settings
    now, then = _flat(settings), _flat(before if isinstance(before, dict) else {})
    if _HASH in now and now[_HASH] == then.get(_HASH):
        settings = {**settings, "model": then.get("model")}
        now["model"] = settings["model"]
    different = [key for key in {**then, **now} if dumps(then.get(key)) != dumps(now.get(key))]
    if different:
        changes = (f"{k} {_short(then.get(k))} (now {_short(now.get(k))})" for k in different)
        raise InputError(
            "was generated with other settings, which cannot be mixed; choose another --run, or go "
            f"back to {listed(changes, _NAMED)}",
            file=run.path,
        )
    return settings


def _short(value: Any) -> str:
    # The message is cut at 300 characters.
    return cut(shown(value), 26)


def _flat(settings: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            flat |= _flat(value, f"{before}{key}.")
        else:
            flat[f"{before}{key}"] = value
    return flat
