"""Requests that an endpoint's batch service answers within a day, at half the price.

A batch has no id before it exists, and whoever is killed just then does not know whether it does.
So its requests are noted in the file of the reply cache before it is created, with the hash of its
file, which the batch gets as metadata. Whoever finds such a note looks for the batch in the
endpoint's list and goes on with it. The note is removed once all replies are in the cache.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel

from capeval.errors import BatchCancelled, EndpointDown, EndpointRefused
from capeval.llm.collecting import CollectingClient, NotSent, Outcomes, outcomes_in, parted
from capeval.llm.retry import CallFailed
from capeval.llm.types import ChatReply
from capeval.text import Loss, counted, listed

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types import Batch

    from capeval.llm.cache import ReplyCache

T = TypeVar("T")

POLL_SECONDS = 15.0
REPORT_SECONDS, SILENCE_SECONDS = 60.0, 600.0
"""Between two lines about batches that go on, at least, and at most."""
# A batch that was just created may not be in the list of all yet, nor be found at its address; one
# that has just ended may have no file yet.
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
    """A batch at `base_url` that is not finished; without an `id` it may not exist.

    `noted` is the Unix time of the last attempt to create it, 0 before the first.
    """

    hash: str
    base_url: str
    keys: frozenset[str]
    noted: float = 0.0
    id: str | None = None


def requests_sent(cache: ReplyCache, base_url: str) -> int:
    """Return how many requests without a stored reply are in batches at an endpoint."""
    notes = map(_Note.model_validate_json, cache.batches())
    kept = (one for one in notes if one.base_url == base_url and time.time() < one.noted + MONTH)
    return sum(cache.get(key) is None for note in kept for key in note.keys)


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
        name, url = hashlib.sha256(content).hexdigest(), self.endpoint.base_url
        note = _Note(hash=name, base_url=url, keys=frozenset(lines))

        async def create() -> Batch:
            # It may exist, although its note is lost or the answer to the last attempt.
            if found := await self._find(note):
                return found
            named = (f"capeval-{name[:12]}.jsonl", content)
            file = await self._call(lambda api: api.files.create(file=named, purpose="batch"))
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
        note.id, note.noted = batch.id, note.noted or batch.created_at
        self._keep(note)
        self._notes[note.hash] = note
        self.on_notice(f"Batch {batch.id}: {counted(len(lines), 'request')} sent")
        self._follow(note)

    async def _find(self, note: _Note) -> Batch | None:
        """Return a batch of the same requests whose replies were not read yet.

        It is looked for until it would be in the list, if it exists.
        """

        async def look(api: AsyncOpenAI) -> Batch | None:
            async for batch in _recent(api):
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
        batch = None
        try:
            batch = await self._ended(note)
            results = await self._results(batch) if batch else {}
        except CallFailed as failure:
            if failure.status != 404:
                raise self._refusal(failure) from None
            what = "replies of batch" if batch else "batch"
            self.on_notice(Loss(f"{url} has no {what} {note.id} any more: it is sent again"))
            results = {}
        finally:
            del self._followed[note.hash]
            self._seen.pop(note.hash, None)
        if batch is None:
            self._forget(note)
            raise NotSent
        if batch.status == "failed":
            self._forget(note)
            raise await self._not_accepted(note, batch)
        replies, failures = parted(results)
        self.on_notice(
            f"Batch {batch.id} {batch.status}: {counted(len(replies), 'reply', 'replies')} to "
            f"{counted(len(note.keys), 'request')}"
        )
        self.cache.receive(replies)
        # A later run that asks the same again shall not get the same replies.
        self.cache.note_batch(batch.id, "")
        self._forget(note)
        if batch.status == "cancelled":
            why = BatchCancelled(f"batch {batch.id} was cancelled")
            return dict.fromkeys(note.keys, why) | replies
        if batch.status == "completed":
            self._largest *= 2
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
        name, settled = note.id, 0.0
        while True:
            try:
                batch = await self._call(lambda api: api.batches.retrieve(name))
            except CallFailed as failure:
                if failure.status != 404 or time.time() >= note.noted + SETTLE_SECONDS:
                    raise
            else:
                self._seen[note.hash] = batch
                if batch.status not in ENDED:
                    self._report()
                else:
                    settled = settled or time.time() + SETTLE_SECONDS
                    if batch.output_file_id or not _completed(batch) or time.time() >= settled:
                        return batch
            await asyncio.sleep(POLL_SECONDS)

    async def _results(self, batch: Batch) -> dict[str, ChatReply | CallFailed]:
        """Return the replies and failures of a batch by key; raises `CallFailed`."""
        failures = await self._read(batch.error_file_id, 0)
        return failures | await self._read(batch.output_file_id, _completed(batch))

    async def _read(self, file: str | None, count: int) -> dict[str, ChatReply | CallFailed]:
        """Return the results in a file that should have `count` of them."""
        if file is None:
            if count:
                raise CallFailed(404, "no file")
            return {}
        looks = itertools.count()

        async def read() -> dict[str, ChatReply | CallFailed]:
            content = (await self._call_once(lambda api: api.files.content(file))).content
            found, _ = outcomes_in(content, self.left_off, tier="batch")
            # A proxy may answer with a page, or cut the file short. One line may be torn for good.
            if count - len(found) > min(next(looks), 1):
                raise CallFailed(None, f"{file} has {len(found):,} of {count:,} replies")
            return found

        return await self._persist(read)

    async def _not_accepted(self, note: _Note, batch: Batch) -> Exception:
        """Return what to do about a batch that the endpoint did not accept, as an exception."""
        errors = (batch.errors and batch.errors.data) or []
        why = listed([error.message for error in errors if error.message], 2) or "no reason given"
        too_many = any(error.code == "token_limit_exceeded" for error in errors)
        url = self.endpoint.base_url
        if too_many and await self._has_waited(why):
            return NotSent()
        if not too_many or len(note.keys) == 1:
            return EndpointRefused(f"{url} did not accept batch {batch.id}: {why}")
        self._largest = (len(note.keys) + 1) // 2
        size = counted(self._largest, "request")
        self.on_notice(f"Batch {batch.id} was not accepted ({why}): going on with {size} at a time")
        return NotSent()

    async def _has_waited(self, why: str) -> bool:
        """Wait until a batch of those in progress has ended; return whether there were any."""

        async def look(api: AsyncOpenAI) -> set[str]:
            return {batch.id async for batch in _recent(api) if batch.status not in ENDED}

        first = now = await self._call(look)
        while first and first <= now:
            what = counted(len(now), "batch", "batches")
            self._say(f"{why}: waiting until one of {what} in progress has ended")
            await asyncio.sleep(POLL_SECONDS)
            now = await self._call(look)
        return bool(first)

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
                self._say(f"{self.endpoint.base_url} does not answer ({failure}); trying again")
        raise EndpointDown(f"{self.endpoint.base_url}: its batches cannot be reached: {last}")

    def _refusal(self, failure: CallFailed) -> EndpointRefused:
        if failure.action == "stop_run":
            return EndpointRefused(self.endpoint.explained(failure))
        has_none = failure.status in {404, 405, 501}
        advice = "; without a batch service, omit --batch or use --batch-files" if has_none else ""
        return EndpointRefused(f"{self.endpoint.base_url} refuses batches: {failure}{advice}")

    def _forget(self, note: _Note) -> None:
        """Remove the note about a batch whose replies are stored, or that does not exist."""
        self._notes.pop(note.hash, None)
        self.cache.note_batch(note.hash, None)

    def _report(self) -> None:
        """Report how far the batches are."""
        batches, now = self._seen.values(), time.time()
        counts = [batch.request_counts for batch in batches if batch.request_counts]
        done = sum(one.completed + one.failed for one in counts)
        of = counted(sum(one.total for one in counts), "request")
        which = f"{len(batches):,} batches" if len(batches) > 1 else "Batch"
        minutes = max(now - min(batch.created_at for batch in batches), 0) / 60
        spent = f", ${self.meter.spent:,.2f} so far" if self.meter.spent >= 0.01 else ""
        self._say(f"{which}: {done:,} of {of} done", f" after {minutes:,.0f} min{spent}")

    def _say(self, what: str, more: str = "") -> None:
        """Report something at most once a minute, and less often what has not changed."""
        before, when = self._reported
        now = time.time()
        if now >= when + (SILENCE_SECONDS if what == before else REPORT_SECONDS):
            self._reported = what, now
            self.on_notice(what + more)


async def _recent(api: AsyncOpenAI) -> AsyncIterator[Batch]:
    """Yield the batches of the last month, the newest first."""
    since = time.time() - MONTH
    async for batch in api.batches.list(limit=100):
        if batch.created_at < since:
            return
        yield batch


def _completed(batch: Batch) -> int:
    """Return how many replies a batch has."""
    return batch.request_counts.completed if batch.request_counts else 0
