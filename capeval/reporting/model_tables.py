"""The catalogue of models, as a table and one by one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console

from capeval.captioners.catalogue import ModelEntry
from capeval.llm.redact import public_url
from capeval.show.numbers import billions, plain_number, thousands
from capeval.show.table import LINE, Cell, Column, Kind, Page, table_of
from capeval.show.terminal import print_fields, print_pages
from capeval.text import counted, one_line

_NONE = "none"
_WAYS = {
    "transformers": "run in this process (transformers)",
    "endpoint": "by a provider's API (endpoint)",
    "server": "on a server that you start (server)",
    _NONE: "cannot be run",
}
_MEMORY = Kind(lambda gib: f"{gib} GiB")


def print_models(entries: Sequence[ModelEntry], console: Console, *, full: bool = False) -> None:
    """Print how the models can be run, and a line for each newer one and the user's own.

    Those of the paper are only named, unless `full` or there are no others.
    """
    ways = Counter(entry.reached for entry in entries)
    run = ", ".join(f"{count} {_WAYS.get(way, f'by {way}')}" for way, count in ways.most_common())
    headline = one_line(f"{counted(len(entries), 'model')}: {run}.")
    listed = [entry for entry in entries if full or not entry.paper or entry.is_own] or entries
    others = [entry for entry in entries if entry not in listed]
    reached = [None if entry.reached == _NONE else entry.reached for entry in listed]
    table = table_of(
        "",
        [
            (
                Column("Model", words=True, kind=LINE),
                [Cell(entry.name, after=" *" if entry.paper else "") for entry in listed],
            ),
            (Column("Run by", words=True), reached),
            (Column("Parameters", kind=Kind(billions)), [entry.parameters for entry in listed]),
            (Column("Memory", kind=_MEMORY), [entry.memory for entry in listed]),
            (Column("Frames", kind=LINE), [entry.frames for entry in listed]),
        ],
    )
    papers = {
        "can be run": [one_line(entry.name) for entry in others if entry.reached != _NONE],
        "cannot be run": [one_line(entry.name) for entry in others if entry.reached == _NONE],
    }
    notes = [
        f"Models of the TUNA paper that {what}: {', '.join(names)}."
        for what, names in papers.items()
        if names
    ]
    notes += ["--full lists the paper's models too."] if others else []
    if any(entry.paper for entry in listed):
        notes.append("* in the TUNA paper, with the frames of its table 7.")
    notes += [
        "Memory is an estimate: the parameters in bf16, a fifth more, and 2 GiB.",
        "`capeval models NAME` shows how a model is run.",
    ]
    print_pages([Page([table], notes=notes)], console, headline=headline)


def print_model(entry: ModelEntry, console: Console) -> None:
    """Print everything about one model."""
    is_on_hub = entry.hub is not None and not entry.hub.startswith(("./", "../", "/", "~"))
    newest = "the newest; captions record which one it was" if is_on_hub else None
    images = None
    if entry.serve or entry.base_url or entry.reached == "endpoint":
        images = (
            f"{entry.images} (at an endpoint)" if entry.reached == "transformers" else entry.images
        )
    fields = {
        "model": entry.name,
        "hub": entry.hub,
        "revision": entry.revision or newest,
        "parameters": None if entry.parameters is None else billions(entry.parameters),
        "memory": None if entry.memory is None else f"{entry.memory} GiB (estimated)",
        "frames": entry.frames,
        "prompt": entry.prompt,
        "system": entry.system,
        "tokens": f"{thousands(entry.max_new_tokens)} at most",
        "temperature": None if entry.temperature is None else plain_number(entry.temperature),
        "options": ", ".join(f"{k} = {_toml(v)}" for k, v in entry.options.items()) or None,
        "reached": entry.reached,
        "endpoint": entry.base_url and public_url(entry.base_url),
        "serve": entry.serve,
        "images": images,
        "max_side": entry.max_side and f"{entry.max_side:,} pixels",
        "note": entry.note,
        "paper": "in its table 7" if entry.paper else None,
    }
    print_fields(fields, console)


def _toml(value: object) -> str:
    """Return a value as `capeval.toml` has it."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False, default=str)
