"""Choose and open the model that writes captions or answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from capeval.captioners.catalogue import (
    HUB_PREFIX,
    ModelEntry,
    OpenCaptioner,
    entries_by_hub,
    find_model,
    model_folder,
    read_catalogue,
)
from capeval.captioners.options import CaptionerOptions
from capeval.captioners.protocol import (
    BACKENDS,
    IN_PROCESS,
    as_captioner,
    is_plugin,
    load_plugin,
)
from capeval.config import config_file
from capeval.errors import UsageError
from capeval.runs.folder import RunFolder
from capeval.text import describe, one_line, shown

_OPENAI_NAMES = ("gpt-", "chatgpt-", "o1", "o3", "o4")


def choose_model(options: CaptionerOptions) -> ModelEntry | None:
    """Return the model's catalogue entry; None if only the endpoint knows the model."""
    catalogue = read_catalogue(config_file())
    name = options.model
    if name is not None and not isinstance(name, str):
        called = as_captioner(name).name
        return catalogue.get(called) or ModelEntry(name=called, reached="endpoint")
    served = options.base_url or options.client or options.serve
    if name is None:
        if served and not options.serve:
            return None
        raise UsageError("name a model with --model (see `capeval models`) or use --base-url")
    is_known = name in catalogue or name.startswith(HUB_PREFIX)
    is_known |= not served and model_folder(name) is not None
    if not is_known and not served and is_plugin(name):
        return ModelEntry(name=name, reached=name)
    if not is_known and not options.serve and (served or name.startswith(_OPENAI_NAMES)):
        by_hub = entries_by_hub(catalogue).get(name.lower())
        if by_hub is None:
            return ModelEntry(name=name, reached="endpoint", frames="auto" if not served else "32")
        return by_hub.model_copy(update={"name": name, "reached": "endpoint"})
    entry = find_model(name, catalogue)
    if entry.reached == "none" and not served:
        raise UsageError(f"{name} cannot be run by capeval. {entry.note}")
    if served and "preset" in entry.options:
        raise UsageError(
            f"{name}: its preset runs only in this process; on a server, name {entry.hub}"
        )
    if entry.reached == "server" and not served:
        raise UsageError(
            f"{name} runs behind a server: add --serve, or start one with `{entry.serve}` "
            "and name it with --base-url"
        )
    return entry.model_copy(update={"reached": "endpoint"}) if served else entry


@asynccontextmanager
async def open_captioner(
    options: CaptionerOptions, entry: ModelEntry | None, *, dry_run: RunFolder | None = None
) -> AsyncIterator[OpenCaptioner]:
    """Open the captioner of `choose_model`; its model or connections close with the block.

    With `dry_run`, a named run, an endpoint needs neither a key nor a server, and none is started.
    """
    if entry is not None and not isinstance(options.model, str | None):
        if given := _given(options, *_OF_MODELS, "serve"):
            raise UsageError(
                f"the captioner {shown(entry.name)} does not take {_flag(next(iter(given)))}; set "
                "it on the object"
            )
        yield OpenCaptioner(as_captioner(options.model), entry)
    elif entry is not None and is_plugin(entry.reached):
        captioner = await load_plugin(entry.reached, entry.name, _arguments(entry, options))
        try:
            yield OpenCaptioner(captioner, entry)
        finally:
            try:
                await captioner.aclose()
            except Exception as error:
                # A plugin's error is harmless: the captions are written.
                options.on_notice(one_line(f"{entry.name} could not be closed: {describe(error)}"))
    else:
        more = {}
        if entry is None or entry.reached == "endpoint":
            more = {"dry_run": dry_run}
            for name in _given(options, *IN_PROCESS):
                instead = "--max-concurrency" if name == "batch_size" else "the server's own option"
                raise UsageError(f"{_flag(name)} is for models in this process; use {instead}")
        backend = BACKENDS.load("endpoint" if entry is None else entry.reached)
        async with backend(entry, options, **more) as opened:
            yield opened


_OF_MODELS = ("max_new_tokens", "temperature", *IN_PROCESS)


def _given(options: CaptionerOptions, *names: str) -> dict[str, Any]:
    """Return the named options that differ from their defaults."""
    values = {name: getattr(options, name) for name in names}
    return {n: value for n, value in values.items() if value != getattr(_DEFAULTS, n)}


_DEFAULTS = CaptionerOptions()


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _arguments(entry: ModelEntry, options: CaptionerOptions) -> dict[str, Any]:
    """Return a plugin's arguments: its own options and the common options that are set."""
    stated = entry.model_fields_set
    fields = ("hub", "revision", "system", "max_new_tokens")
    arguments = {name: getattr(entry, name) for name in fields if name in stated}
    arguments |= _given(options, *_OF_MODELS)
    given = {name: value for name, value in arguments.items() if value is not None}
    return {**given, **entry.options}
