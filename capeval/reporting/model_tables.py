"""The catalogue of models, as people read it."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from capeval.captioners.catalogue import ModelEntry
from capeval.llm import public_url
from capeval.reporting.numbers import NOTHING
from capeval.text import one_line


def print_models(entries: Sequence[ModelEntry], console: Console) -> None:
    """Print one line for each model."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("Model", no_wrap=True)
    table.add_column("Parameters", justify="right")
    table.add_column("Memory", justify="right", no_wrap=True)
    table.add_column("Frames", justify="right", no_wrap=True)
    table.add_column("Reached by")
    for entry in entries:
        size = NOTHING if entry.parameters is None else f"{entry.parameters:g} B"
        table.add_row(
            Text(one_line(entry.name + (" *" if entry.paper else ""))),
            size,
            _memory(entry),
            Text(one_line(entry.frames)),
            entry.reached,
        )
    console.print(table)
    console.print(
        "* in the TUNA paper, with the frames of its table 7. Memory is estimated from the number "
        "of parameters: weights in bf16, a fifth more, and 2 GiB. "
        "`capeval models NAME` shows how a model is run.",
        markup=False,
        highlight=False,
    )


def print_model(entry: ModelEntry, console: Console) -> None:
    """Print everything about one model."""
    shown = {
        "model": entry.name,
        "hub": entry.hub,
        "revision": entry.revision or ("the newest; captions record which" if entry.hub else None),
        "parameters": None if entry.parameters is None else f"{entry.parameters:g} billion",
        "memory": None if entry.memory is None else f"{_memory(entry)} (estimated)",
        "frames": entry.frames,
        "prompt": entry.prompt,
        "system": entry.system,
        "tokens": f"{entry.max_new_tokens} at most, temperature {entry.temperature}",
        "options": ", ".join(f"{k} = {v}" for k, v in entry.options.items()) or None,
        "reached": entry.reached,
        "endpoint": entry.base_url and public_url(entry.base_url),
        "serve": entry.serve,
        "images": entry.images if entry.serve or entry.reached == "endpoint" else None,
        "note": entry.note,
        "paper": "in its table 7" if entry.paper else None,
    }
    for field, value in shown.items():
        if value is not None:
            console.print(Text(one_line(f"{field}: {value}", 2000)), soft_wrap=True)


def _memory(entry: ModelEntry) -> str:
    return NOTHING if entry.memory is None else f"{entry.memory} GiB"
