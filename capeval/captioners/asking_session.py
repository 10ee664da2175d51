"""Choose and open a model; the session that asks it for captions or answers."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
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
from capeval.captioners.pipeline import Job
from capeval.captioners.protocol import BACKENDS, as_captioner, is_plugin, load_plugin
from capeval.captioners.stored_work import ResultT, StoredPlan, StoredWork, complete
from capeval.config import blaming, config_file
from capeval.errors import CapevalError, UsageError
from capeval.llm.money import Meter
from capeval.runs.concurrency import in_thread
from capeval.runs.engine import Done, Locks, LongWork, Progress, WorkEstimate
from capeval.runs.folder import RunFolder
from capeval.schema import Usage
from capeval.text import Loss, counted, describe, one_line, shown
from capeval.video import FrameReader

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
    options: CaptionerOptions, *, dry_run: RunFolder | None = None
) -> AsyncIterator[OpenCaptioner]:
    """Open a captioner; its model or connections close with the block.

    With `dry_run`, a named run, an endpoint needs neither a key nor a server, and none is started.
    """
    entry, on_notice = choose_model(options), options.on_notice
    if entry is not None and not isinstance(options.model, str | None):
        if given := _given(options, *_OF_MODELS, "serve"):
            raise UsageError(
                f"the captioner {shown(entry.name)} does not take {_flag(next(iter(given)))}; set "
                "it on the object"
            )
        yield OpenCaptioner(as_captioner(options.model), entry, Meter())
    elif entry is not None and is_plugin(entry.reached):
        captioner = await load_plugin(entry.reached, entry.name, _arguments(entry, options))
        try:
            yield OpenCaptioner(captioner, entry, Meter())
        finally:
            try:
                with blaming(lambda error: UsageError(describe(error))):
                    await captioner.aclose()
            except CapevalError as error:
                # A plugin's error is harmless: the captions are written.
                on_notice(one_line(f"{entry.name} could not be closed: {error}"))
    else:
        more = {}
        if entry is None or entry.reached == "endpoint":
            more = {"dry_run": dry_run}
            for name in _given(options, *_IN_PROCESS):
                instead = "--max-concurrency" if name == "batch_size" else "the server's own option"
                raise UsageError(f"{_flag(name)} is for models in this process; use {instead}")
        backend = BACKENDS.load("endpoint" if entry is None else entry.reached)
        async with backend(entry, options, on_notice, **more) as opened:
            yield opened


_IN_PROCESS = ("device", "batch_size")
_OF_MODELS = ("max_new_tokens", "temperature", *_IN_PROCESS)


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


# ---- The expected cost ---------------------------------------------------------------------------

# Tokens of a dense caption of a short clip, and characters per token of an English prompt.
_CAPTION_TOKENS, _CHARACTERS = 300, 4
_SAMPLED_VIDEOS = 3
_OTHER_IMAGE_TOKENS = 1000


async def estimate_generation(
    work: Sequence[Job], reader: FrameReader, opened: OpenCaptioner, written: int | None = None
) -> tuple[int, Usage]:
    """Estimate the frames per video and the tokens of `work`; reads up to three videos.

    `written` is the tokens per reply, by default the length of a caption.
    """
    if opened.base_url is None or not work:  # a model in this process costs nothing
        return 0, Usage()
    tokens, frames, seen = 0, 0, 0
    for job in work[:: max(1, len(work) // _SAMPLED_VIDEOS)][:_SAMPLED_VIDEOS]:
        try:
            read = await in_thread(partial(job.read, reader))
        except CapevalError:
            continue  # reported when it is captioned
        count, height, width = read.frames.shape[:3]
        tokens += count * image_tokens(opened.priced, width, height)
        frames += count
        seen += 1
    tokens, frames = (tokens // seen, round(frames / seen)) if seen else (0, 0)
    asked = sum(len(job.prompt) for job in work) // _CHARACTERS
    return frames, Usage(
        calls=len(work),
        input_tokens=len(work) * tokens + asked,
        output_tokens=len(work) * (written or _CAPTION_TOKENS),
    )


def image_tokens(model: str, width: int, height: int) -> int:
    """Return the tokens of one image: by OpenAI's tiles where they apply, else a rough number.

    >>> image_tokens("gpt-4o-2024-08-06", 1280, 720)
    1105
    """
    if not model.startswith(("gpt-4o", "gpt-4.1", "gpt-4.5")) or "mini" in model or "nano" in model:
        return _OTHER_IMAGE_TOKENS
    fits = min(1.0, 2048 / max(width, height))
    fits = min(fits, 768 / (min(width, height)))
    tiles = math.ceil(width * fits / 512) * math.ceil(height * fits / 512)
    return 85 + 170 * tiles


# ---- The session ---------------------------------------------------------------------------------


class AskingSession(LongWork[ResultT]):
    """An opened model and its work; `seen` describes the frames and the prompt for the title."""

    plan: StoredPlan[Any]
    _lock: ExitStack

    def __init__(self, work: StoredWork[Any, ResultT], opened: OpenCaptioner, seen: str) -> None:
        self.work, self.opened, self.meter = work, opened, opened.meter
        where = f" at {opened.base_url}" if opened.base_url else ""
        self.title = f"Model: {opened.captioner.name}{where}, {seen}"
        self.model = opened.priced if opened.base_url else ""

    async def prepare(self, locks: Locks) -> WorkEstimate:
        """Lock and plan the run; reads up to three videos and calls nothing."""
        self.plan, self._lock = locks.begin(self.work)
        plan, work, run = self.plan, self.work, self.work.shown_run
        if count := len(plan.outdated):
            again = f"{counted(count, work.labels.item)} will be {work.outdated}"
            self.notices = [Loss(f"{work.run.name}: {again}")]
        todo, missing = len(plan.todo), plan.missing
        expected = estimate_generation(plan.todo, work.reader, self.opened, work.tokens)
        frames, usage = await expected
        lines = [f"{run}: {counted(todo, work.labels.item)} to {work.to_do}"]
        if missing:
            index, reason = next(iter(missing.items()))
            more = f", and {len(missing) - 1:,} more" if len(missing) > 1 else ""
            lines.append(f"{run}: no video for {index}{more}: {reason}")
        if usage.calls:
            lines.append(
                f"  about {frames} frames each, {usage.input_tokens:,} tokens in, "
                f"{usage.output_tokens:,} out; cached replies cost nothing"
            )
        details = {
            "run": run,
            "asked": plan.asked,
            "done": plan.asked - todo - len(missing),
            f"to_{work.to_do}": todo,
            "missing": dict(missing),
            "settings": plan.settings,
        }
        return self.estimate(usage, lines, details)

    async def results(self, progress: Progress | None = None) -> AsyncIterator[Done[ResultT]]:
        async with self.opened.running(bool(self.plan.todo)):
            found = await complete(self.work, self.plan, self._lock, progress)
        if self.model:
            found = replace(found, cost=self.meter.spent)
        yield Done(found, [found.lacks], found.files)


@asynccontextmanager
async def open_session(
    options: CaptionerOptions,
    run: RunFolder | None,
    session: Callable[[OpenCaptioner], AskingSession[ResultT]],
    *,
    dry_run: bool,
) -> AsyncIterator[AskingSession[ResultT]]:
    """Open the captioner for a session with it; `run` is None if only the server names it."""
    async with open_captioner(options, dry_run=run if dry_run else None) as opened:
        yield session(opened)
