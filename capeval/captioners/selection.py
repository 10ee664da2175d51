"""Choosing a captioner by name, and opening it with its backend."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from capeval.captioners.backends import BACKENDS, as_captioner, is_plugin, load_plugin
from capeval.captioners.catalogue import HUB_PREFIX, ModelEntry, find_model, read_catalogue
from capeval.captioners.options import GenerateOptions
from capeval.captioners.protocol import Captioner
from capeval.config import CONFIG
from capeval.errors import UsageError
from capeval.llm import Meter
from capeval.text import one_line

_OPENAI_NAMES = ("gpt-", "chatgpt-", "o1", "o3", "o4")


@dataclass
class OpenCaptioner:
    """A captioner ready to work, its entry in the catalogue, and what it consumes."""

    captioner: Captioner
    entry: ModelEntry
    meter: Meter
    base_url: str | None = None

    @property
    def priced(self) -> str:
        """The name that the price table may know."""
        return str(self.captioner.settings.get("model", self.captioner.name))


def choose_model(options: GenerateOptions) -> ModelEntry | None:
    """Return the catalogue's entry for the options; None where only the endpoint knows it."""
    catalogue = read_catalogue(CONFIG)
    name = options.model
    if name is not None and not isinstance(name, str):
        called = as_captioner(name).name
        return catalogue.get(called) or ModelEntry(name=called, reached="endpoint")
    served = options.base_url or options.client
    if name is not None and not name.strip():
        raise UsageError("--model is empty; name a model (`capeval models` lists them)")
    if name is None:
        if served:
            return None
        raise UsageError("name a model with --model (`capeval models` lists them) or a --base-url")
    is_known = name in catalogue or name.startswith(HUB_PREFIX)
    if not is_known and not served and is_plugin(name):
        return ModelEntry(name=name, reached=name)
    if not is_known and (served or name.startswith(_OPENAI_NAMES)):
        hubs = {entry.hub: entry for entry in catalogue.values() if entry.hub}
        by_hub = hubs.get(name)
        if by_hub is None:
            return ModelEntry(name=name, reached="endpoint", frames="auto" if not served else "32")
        return by_hub.model_copy(update={"name": name, "reached": "endpoint"})
    entry = find_model(name, catalogue)
    if entry.reached == "nowhere" and not served:
        raise UsageError(f"{name} cannot be run from here: {entry.note}")
    if entry.reached == "server" and not served:
        raise UsageError(
            f"{name} runs behind a server: start one with `{entry.serve}` "
            "and name it with --base-url"
        )
    return entry.model_copy(update={"reached": "endpoint"}) if served else entry


@asynccontextmanager
async def open_captioner(
    options: GenerateOptions, *, on_notice: Callable[[str], None] = lambda _: None
) -> AsyncIterator[OpenCaptioner]:
    """Open a captioner; its model or connections close with the block."""
    entry = choose_model(options)
    if entry is not None and not isinstance(options.model, str | None):
        yield OpenCaptioner(as_captioner(options.model), entry, Meter())
    elif entry is not None and is_plugin(entry.reached):
        captioner = await load_plugin(entry.reached, entry.name, _arguments(entry, options))
        try:
            yield OpenCaptioner(captioner, entry, Meter())
        finally:
            try:
                await captioner.aclose()
            except Exception as error:  # the captions are written; a plugin's fault changes nothing
                on_notice(one_line(f"{entry.name} could not be closed: {error}"))
    else:
        backend = BACKENDS.load("endpoint" if entry is None else entry.reached)
        async with backend(entry, options, on_notice) as opened:
            yield opened


def _arguments(entry: ModelEntry, options: GenerateOptions) -> dict[str, Any]:
    """Return what a plugin is made with: its options, and what is set of the common ones."""
    stated = entry.model_fields_set
    fields = ("hub", "revision", "system", "max_new_tokens")
    arguments = {name: getattr(entry, name) for name in fields if name in stated}
    arguments |= {
        "max_new_tokens": options.max_new_tokens or arguments.get("max_new_tokens"),
        "device": options.device,
        "batch_size": None if options.batch_size == "auto" else options.batch_size,
    }
    given = {name: value for name, value in arguments.items() if value is not None}
    return {**given, **entry.options}
