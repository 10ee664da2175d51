"""Requests that an endpoint's batch service answers within a day, at half the price.

A batch has no id before it exists, and whoever is killed just then does not know whether it does.
So its requests are noted in the file of the reply cache before it is created, with the hash of its
file, which the batch gets as metadata. Whoever finds such a note looks for the batch in the
endpoint's list and goes on with it. The note is removed once all replies are in the cache.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel

from capeval.errors import EndpointDown, EndpointRefused
from capeval.llm.collecting import CollectingClient, NotSent, Outcomes, outcomes_in, parted
from capeval.llm.retry import CallFailed
from capeval.llm.types import ChatReply
from capeval.text import Loss, counted, listed

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types import Batch

T = TypeVar("T")

POLL_SECONDS = 15.0
REPORT_SECONDS = 60.0
"""Between two lines about batches that go on."""
# A batch that was just created may not be in the list of all yet.
SETTLE_SECONDS = 60.0
# With a pause between them: long enough for an endpoint to be restarted.
FAILURES_UNTIL_DOWN = 20
# Seconds for one call: a file may have 200 MB.
TIMEOUT = 900.0
# Seconds: as long as endpoints keep the files of a batch.
MONTH = 30 * 86_400
HASH = "capeval_requests"
"""The field of a batch's metadata that has the hash of its requests."""

ENDED = ("completed", "failed", "expired", "cancelled")


class _Note(BaseModel):
    """A batch that is not finished; without an `id` it may not exist.

    `noted` is the Unix time of the last attempt to create it, 0 before the first.
    """

    hash: str
    keys: frozenset[str]
    noted: float = 0.0
    id: str | None = None


@dataclass(eq=False)
class BatchClient(CollectingClient):
    """Sends what it collects to an endpoint's batch service, and fetches the replies.

    A request that is part of a noted batch waits for that one, whichever process sent it.
    """

    def __post_init__(self) -> None:
        """Read the notes about batches that are not finished."""
        super().__post_init__()
        self._sending = asyncio.Lock()
        self._notes = {
            note.hash: note for note in map(_Note.model_validate_json, self.cache.batches())
        }
        self._followed: dict[str, asyncio.Task[None]] = {}
        self._seen: dict[str, Batch] = {}
        """How the batches that are followed stood at the last look."""
        self._largest = 0
        """The most requests of a batch, once the endpoint has refused a larger one; 0 before."""
        self._reported = ("", float("-inf"))

    async def __aexit__(self, *exception: object) -> None:
        unfinished = len(self._followed)
        await super().__aexit__(*exception)
        if unfinished:
            what = counted(unfinished, "batch", "batches")
            url = self.endpoint.base_url
            self.on_notice(
                Loss(f"{what} not finished at {url}: the same command fetches the replies")
            )

    def is_sent(self, key: str) -> bool:
        """Return whether a noted batch has the request; it is followed then."""
        note = next((one for one in self._notes.values() if key in one.keys), None)
        if note is not None:
            self._follow(note)
        return note is not None

    async def send(self, lines: Mapping[str, bytes]) -> None:
        """Make batches of requests and follow them, as many at a time as the endpoint takes."""
        async with self._sending:
            keys = list(lines)
            while keys:
                while self._largest and self._followed:
                    await asyncio.wait(self._followed.values())
                size = self._largest or len(keys)
                some, keys = keys[:size], keys[size:]
                try:
                    await self._submit({key: lines[key] for key in some})
                except CallFailed as failure:
                    raise self._refusal(failure) from None

    async def _submit(self, lines: Mapping[str, bytes]) -> None:
        content = b"".join(lines.values())
        note = _Note(hash=hashlib.sha256(content).hexdigest(), keys=frozenset(lines))

        async def create() -> Batch:
            # It may exist, although its note is lost or the answer to the last attempt.
            if found := await self._find(note):
                return found
            name = f"capeval-{note.hash[:12]}.jsonl"
            file = await self._call(
                lambda api: api.files.create(file=(name, content), purpose="batch")
            )
            note.noted = time.time()
            self._keep(note)
            return await self._call_once(
                lambda api: api.batches.create(
                    completion_window="24h",
                    endpoint="/v1/chat/completions",
                    input_file_id=file.id,
                    metadata={HASH: note.hash},
                )
            )

        batch = await self._persist(create)
        note.id = batch.id
        self._keep(note)
        self._notes[note.hash] = note
        self.on_notice(f"Batch {batch.id}: {counted(len(lines), 'request')} sent")
        self._follow(note)

    async def _find(self, note: _Note) -> Batch | None:
        """Return a batch of the same requests whose replies were not read yet.

        It is looked for until it would be in the list, if it exists.
        """
        since = time.time() - MONTH

        async def look(api: AsyncOpenAI) -> Batch | None:
            # The newest comes first.
            async for batch in api.batches.list(limit=100):
                if batch.created_at < since:
                    break
                is_same = (batch.metadata or {}).get(HASH) == note.hash
                if is_same and batch.status != "failed" and not self.cache.is_read(batch.id):
                    return batch
            return None

        while True:
            is_last = time.time() >= note.noted + SETTLE_SECONDS
            if (found := await self._call(look)) or is_last:
                return found
            await asyncio.sleep(SETTLE_SECONDS / 10)

    def _keep(self, note: _Note) -> None:
        self.cache.note_batch(note.hash, note.model_dump_json())

    def _follow(self, note: _Note) -> None:
        if note.hash not in self._followed:
            self._followed[note.hash] = self.answer(note.keys, partial(self._outcomes, note))

    async def _outcomes(self, note: _Note) -> Outcomes:
        """Return what became of the requests of a batch, once it has ended and that is stored.

        Raises `NotSent` if they must be sent again. The note of a batch that cannot be reached
        remains.
        """
        url = self.endpoint.base_url
        try:
            batch = await self._ended(note)
            replies, failures = parted(await self._results(batch)) if batch else ({}, {})
        except CallFailed as failure:
            if failure.status != 404:
                raise self._refusal(failure) from None
            self.on_notice(Loss(f"{url} has no batch {note.id} any more: it is sent again"))
            batch = None
        finally:
            del self._followed[note.hash]
            self._seen.pop(note.hash, None)
        if batch is None:
            self._forget(note)
            raise NotSent
        if batch.status == "failed":
            self._forget(note)
            raise self._not_accepted(note, batch)
        self.on_notice(
            f"Batch {batch.id} {batch.status}: {counted(len(replies), 'reply', 'replies')} to "
            f"{counted(len(note.keys), 'request')}"
        )
        self.cache.receive(replies)
        # A later run that asks the same again shall not get the same replies.
        self.cache.note_batch(batch.id, "")
        self._forget(note)
        if batch.status == "cancelled":
            why = f"batch {batch.id} was cancelled; run the same command again to send the rest"
            return dict.fromkeys(note.keys, EndpointDown(why)) | replies
        lost = CallFailed(None, f"no reply in {batch.id}")
        return dict.fromkeys(note.keys, lost) | failures | replies

    async def _ended(self, note: _Note) -> Batch | None:
        """Wait for the end of a batch, and return it; None if it was never created."""
        if note.id is None:
            found = await self._find(note)
            if found is None:
                return None
            note.id = found.id
            self._keep(note)
        name = note.id
        while True:
            batch = await self._call(lambda api: api.batches.retrieve(name))
            self._seen[note.hash] = batch
            self._report()
            if batch.status in ENDED:
                return batch
            await asyncio.sleep(POLL_SECONDS)

    async def _results(self, batch: Batch) -> dict[str, ChatReply | CallFailed]:
        """Return the replies and failures of a batch by key."""
        if batch.request_counts and batch.request_counts.completed and not batch.output_file_id:
            raise EndpointDown(f"batch {batch.id} has replies, but no file with them yet")
        names = filter(None, (batch.output_file_id, batch.error_file_id))
        contents = [await self._download(name) for name in names]
        return outcomes_in(b"\n".join(contents), self.left_off, tier="batch")

    async def _download(self, file: str) -> bytes:
        return (await self._call(lambda api: api.files.content(file))).content

    def _not_accepted(self, note: _Note, batch: Batch) -> Exception:
        """Return what to do about a batch that the endpoint did not accept, as an exception."""
        errors = (batch.errors and batch.errors.data) or []
        why = listed([error.message for error in errors if error.message], 2) or "no reason given"
        too_many = any(error.code == "token_limit_exceeded" for error in errors)
        if not too_many or len(note.keys) == 1:
            url = self.endpoint.base_url
            return EndpointRefused(f"{url} did not accept batch {batch.id}: {why}")
        self._largest = (len(note.keys) + 1) // 2
        size = counted(self._largest, "request")
        self.on_notice(f"Batch {batch.id} was not accepted ({why}): going on with {size} at a time")
        return NotSent()

    async def _call(self, call: Callable[[AsyncOpenAI], Awaitable[T]]) -> T:
        """Make a call that costs nothing, again and again while the endpoint is away."""
        return await self._persist(lambda: self._call_once(call))

    async def _call_once(self, call: Callable[[AsyncOpenAI], Awaitable[T]]) -> T:
        return await self.endpoint.connected().call(call, TIMEOUT)

    async def _persist(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do something until it does not fail; raises `CallFailed` where it is refused."""
        for attempt in range(FAILURES_UNTIL_DOWN):
            if attempt:
                await asyncio.sleep(POLL_SECONDS)
            try:
                return await work()
            except CallFailed as failure:
                if failure.action != "wait":
                    raise
                last = failure
        raise EndpointDown(f"{self.endpoint.base_url}: its batches cannot be reached: {last}")

    def _refusal(self, failure: CallFailed) -> EndpointRefused:
        has_none = failure.status in {404, 405, 501}
        advice = "; without a batch service, omit --batch or use --batch-files" if has_none else ""
        return EndpointRefused(f"{self.endpoint.base_url} refuses batches: {failure}{advice}")

    def _forget(self, note: _Note) -> None:
        """Remove the note about a batch whose replies are stored, or that does not exist."""
        self._notes.pop(note.hash, None)
        self.cache.note_batch(note.hash, None)

    def _report(self) -> None:
        """Report how far the batches are where that has changed, at most once a minute."""
        batches = self._seen.values()
        counts = [batch.request_counts for batch in batches if batch.request_counts]
        done = sum(one.completed + one.failed for one in counts)
        of = f"{done:,} of {sum(one.total for one in counts):,} requests done"
        what, now = f"{counted(len(batches), 'batch', 'batches')}, {of}", time.time()
        before, when = self._reported
        if what == before or now < when + REPORT_SECONDS:
            return
        self._reported = what, now
        minutes = max(now - min(batch.created_at for batch in batches), 0) / 60
        spent = f", ${self.meter.spent:,.2f} so far" if self.meter.spent else ""
        self.on_notice(f"{what}, the oldest begun {minutes:,.0f} min ago{spent}")
