"""The Batch API of the tests' endpoint: files, batches, and what goes wrong with them."""

from __future__ import annotations

import email
import inspect
import json
import random
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Literal

from aiohttp import web

Spoil = Callable[[web.Response], web.Response]
Fault = Literal["expire", "fail", "token_limit", "cancel", "lose", "tear"]


class BatchApi:
    """Answers batches with the `answer` of the endpoint, `seconds` after they are created.

    `faults` are played one for each batch: it expires with half of its requests done, is refused,
    is refused as too large, is cancelled half done, is created although its caller gets no answer,
    or ends its files in the middle of a line. `sent` counts the requests of all accepted batches by
    their `custom_id`. A batch is listed `hidden` seconds after it is created, `most_listed` a page.
    Batches in progress have `queue` requests at most; what is more is refused as too large.
    `spoiled` are changes of the next answers by what is asked: "upload", "create", "list",
    "retrieve", "download". `broken` decides which requests fail. `reached` is called with what
    happens: "upload", "create", "created", "download".
    """

    def __init__(self, answer: Callable[[dict[str, Any]], Any]) -> None:
        self.answer = answer
        self.seconds = self.hidden = 0.0
        self.queue = float("inf")
        self.faults: deque[Fault | None] = deque()
        self.spoiled: dict[str, list[Spoil]] = {}
        self.broken: Callable[[dict[str, Any]], bool] = lambda _: False
        self.reached: Callable[[str], None] = lambda _: None
        self.sent: Counter[str] = Counter()
        self.batches: dict[str, dict[str, Any]] = {}
        self.files: dict[str, bytes] = {}
        self.most_listed = 100
        self.exists = True
        self._random = random.Random(0)

    def add_routes(self, app: web.Application) -> None:
        for method, path, what, handler in (
            ("POST", "/v1/files", "upload", self._upload),
            ("GET", "/v1/files/{file}/content", "download", self._download),
            ("POST", "/v1/batches", "create", self._create),
            ("GET", "/v1/batches", "list", self._list),
            ("GET", "/v1/batches/{batch}", "retrieve", self._retrieve),
        ):
            app.router.add_route(method, path, partial(self._answered, what, handler))

    async def _answered(
        self,
        what: str,
        handler: Callable[[web.Request], Awaitable[web.Response]],
        request: web.Request,
    ) -> web.Response:
        answer = await handler(request)
        spoiled = self.spoiled.get(what)
        return spoiled.pop(0)(answer) if spoiled else answer

    def keep(self, content: bytes) -> str:
        self.files[f"file-{len(self.files)}"] = content
        return f"file-{len(self.files) - 1}"

    async def _upload(self, request: web.Request) -> web.Response:
        self.reached("upload")
        # aiohttp's own reader of forms warns about itself.
        head = f"Content-Type: {request.headers['Content-Type']}\n\n".encode()
        form = email.message_from_bytes(head + await request.read())
        parts = {part.get_param("name", header="content-disposition"): part for part in form.walk()}
        assert parts["purpose"].get_payload() == "batch"
        content = parts["file"].get_payload(decode=True)
        assert isinstance(content, bytes)
        return web.json_response({"id": self.keep(content), "object": "file"})

    async def _download(self, request: web.Request) -> web.Response:
        self.reached("download")
        content = self.files.get(request.match_info["file"])
        return web.Response(body=content) if content is not None else _missing("file")

    async def _create(self, request: web.Request) -> web.Response:
        self.reached("create")
        body = await request.json()
        lines = [json.loads(line) for line in self.files[body["input_file_id"]].splitlines()]
        fault = self.faults.popleft() if self.faults else None
        if self.in_progress() + len(lines) > self.queue:
            fault = "token_limit"
        batch = {
            "id": f"batch-{len(self.batches)}",
            "object": "batch",
            "created_at": int(time.time()),
            "metadata": body.get("metadata"),
            "lines": lines,
            "fault": fault,
            "begun": time.monotonic(),
        }
        self.batches[batch["id"]] = batch
        if fault not in ("fail", "token_limit"):
            self.sent.update(line["custom_id"] for line in lines)
        self.reached("created")
        if fault == "lose":
            assert request.transport is not None
            request.transport.close()
        return web.json_response(await self._shown(batch))

    def in_progress(self) -> int:
        """Return how many requests wait for an answer."""
        return sum(
            len(one["lines"])
            for one in self.batches.values()
            if one["fault"] is None and time.monotonic() < one["begun"] + self.seconds
        )

    async def _list(self, request: web.Request) -> web.Response:
        if not self.exists:
            return _missing("page")
        shown = [
            one for one in self.batches.values() if time.monotonic() >= one["begun"] + self.hidden
        ]
        newest = [await self._shown(one) for one in reversed(shown)]
        ids = [one["id"] for one in newest]
        start = ids.index(request.query["after"]) + 1 if "after" in request.query else 0
        page = newest[start : start + self.most_listed]
        more = len(newest) > start + len(page)
        return web.json_response({"object": "list", "data": page, "has_more": more})

    async def _retrieve(self, request: web.Request) -> web.Response:
        found = self.batches.get(request.match_info["batch"])
        return web.json_response(await self._shown(found)) if found else _missing("batch")

    async def _shown(self, batch: dict[str, Any]) -> dict[str, Any]:
        fault, total = batch["fault"], len(batch["lines"])
        shown = {key: batch[key] for key in ("id", "object", "created_at", "metadata")} | {
            "status": "in_progress",
            "request_counts": {"total": total, "completed": 0, "failed": 0},
        }
        if fault in ("fail", "token_limit"):
            code = "token_limit_exceeded" if fault == "token_limit" else "invalid_file"
            errors = {"object": "list", "data": [{"code": code, "message": f"it has {code}"}]}
            return shown | {"status": "failed", "errors": errors}
        if time.monotonic() < batch["begun"] + self.seconds:
            return shown
        if "files" not in batch:
            batch["files"] = await self._results(batch["lines"], fault)
        replies, errors = batch["files"]
        status = {"expire": "expired", "cancel": "cancelled"}.get(fault, "completed")
        counts = {"total": total, "completed": len(replies), "failed": len(errors)}
        shown |= {"status": status, "request_counts": counts}
        for name, lines in (("output_file_id", replies), ("error_file_id", errors)):
            if lines:
                content = "".join(json.dumps(line) + "\n" for line in lines).encode()
                batch.setdefault(name, self.keep(content[: -20 if fault == "tear" else None]))
                shown[name] = batch[name]
        return shown

    async def _results(self, lines: list[Any], fault: Fault | None) -> tuple[list[Any], list[Any]]:
        replies: list[Any] = []
        errors: list[Any] = []
        for place, line in enumerate(lines):
            result = {"id": f"r-{place}", "custom_id": line["custom_id"], "error": None}
            if fault in ("expire", "cancel") and place >= len(lines) / 2:
                error = {"code": f"batch_{fault}", "message": "This request was not executed."}
                errors.append(result | {"response": None, "error": error})
            elif self.broken(line["body"]):
                body = {"error": {"message": "The server had an error", "type": "server_error"}}
                errors.append(result | {"response": {"status_code": 500, "body": body}})
            else:
                body = self.answer(line["body"])
                if inspect.isawaitable(body):
                    body = await body
                replies.append(result | {"response": {"status_code": 200, "body": body}})
        self._random.shuffle(replies)
        return replies, errors


def _missing(what: str) -> web.Response:
    error = {"message": f"No such {what}", "type": "invalid_request_error"}
    return web.json_response({"error": error}, status=404)
