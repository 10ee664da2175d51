"""Choosing a captioner, and opening it: an endpoint with client, cache and meter, or a model."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Literal

from capeval.captioners.catalogue import HUB_PREFIX, ModelEntry, find_model, read_catalogue
from capeval.captioners.images import ImageForm, ImageKind
from capeval.captioners.protocol import Captioner
from capeval.config import CONFIG
from capeval.errors import UsageError
from capeval.llm import (
    Asker,
    ChatClient,
    CheckedClient,
    Meter,
    OpenAIChatClient,
    ReplyCache,
    endpoint_url,
    read_prices,
)
from capeval.llm.client import DEFAULT_URL

_OPENAI_NAMES = ("gpt-", "chatgpt-", "o1", "o3", "o4")


@dataclass(frozen=True)
class CaptionerChoice:
    """Which captioner, and how it is run.

    `model` is a name of the catalogue, `hf:ORG/NAME`, or what a server calls it; None means the
    sole model of `base_url`. `client` stands in for the network and `captioner` for everything.
    What is None is as the catalogue says.
    """

    model: str | None = None
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    max_new_tokens: int | None = None
    batch_size: int | Literal["auto"] = "auto"
    device: str | None = None
    images: ImageKind | None = None
    jpeg_quality: int = 90
    max_side: int | None = None
    max_concurrency: int = 32
    timeout: float = 300.0
    max_cost: float | None = None
    cache_path: Path | None = None
    client: ChatClient | None = field(default=None, repr=False)
    captioner: Captioner | None = field(default=None, repr=False)


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


def choose_model(choice: CaptionerChoice) -> ModelEntry | None:
    """Return the catalogue's entry for a choice; None where only the endpoint can tell.

    Raises
    ------
    UsageError
        There is no such model, it cannot be reached, or none is named.
    InputError
        The user's own catalogue is not right.
    """
    catalogue = read_catalogue(CONFIG)
    name = choice.model
    if choice.captioner is not None:
        known = catalogue.get(choice.captioner.name)
        return known or ModelEntry(name=choice.captioner.name, reached="endpoint")
    served = choice.base_url or choice.client
    if name is not None and not name.strip():
        raise UsageError("--model is empty; name a model (`capeval models` lists them)")
    if name is None:
        if served:
            return None
        raise UsageError("name a model with --model (`capeval models` lists them) or a --base-url")
    is_known = name in catalogue or name.startswith(HUB_PREFIX)
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
    choice: CaptionerChoice, *, on_notice: Callable[[str], None] = lambda _: None
) -> AsyncIterator[OpenCaptioner]:
    """Open a captioner; its model or connections go with the block.

    Raises
    ------
    UsageError, MissingExtra
        The choice does not make a captioner.
    InputError
        The user's prices or catalogue are not right.
    EndpointRefused
        The endpoint cannot be asked for its models.
    """
    entry = choose_model(choice)
    if choice.captioner is not None and entry is not None:
        yield OpenCaptioner(choice.captioner, entry, Meter())
    elif entry is not None and entry.reached == "transformers":
        captioner = await _transformers(entry, choice)
        try:
            yield OpenCaptioner(captioner, entry, Meter())
        finally:
            await captioner.aclose()
    else:
        async with _endpoint(entry, choice, on_notice) as opened:
            yield opened


@asynccontextmanager
async def _endpoint(
    entry: ModelEntry | None, choice: CaptionerChoice, on_notice: Callable[[str], None]
) -> AsyncIterator[OpenCaptioner]:
    meter = Meter(prices=read_prices(CONFIG), cap=choice.max_cost)
    base_url = choice.base_url or (entry.base_url if entry else None) or endpoint_url(None)
    cache = ReplyCache(choice.cache_path, on_notice=on_notice)
    try:
        if choice.client is not None:
            entry = entry or ModelEntry(name=choice.model or "model", reached="endpoint")
            asker = Asker(choice.client, cache, base_url=base_url, meter=meter)
            yield _opened(entry, entry.name, choice, asker)
            return
        variable = entry.key if entry and not choice.base_url else "OPENAI_API_KEY"
        key = choice.api_key or os.environ.get(variable) or None
        if (
            key is None
            and not choice.base_url
            and base_url in (DEFAULT_URL, entry and entry.base_url)
        ):
            raise UsageError(f"no key: set {variable}, or name a local server with --base-url")
        async with OpenAIChatClient(
            base_url,
            # An empty key would be replaced by OPENAI_API_KEY, which is none of this endpoint's.
            key or ("none" if variable != "OPENAI_API_KEY" else None),
            timeout=choice.timeout,
            patience=max(300.0, 2 * choice.timeout),
            max_concurrency=choice.max_concurrency,
            on_notice=on_notice,
        ) as client:
            entry, served = await _served(entry, choice, client)
            asker = Asker(CheckedClient(client, meter), cache, base_url=base_url, meter=meter)
            yield _opened(entry, served, choice, asker)
    finally:
        cache.close()


async def _served(
    entry: ModelEntry | None, choice: CaptionerChoice, client: OpenAIChatClient
) -> tuple[ModelEntry, str]:
    """The entry, and what the endpoint calls its model."""
    if entry is not None and (not choice.base_url or entry.hub is None or entry.name == entry.hub):
        return entry, entry.name
    models = await client.models()
    named = f"; it has {', '.join(models[:20])}" if models else ""
    if entry is None:
        if len(models) != 1:
            raise UsageError(f"name one of the endpoint's models with --model{named}")
        catalogue = read_catalogue(CONFIG)
        known = [e for e in catalogue.values() if models[0] in (e.name, e.hub)]
        entry = known[0] if known else ModelEntry(name=models[0], reached="endpoint")
        return entry.model_copy(update={"name": models[0], "reached": "endpoint"}), models[0]
    for name in (entry.name, entry.hub):
        if name in models:
            return entry, name
    raise UsageError(
        f"{client.base_url} does not serve {entry.hub} or {entry.name}{named}; "
        "give the name that it serves the model by as --model"
    )


def _opened(entry: ModelEntry, served: str, choice: CaptionerChoice, asker: Asker) -> OpenCaptioner:
    from capeval.captioners.endpoint import EndpointCaptioner

    form = ImageForm(
        choice.images or (entry.images if choice.base_url else "jpeg"),
        choice.jpeg_quality,
        choice.max_side,
    )
    captioner = EndpointCaptioner(
        asker=asker,
        model=entry.name,
        served=served,
        form=form,
        system=entry.system,
        max_new_tokens=choice.max_new_tokens or entry.max_new_tokens,
        temperature=entry.temperature,
        max_concurrency=choice.max_concurrency,
    )
    return OpenCaptioner(captioner, entry, asker.meter, asker.base_url)


async def _transformers(entry: ModelEntry, choice: CaptionerChoice) -> Captioner:
    # Imported by name: without the backend's module, models behind endpoints work all the same.
    try:
        backend = import_module("capeval.captioners.transformers_backend")
    except ModuleNotFoundError as error:
        if error.name != "capeval.captioners.transformers_backend":
            raise
        raise UsageError(
            f"{entry.name} needs the transformers backend, which this version does not have; "
            "serve it with vLLM or SGLang and name the server with --base-url"
        ) from None
    captioner: Captioner = await asyncio.to_thread(
        backend.TransformersCaptioner.load,
        entry.hub,
        name=entry.name,
        revision=entry.revision,
        device=choice.device or "auto",
        batch_size=choice.batch_size,
        max_new_tokens=choice.max_new_tokens or entry.max_new_tokens,
        system_prompt=entry.system,
        **{str(option): value for option, value in entry.options.items()},
    )
    return captioner
