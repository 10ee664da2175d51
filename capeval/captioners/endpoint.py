"""Captions from a chat endpoint that takes images: the frames as sent, the call, and the key."""

from __future__ import annotations

import asyncio
import base64
import io
import os
import time
import weakref
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from capeval.captioners.catalogue import ImageKind, ModelEntry, OpenCaptioner, read_catalogue
from capeval.captioners.options import CaptionerOptions
from capeval.captioners.pipeline import CUT_OFF
from capeval.captioners.protocol import Captioned, CaptionRequest, Outcome, Uncaptioned
from capeval.config import config_file
from capeval.errors import ReplyError, RequestRefused, RetriesExhausted, UsageError, needing
from capeval.files.captions import caption_in
from capeval.llm.asker import Asker, listed, no_key, open_asker
from capeval.llm.client import DEFAULT_URL, endpoint_url
from capeval.llm.replies import ChatRequest
from capeval.llm.serving import SERVED_URL, find_server
from capeval.llm.tracing import about
from capeval.runs.concurrency import Recent
from capeval.runs.folder import RunFolder

# ---- Frames as message parts ---------------------------------------------------------------------


@dataclass(frozen=True)
class ImageForm:
    """The encoding of frames.

    `jpeg` and `png` send each frame as an image; `video` sends one list of JPEGs, which vLLM takes
    as a video. Frames keep their size unless their longer side is above `max_side`.
    """

    kind: ImageKind = "jpeg"
    quality: int = 90
    max_side: int | None = None

    def settings(self) -> dict[str, Any]:
        quality = None if self.kind == "png" else self.quality
        return {"kind": self.kind, "quality": quality, "max_side": self.max_side}


@dataclass(frozen=True)
class EncodedFrames:
    """Message parts, the size of each frame as sent, and the total number of `bytes`."""

    parts: tuple[dict[str, Any], ...]
    width: int
    height: int
    bytes: int


def encode(frames: NDArray[np.uint8], form: ImageForm) -> EncodedFrames:
    """Return frames of shape (n, height, width, 3) as message parts, in order."""
    if not len(frames):
        return EncodedFrames((), 0, 0, 0)
    with needing("sending frames needs Pillow", "frames"):
        from PIL import Image
    height, width = frames.shape[1:3]
    scale = min(1.0, (form.max_side or max(width, height)) / max(width, height))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    texts, total = [], 0
    for frame in frames:
        image = Image.fromarray(frame)
        if image.size != size:
            image = image.resize(size, Image.Resampling.BICUBIC)
        file = io.BytesIO()
        if form.kind == "png":
            image.save(file, "PNG", compress_level=3)
        else:
            image.save(file, "JPEG", quality=form.quality)
        total += file.tell()
        texts.append(base64.b64encode(file.getvalue()).decode("ascii"))
    parts: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": f"data:image/{form.kind};base64,{text}"}}
        for text in texts
    ]
    if form.kind == "video":
        url = "data:video/jpeg;base64," + ",".join(texts)
        parts = [{"type": "video_url", "video_url": {"url": url}}]
    return EncodedFrames(tuple(parts), *size, total)


class _Array:
    """A key equal only for the same array; it does not keep the array in memory."""

    def __init__(self, frames: NDArray[np.uint8]) -> None:
        self._id, self._frames = id(frames), weakref.ref(frames)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        frames = self._frames()
        return isinstance(other, _Array) and frames is not None and frames is other._frames()


# ---- The captioner -------------------------------------------------------------------------------


@dataclass(frozen=True)
class EndpointCaptioner:
    """Sends the frames of each video and its prompt in one message.

    Runs and caption lines use `name`; the endpoint knows the model as `served`.
    """

    asker: Asker
    name: str
    served: str
    form: ImageForm
    system: str | None = None
    max_new_tokens: int = 1024
    temperature: float | None = 0.0
    concurrency: int = 32
    batch_size: ClassVar[int] = 1
    takes_system_prompts: ClassVar[bool] = True

    @property
    def settings(self) -> Mapping[str, Any]:
        """All settings that affect a caption, except frames and prompt; not the address."""
        return {
            "backend": "endpoint",
            "model": self.served,
            "system": self.system,
            "max_new_tokens": self.max_new_tokens,
            "temperature": self.temperature,
            "images": self.form.settings(),
        }

    async def caption(self, requests: Sequence[CaptionRequest]) -> list[Outcome]:
        tasks = [self._one(request) for request in requests]
        # Raw frames are hundreds of megabytes: each is released once it is encoded.
        del requests
        return list(await asyncio.gather(*tasks))

    @cached_property
    def _encoded(self) -> Recent[EncodedFrames]:
        # Questions about one video share frames, and 32 at 720p take a second to encode.
        return Recent(4)

    async def _one(self, request: CaptionRequest) -> Outcome:
        index, prompt, scope = request.index, request.prompt, request.run
        about(stage="caption", index=index)
        is_caption = request.kind == "caption"
        instruction = self.system if request.system is None else request.system
        count = len(request.frames)
        encoded = await asyncio.to_thread(
            self._encoded.get, _Array(request.frames), partial(encode, request.frames, self.form)
        )
        is_video = self.form.kind == "video" and count > 0
        media = {"video": {"num_frames": count, **request.timing()}} if is_video else None
        del request
        content = [*encoded.parts, {"type": "text", "text": prompt}]
        system = [{"role": "system", "content": instruction}] if instruction else []
        chat = ChatRequest(
            model=self.served,
            messages=(*system, {"role": "user", "content": content}),
            max_tokens=self.max_new_tokens,
            temperature=self.temperature,
            media=media,
            scope=scope,
        )
        started = time.perf_counter()
        try:
            # Checked only so that a reply without a caption is not served from the cache.
            answer = await self.asker.ask(
                chat,
                lambda reply: caption_in(reply.text) if is_caption else reply.text,
                attempts=1,
                whole=False,
                # An empty answer counts as wrong; an empty caption is a failure.
                may_be_empty=not is_caption,
            )
        except (ReplyError, RequestRefused, RetriesExhausted) as failure:
            return Uncaptioned(index, str(failure))
        reply = answer.replies[-1]
        warnings = []
        if reply.finish_reason == "length":
            warnings.append(CUT_OFF.format(reply.usage.output_tokens or self.max_new_tokens))
        return Captioned(
            index=index,
            text=reply.text,
            usage=answer.usage,
            seconds=time.perf_counter() - started,
            model=self.name,
            revision=reply.model,
            warnings=tuple(warnings),
            details={
                "endpoint": self.asker.base_url,
                "fingerprint": reply.fingerprint,
                "left_off": list(reply.left_off),
                "image": {"width": encoded.width, "height": encoded.height, "bytes": encoded.bytes},
            },
        )


@asynccontextmanager
async def open_endpoint(
    entry: ModelEntry | None, options: CaptionerOptions, *, dry_run: RunFolder | None = None
) -> AsyncIterator[OpenCaptioner]:
    """Open an endpoint's captioner, by default for its only model; a dry run sends no request."""
    offline, server, called = dry_run is not None, None, ""
    if entry is not None and options.serve:
        called = entry.hub or entry.name
        server = find_server(options, "models", entry.name, entry.serve, called, offline=offline)
        options = replace(options, base_url=SERVED_URL, serve=False, gpus=None)
    base_url = endpoint_url(options.base_url or (entry.base_url if entry else None))
    key, key_help = (None, "")
    if not (options.client or offline):
        key, key_help = _key(entry, options, base_url)
    opening = open_asker(options, key, base_url=base_url, key_help=key_help, server=server)
    async with opening as asker:
        if options.client is not None:
            entry = entry or ModelEntry(name="model", reached="endpoint")
            served = entry.name
        elif entry is not None and server is not None:
            served = called
        else:
            entry, served = await _served(entry, options, asker, dry_run)
            if offline and served != entry.name:
                options.on_notice(f"{asker.base_url} is not asked whether it serves {served}")
        is_own = options.base_url or entry.has_own_address
        form = ImageForm(entry.images if is_own else "jpeg", max_side=entry.max_side)
        captioner = EndpointCaptioner(
            *(asker, entry.name, served, form),
            system=entry.system,
            max_new_tokens=options.max_new_tokens or entry.max_new_tokens,
            temperature=(entry.temperature if options.temperature is None else options.temperature),
            concurrency=options.max_concurrency,
        )
        yield OpenCaptioner(captioner, entry, asker.meter, asker.base_url, asker.running)


def _key(
    entry: ModelEntry | None, options: CaptionerOptions, base_url: str
) -> tuple[str | None, str]:
    """Return the key for an address, and the advice on how to set one.

    An address from a file gets the key that the same entry names and no other: otherwise
    the author of the file could collect the keys of everyone who uses it.
    """
    variable = "OPENAI_API_KEY"
    is_from_catalogue = not options.base_url and entry is not None and bool(entry.base_url)
    if entry is not None and is_from_catalogue:
        own = f'add key = "VARIABLE" to [models."{entry.name}"] in {config_file()}'
        if entry.has_own_address and options.api_key:
            raise UsageError(
                f"the address of {entry.name} comes from {config_file()} and gets only a key named "
                f"there: {own}, or pass base_url as well"
            )
        if entry.key is None:
            return None, own
        variable = entry.key
    key = options.api_key or os.environ.get(variable) or None
    if key is None and (is_from_catalogue or (base_url == DEFAULT_URL and not options.base_url)):
        raise no_key(variable=variable)
    return key, f"set {variable}"


async def _served(
    entry: ModelEntry | None,
    options: CaptionerOptions,
    asker: Asker,
    dry_run: RunFolder | None,
) -> tuple[ModelEntry, str]:
    """Return the entry, and the endpoint's name for its model.

    In a dry run, this is the name recorded in the run, else the hub's.
    """
    if entry is not None and (not options.base_url or entry.hub is None or entry.name == entry.hub):
        return entry, entry.name
    if entry is None:
        only = await asker.only_model("--model")
        known = [e for e in read_catalogue(config_file()).values() if only in (e.name, e.hub)]
        entry = known[0] if known else ModelEntry(name=only, reached="endpoint")
        return entry.model_copy(update={"name": only, "reached": "endpoint"}), only
    if dry_run is not None:
        before = dry_run.read_manifest().get("generation", {}).get("generation", {})
        return entry, entry.name if before.get("model") == entry.name else str(entry.hub)
    models = await asker.models()
    for name in (entry.name, entry.hub):
        if name in models:
            return entry, name
    raise UsageError(
        f"{asker.base_url} does not serve {entry.hub} or {entry.name}{listed(models)}; "
        "name one of these with --model"
    )
