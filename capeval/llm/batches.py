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
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from filelock import AsyncFileLock
from pydantic import BaseModel

from capeval.errors import EndpointDown, EndpointRefused
from capeval.llm.cache import ReplyCache
from capeval.llm.client import OpenAIChatClient
from capeval.llm.collecting import CollectingClient, replies_in
from capeval.llm.meter import Meter
from capeval.llm.retry import CallFailed
from capeval.llm.types import ChatReply
from capeval.text import Loss, counted, listed

if TYPE_CHECKING:
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
    """A batch that is not finished; without an `id` it may not exist. `noted` is a Unix time."""

    hash: str
    keys: frozenset[str]
    left_off: tuple[str, ...]
    noted: float
    id: str | None = None


class BatchClient(CollectingClient):
    """Sends what it collects to an endpoint's batch service, and fetches the replies.

    A request that is part of a noted batch waits for that one, whichever process sent it.
    """

    def __init__(
        self,
        endpoint: OpenAIChatClient,
        cache: ReplyCache,
        *,
        meter: Meter,
        finish_live: bool,
        on_notice: Callable[[str], None],
    ) -> None:
        super().__init__(endpoint, cache, finish_live=finish_live)
        self._meter, self._notify = meter, on_notice
        self._service = endpoint.connected()
        # Between a note and the batch nobody else may conclude that there is none.
        self._lock = AsyncFileLock(f"{cache.path}.batches.lock")
        self._sending = asyncio.Lock()
        self._notes = {note.hash: note for note in map(_Note.model_validate_json, cache.batches())}
        self._followed: dict[str, Batch | None] = {}
        self._unreached: set[str] = set()
        self._one_ended = asyncio.Event()
        self._largest = 0
        """The most requests of a batch, once the endpoint has refused a larger one; 0 before."""
        self._reported = ("", float("-inf"))

    async def __aexit__(self, *exception: object) -> None:
        await super().__aexit__(*exception)
        if unfinished := self._followed.keys() | self._unreached:
            what = counted(len(unfinished), "batch", "batches")
            url = self.endpoint.base_url
            self._notify(
                Loss(f"{what} not finished at {url}: the same command fetches the replies")
            )

    def is_sent(self, key: str) -> bool:
        """Return whether a noted batch has the request; it is followed then."""
        note = next((one for one in self._notes.values() if key in one.keys), None)
        if note is not None and note.hash not in self._followed:
            self._begin_to_follow(note)
        return note is not None

    async def send(self, lines: Mapping[str, bytes], left_off: tuple[str, ...]) -> None:
        """Make batches of requests and follow them, as many at a time as the endpoint takes."""
        async with self._sending:
            keys = list(lines)
            while keys:
                while self._largest and self._followed:
                    self._one_ended.clear()
                    await self._one_ended.wait()
                size = self._largest or len(keys)
                some, keys = keys[:size], keys[size:]
                await self._submit({key: lines[key] for key in some}, left_off)

    async def _submit(self, lines: Mapping[str, bytes], left_off: tuple[str, ...]) -> None:
        content = b"".join(lines.values())
        note = _Note(
            hash=hashlib.sha256(content).hexdigest(),
            keys=frozenset(lines),
            left_off=left_off,
            noted=time.time(),
        )
        # It may exist although its note is lost.
        batch = await self._find(note)
        if batch is None:
            name = f"capeval-{note.hash[:12]}.jsonl"
            file = await self._call(lambda: self._service.upload(name, content, TIMEOUT))
            async with self._lock:
                note.noted = time.time()
                self.cache.note_batch(note.hash, note.model_dump_json())
                batch = await self._create(note, file)
        self._identify(note, batch)
        self._notes[note.hash] = note
        self._notify(f"Batch {batch.id}: {counted(len(lines), 'request')} sent")
        self._begin_to_follow(note)

    async def _create(self, note: _Note, file: str) -> Batch:
        """Create a batch, once: after a failure that may have created it, it is looked for."""
        for _ in range(FAILURES_UNTIL_DOWN):
            try:
                return await self._service.create_batch(file, {HASH: note.hash}, TIMEOUT)
            except CallFailed as failure:
                if failure.action != "wait":
                    self.cache.note_batch(note.hash, None)
                    raise self._refusal(failure) from None
                note.noted, last = time.time(), failure
            if not last.is_busy and (found := await self._find_late(note)):
                return found
            await asyncio.sleep(POLL_SECONDS)
        raise EndpointDown(f"{self.endpoint.base_url}: no batch can be created: {last}")

    async def _find(self, note: _Note) -> Batch | None:
        """Return a batch of the same requests that has replies or may get some."""
        since = time.time() - MONTH
        for batch in await self._call(lambda: self._service.batches(since, TIMEOUT)):
            if (batch.metadata or {}).get(HASH) != note.hash or self.cache.is_read(batch.id):
                continue
            counts = batch.request_counts
            has_replies = batch.status == "completed" and (counts is None or counts.completed > 0)
            if has_replies or batch.status not in (*ENDED, "cancelling"):
                return batch
        return None

    async def _find_late(self, note: _Note) -> Batch | None:
        """Look for a batch until it would be in the list, if it exists."""
        while True:
            is_last = time.time() >= note.noted + SETTLE_SECONDS
            if (found := await self._find(note)) or is_last:
                return found
            await asyncio.sleep(SETTLE_SECONDS / 10)

    def _identify(self, note: _Note, batch: Batch) -> None:
        note.id = batch.id
        self.cache.note_batch(note.hash, note.model_dump_json())

    def _begin_to_follow(self, note: _Note) -> None:
        self._followed[note.hash] = None
        self.begin(self._follow(note))

    async def _follow(self, note: _Note) -> None:
        try:
            if note.id is None:
                async with self._lock:
                    if found := await self._find_late(note):
                        self._identify(note, found)
            if note.id is None or not await self._is_finished(note, note.id):
                self._forget(note)
                self.send_again(note.keys)
        except Exception as failure:
            # Those who wait raise it; who asks later follows the batch again.
            if note.hash in self._notes:
                self._unreached.add(note.hash)
            self._follow_no_longer(note)
            self.fail(note.keys, failure)

    async def _is_finished(self, note: _Note, batch_id: str) -> bool:
        """Wait for the end of a batch and store its replies; False if its requests must go again.

        The note of one that cannot be reached any more remains.
        """
        try:
            batch = await self._until_ended(note, batch_id)
            found = await self._results(note, batch)
        except CallFailed:
            return False
        if batch.status == "failed":
            self._forget(note)
            return self._is_given_up(note, batch)
        replies = {key: one for key, one in found.items() if isinstance(one, ChatReply)}
        self._notify(
            f"Batch {batch.id} {batch.status}: {counted(len(replies), 'reply', 'replies')} to "
            f"{counted(len(note.keys), 'request')}"
        )
        is_cancelled = batch.status == "cancelled"
        self.answer(replies if is_cancelled else found)
        # A later run that asks the same again shall not get the same replies.
        self.cache.note_batch(batch.id, "")
        self._forget(note)
        why = f"batch {batch.id} was cancelled; run the same command again to send the rest"
        lost = EndpointDown(why) if is_cancelled else CallFailed(None, f"no reply in {batch.id}")
        self.fail(note.keys, lost)
        return True

    async def _until_ended(self, note: _Note, batch_id: str) -> Batch:
        while True:
            batch = await self._call(lambda: self._service.batch(batch_id, TIMEOUT), may_fail=True)
            self._followed[note.hash] = batch
            self._report()
            if batch.status in ENDED:
                return batch
            await asyncio.sleep(POLL_SECONDS)

    async def _results(self, note: _Note, batch: Batch) -> dict[str, ChatReply | CallFailed]:
        """Return the replies and failures of a batch by key; raises `CallFailed`."""
        if batch.request_counts and batch.request_counts.completed and not batch.output_file_id:
            raise EndpointDown(f"batch {batch.id} has replies, but no file with them yet")
        contents = [
            await self._call(partial(self._service.download, file, TIMEOUT), may_fail=True)
            for file in (batch.output_file_id, batch.error_file_id)
            if file
        ]
        found = replies_in(b"\n".join(contents), note.left_off, tier="batch")
        return {key: one for key, one in found.items() if key in note.keys}

    def _is_given_up(self, note: _Note, batch: Batch) -> bool:
        """Return False if the requests of a batch that was not accepted can go in smaller ones."""
        errors = (batch.errors and batch.errors.data) or []
        why = listed([error.message for error in errors if error.message], 2) or "no reason given"
        too_many = any(error.code == "token_limit_exceeded" for error in errors)
        if not too_many or len(note.keys) == 1:
            url = self.endpoint.base_url
            raise EndpointRefused(f"{url} did not accept batch {batch.id}: {why}")
        self._largest = (len(note.keys) + 1) // 2
        size = counted(self._largest, "request")
        self._notify(f"Batch {batch.id} was not accepted ({why}): going on with {size} at a time")
        return False

    async def _call(self, call: Callable[[], Awaitable[T]], *, may_fail: bool = False) -> T:
        """Make a call that costs nothing, again and again while the endpoint is away.

        With `may_fail` it raises `CallFailed` where there is no such batch or file.
        """
        for attempt in range(FAILURES_UNTIL_DOWN):
            if attempt:
                await asyncio.sleep(POLL_SECONDS)
            try:
                return await call()
            except CallFailed as failure:
                if may_fail and failure.status == 404:
                    raise
                if failure.action != "wait":
                    raise self._refusal(failure) from None
                last = failure
        raise EndpointDown(f"{self.endpoint.base_url}: its batches cannot be reached: {last}")

    def _refusal(self, failure: CallFailed) -> EndpointRefused:
        has_none = failure.status in {404, 405, 501}
        advice = "; without a batch service, omit --batch or use --batch-files" if has_none else ""
        return EndpointRefused(f"{self.endpoint.base_url} refuses batches: {failure}{advice}")

    def _forget(self, note: _Note) -> None:
        """Remove the note about a batch whose replies are stored, or that does not exist."""
        self._follow_no_longer(note)
        self._unreached.discard(note.hash)
        self._notes.pop(note.hash, None)
        self.cache.note_batch(note.hash, None)

    def _follow_no_longer(self, note: _Note) -> None:
        self._followed.pop(note.hash, None)
        self._one_ended.set()

    def _report(self) -> None:
        """Report how far the batches are where that has changed, at most once a minute."""
        batches = [batch for batch in self._followed.values() if batch]
        counts = [batch.request_counts for batch in batches if batch.request_counts]
        done = sum(one.completed + one.failed for one in counts)
        of = f"{done:,} of {sum(one.total for one in counts):,} requests done"
        what, now = f"{counted(len(batches), 'batch', 'batches')}, {of}", time.time()
        before, when = self._reported
        if what == before or now < when + REPORT_SECONDS:
            return
        self._reported = what, now
        minutes = max(now - min(batch.created_at or now for batch in batches), 0) / 60
        spent = f", ${self._meter.spent:,.2f} so far" if self._meter.spent else ""
        self._notify(f"{what}, the oldest begun {minutes:,.0f} min ago{spent}")
