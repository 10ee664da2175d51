"""Requests as files that another program answers, such as `vllm run-batch` without a server."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from capeval.errors import InputError, RequestsWritten
from capeval.llm.cache import ReplyCache
from capeval.llm.client import OpenAIChatClient
from capeval.llm.collecting import CollectingClient, replies_in
from capeval.llm.types import ChatReply
from capeval.text import Loss, counted

REQUESTS = "requests-"


class BatchFiles(CollectingClient):
    """Writes what it collects into a folder, and reads the replies that it finds there.

    Any other `.jsonl` file of the folder has replies, which go into the cache at once. Raises
    `InputError` where the folder cannot be used.
    """

    most_requests = most_bytes = float("inf")
    calls_endpoint = False

    def __init__(
        self,
        endpoint: OpenAIChatClient,
        cache: ReplyCache,
        folder: Path,
        *,
        on_notice: Callable[[str], None],
    ) -> None:
        super().__init__(endpoint, cache)
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            files = [one for one in folder.glob("*.jsonl") if not one.name.startswith(REQUESTS)]
            contents = [(path, path.read_bytes()) for path in sorted(files)]
        except OSError as error:
            raise InputError(str(error.strerror), file=folder, field="--batch-files") from None
        for path, content in contents:
            name = hashlib.sha256(content).hexdigest()
            # Otherwise a reply that was not accepted would come back instead of being asked again.
            if cache.is_read(name):
                continue
            found = replies_in(content)
            replies = {key: one for key, one in found.items() if isinstance(one, ChatReply)}
            cache.receive(replies)
            cache.note_batch(name, "")
            failures = [one for key, one in found.items() if key not in replies]
            if failures:
                what = counted(len(failures), "request")
                on_notice(Loss(f"{path}: {what} failed, the first with: {failures[0]}"))

    async def send(self, lines: Mapping[str, bytes], left_off: tuple[str, ...]) -> None:
        """Write requests, and end the run: raises `RequestsWritten`."""
        del left_off  # nothing: whoever answers takes all parameters
        content = b"".join(lines.values())
        name = hashlib.sha256(content).hexdigest()[:8]
        file = self._folder / f"{REQUESTS}{name}.jsonl"
        temporary = file.with_suffix(".tmp")
        temporary.write_bytes(content)
        temporary.replace(file)
        model = json.loads(next(iter(lines.values())))["body"]["model"]
        replies = self._folder / f"replies-{name}.jsonl"
        raise RequestsWritten(
            f"{counted(len(lines), 'request')} in {file}; answer them, for example with "
            f"`vllm run-batch -i {file} -o {replies} --model {model}`"
        )
