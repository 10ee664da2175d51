"""The settings of a run, which all of its captions share."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from capeval.captioners.protocol import Captioner
from capeval.errors import InputError
from capeval.files.jsonl import dumps
from capeval.runs.folder import RunFolder
from capeval.text import shown
from capeval.video import FrameReader

_ROOM = 160
"""Characters of an error's 300 that are left for the settings that differ."""

_FROM_PROMPT = "generation.processor.prompt_tokens"

_HASH = "generation.weights.sha256"
_FIRST = ("model", "generation.backend", _HASH)
"""What another model changes; an error names these, and other settings while there is room."""


def generation_settings(
    prompt: Mapping[str, Any], captioner: Captioner, reader: FrameReader
) -> dict[str, Any]:
    """Return the settings that affect captions, as JSON values; a run has one set of them.

    `prompt` is what is recorded of the prompts.
    """
    settings: dict[str, Any] = json.loads(
        dumps(
            {
                "model": captioner.name,
                "frames": reader.policy,
                "decoder": reader.decoder,
                "prompt": dict(prompt),
                "generation": dict(captioner.settings),
            }
        )
    )
    return settings


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
        raise InputError(
            "was generated with other settings, which cannot be mixed; choose another --run, or go "
            f"back to {_changes(different, then, now)}",
            file=run.path,
        )
    return settings


def _changes(different: Sequence[str], then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    # An error has one line, and a value that a reader can type says more than a hash.
    beside = {key.rpartition(".")[0] for key in different if not key.endswith(".sha256")}
    readable = [
        key
        for key in different
        if not (key.endswith(".sha256") and key.rpartition(".")[0] in beside)
        and not (key == _FROM_PROMPT and "prompt" in beside)
    ]
    prefix = re.compile(r"^(generation\.)*")
    texts = {
        key: f"{prefix.sub('', key)} {_short(key, then)} (now {_short(key, now)})"
        for key in sorted(readable, key=lambda key: (key not in _FIRST, readable.index(key)))
    }
    named = sorted(texts, key=lambda key: (key not in _FIRST, len(texts[key])))
    while len(named) > 1 and len(", ".join(texts[key] for key in named)) > _ROOM:
        named.pop()
    more = len(texts) - len(named)
    listed = ", ".join(text for key, text in texts.items() if key in named)
    return listed + (f", and {more} more" if more else "")


def _short(key: str, settings: Mapping[str, Any]) -> str:
    value = settings.get(key)
    return shown(value[:12] if key.endswith(".sha256") and isinstance(value, str) else value)


def _flat(settings: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            flat |= _flat(value, f"{before}{key}.")
        else:
            flat[f"{before}{key}"] = value
    return flat
