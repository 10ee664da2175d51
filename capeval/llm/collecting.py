"""Chat clients that collect requests and have many of them answered at once, hours later."""

from __future__ import annotations

import asyncio
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import BaseModel

from capeval.errors import (
    EndpointRefused,
    InputError,
    RequestRefused,
    RequestsWritten,
    RetriesExhausted,
)
from capeval.llm.cache import ReplyCache, identify
from capeval.llm.client import OpenAIChatClient
from capeval.llm.meter import Meter
from capeval.llm.retry import CallFailed
from capeval.llm.types import ChatReply, ChatRequest
from capeval.llm.wire import reply_from
from capeval.text import Loss, counted

# Once no request has come for so long, none can come without a reply: what happens between two
# stages of a caption takes milliseconds.
QUIET_SECONDS = 1.0
# Of one request; what has failed so often fails in the next batch too.
ATTEMPTS = 3
MOST_REQUESTS, MOST_BYTES = 50_000, 200_000_000
"""Of one batch of OpenAI's."""


@dataclass(frozen=True)
class Batching:
    """Who answers requests that are collected: a batch service, or whoever reads a `folder`."""

    folder: Path | None = None
    finish_live: bool = False

    @property
    def tier(self) -> str:
        """The service tier by whose price they are paid for."""
        return "batch" if self.folder is None else "files"


Outcomes = Mapping[str, ChatReply | Exception]
"""What became of requests, by key."""
Coming = Callable[[], Awaitable[Outcomes | None]]


class NotSent(Exception):
    """No batch has the request: it is collected again."""


@dataclass(eq=False)
class CollectingClient(ABC):
    """Collects requests until no more come, and lets `send` have them answered.

    It is a `ChatClient`. A request's line has the key of the reply cache as its `custom_id`. What
    is answered goes into the cache before anything else happens with it. To finish live,
    requests that continue a conversation or have failed are made at the endpoint instead.
    """

    most_requests: ClassVar[float] = MOST_REQUESTS
    most_bytes: ClassVar[float] = MOST_BYTES

    endpoint: OpenAIChatClient
    cache: ReplyCache
    batching: Batching
    meter: Meter
    on_notice: Callable[[str], None]

    def __post_init__(self) -> None:
        """Begin with nothing collected."""
        self.left_off: tuple[str, ...] = ()
        """The parameters that the endpoint does not take; the preflight found them out."""
        self.refused: dict[str, CallFailed] = {}
        """What whoever answers has refused for good, by key."""
        self._waiting: dict[str, asyncio.Future[ChatReply]] = {}
        self._collected: dict[str, bytes] = {}
        self._bytes = 0
        self._quiet: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._quiet:
            self._quiet.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @abstractmethod
    async def send(self, lines: Mapping[str, bytes]) -> None:
        """Have requests answered, given as lines of JSON by key; raises `CapevalError`."""

    def is_sent(self, key: str) -> bool:  # noqa: ARG002 - where requests can be found again
        """Return whether a request is on its way already; it is not sent again then."""
        return False

    async def models(self) -> tuple[str, ...]:
        """Return the models that the endpoint lists; raises `EndpointRefused`."""
        return await self.endpoint.models()

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the reply to a request, in whichever batch it comes; raises `EndpointError`."""
        continues = any(message["role"] == "assistant" for message in request.messages)
        failures = 0
        while not (self.batching.finish_live and (continues or failures)):
            try:
                return await self._reply(request)
            except NotSent:
                continue
            except CallFailed as failed:
                if failed.action == "refuse_request":
                    raise RequestRefused(str(failed)) from None
                if failed.action != "wait":
                    raise EndpointRefused(self.endpoint.explained(failed)) from None
                failures += 1
                if failures == ATTEMPTS:
                    why = f"it failed in {ATTEMPTS} batches, the last time with: {failed}"
                    raise RetriesExhausted(why) from None
        return await self.endpoint.complete(request)

    async def _reply(self, request: ChatRequest) -> ChatReply:
        key = identify(request, self.endpoint.base_url).key
        # A batch may have ended since the caller looked, for example during the preflight.
        if (stored := self.cache.get(key)) is not None:
            return stored[0]
        if key in self.refused:
            raise self.refused[key]
        body, self.left_off = self.endpoint.prepare(request)
        line = {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": body}
        reply: asyncio.Future[ChatReply] = asyncio.get_running_loop().create_future()
        self._waiting[key] = reply
        try:
            if not self.is_sent(key):
                content = json.dumps(line, ensure_ascii=False).encode("utf-8", "replace")
                self._collect(key, content + b"\n")
            return await reply
        finally:
            del self._waiting[key]
            self._collected.pop(key, None)

    def _collect(self, key: str, line: bytes) -> None:
        is_full = len(self._collected) >= self.most_requests
        if is_full or self._bytes + len(line) > self.most_bytes:
            self._send_collected()
        self._collected[key] = line
        self._bytes += len(line)
        if self._quiet:
            self._quiet.cancel()
        loop = asyncio.get_running_loop()
        self._quiet = loop.call_later(QUIET_SECONDS, self._send_collected)

    def _send_collected(self) -> None:
        lines, self._collected, self._bytes = self._collected, {}, 0
        if lines:
            self.answer(lines, partial(self.send, dict(sorted(lines.items()))))

    def answer(self, keys: Iterable[str], coming: Coming) -> asyncio.Task[None]:
        """Let those who wait for `keys` go on with what comes, or all of them with its failure."""
        task = asyncio.get_running_loop().create_task(self._settle(keys, coming))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _settle(self, keys: Iterable[str], coming: Coming) -> None:
        try:
            outcomes = await coming() or {}
        except Exception as failure:
            # Those who wait raise it; this task has nobody who would.
            outcomes = dict.fromkeys(keys, failure)
        for key, outcome in outcomes.items():
            waiting = self._waiting.get(key)
            if waiting is None or waiting.done():
                continue
            if isinstance(outcome, Exception):
                waiting.set_exception(outcome)
            else:
                waiting.set_result(outcome)


REQUESTS = "requests-"


@dataclass(eq=False)
class BatchFiles(CollectingClient):
    """Writes what it collects into a folder, and reads the replies that it finds there.

    Any other `.jsonl` file of the folder has replies, which go into the cache at once.
    """

    most_requests = most_bytes = float("inf")

    def __post_init__(self) -> None:
        """Read the replies in the folder; raises `InputError`."""
        super().__post_init__()
        self._folder = folder = self.batching.folder or Path()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for path in sorted(folder.glob("*.jsonl")):
                if not path.name.startswith(REQUESTS):
                    self._read(path, path.read_bytes())
        except OSError as error:
            raise InputError(str(error.strerror), file=folder, field="--batch-files") from None

    def _read(self, path: Path, content: bytes) -> None:
        outcomes, broken = outcomes_in(content)
        replies, failures = parted(outcomes)
        self.refused |= {
            key: one for key, one in failures.items() if one.action == "refuse_request"
        }
        name = hashlib.sha256(content).hexdigest()
        # Otherwise a reply that was not accepted would come back instead of being asked again.
        if self.cache.is_read(name):
            return
        self.cache.receive(replies)
        self.cache.note_batch(name, "")
        torn = f"; {counted(broken, 'line')} cut off or not a result, asked again" if broken else ""
        read = f"{path}: {counted(len(replies), 'reply', 'replies')} read{torn}"
        self.on_notice(Loss(read) if broken else read)
        if failures:
            what, first = counted(len(failures), "request"), next(iter(failures.values()))
            self.on_notice(Loss(f"{path}: {what} failed, the first with: {first}"))

    async def send(self, lines: Mapping[str, bytes]) -> None:
        """Write requests, and end the run: raises `RequestsWritten`."""
        content = b"".join(lines.values())
        name = hashlib.sha256(content).hexdigest()[:8]
        file = self._folder / f"{REQUESTS}{name}.jsonl"
        temporary = file.with_suffix(".tmp")
        temporary.write_bytes(content)
        temporary.replace(file)
        model = json.loads(next(iter(lines.values())))["body"]["model"]
        replies = self._folder / f"replies-{name}.jsonl"
        raise RequestsWritten(
            f"{counted(len(lines), 'request')} written to {file}; answer them, for example with "
            f"`vllm run-batch -i {file} -o {replies} --model {model}`"
        )


class _Response(BaseModel):
    status_code: int = 200
    body: Any = None


class _Result(BaseModel):
    """A line of results. What a batch itself reports, such as its expiry, has no response."""

    custom_id: str
    response: _Response | None = None
    error: Any = None


def outcomes_in(
    content: bytes, left_off: tuple[str, ...] = (), tier: str | None = None
) -> tuple[dict[str, ChatReply | CallFailed], int]:
    """Return the replies and failures in lines of results by `custom_id`, in any order.

    A reply outweighs a failure, and the first of several is taken. Lines that are no result, such
    as a torn last one, are only counted.
    """
    found: dict[str, ChatReply | CallFailed] = {}
    broken = 0
    for line in content.split(b"\n"):
        try:
            result = _Result.model_validate(json.loads(line))
        except ValueError:
            broken += bool(line.strip())
            continue
        if not isinstance(found.get(result.custom_id), ChatReply):
            try:
                found[result.custom_id] = replace(_reply_in(result, left_off), tier=tier)
            except CallFailed as failure:
                found[result.custom_id] = failure
    return found, broken


def _reply_in(result: _Result, left_off: tuple[str, ...]) -> ChatReply:
    response = result.response or _Response()
    body, status = response.body, response.status_code
    if isinstance(body, dict) and status == 200:
        return reply_from(body, "", left_off)
    error = result.error or (body.get("error", body) if isinstance(body, dict) else body)
    raise CallFailed(status if status >= 400 else None, "" if error else "it has no reply", error)


def parted(
    outcomes: Mapping[str, ChatReply | CallFailed],
) -> tuple[dict[str, ChatReply], dict[str, CallFailed]]:
    """Return the replies and the failures, each by key."""
    replies = {key: one for key, one in outcomes.items() if isinstance(one, ChatReply)}
    failures = {key: one for key, one in outcomes.items() if isinstance(one, CallFailed)}
    return replies, failures
