"""An OpenAI-compatible endpoint on loopback that misbehaves on demand.

In a test: `async with LoopbackServer(answer) as server: ... server.url`.
"""

import asyncio
import inspect
import json
import ssl
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Self

from aiohttp import web


class Hang:
    """Never answer."""


class Drop:
    """Close the connection before anything is sent."""


Act = str | dict[str, Any] | web.Response | Hang | Drop
Responder = Callable[[dict[str, Any]], Act | Awaitable[Act]]


def echo(request: dict[str, Any]) -> str:
    """The default responder: repeats the last message."""
    content = request["messages"][-1]["content"]
    return content if isinstance(content, str) else json.dumps(content)


def completion(
    text: str | None,
    *,
    model: str = "snapshot-1",
    finish_reason: str = "stop",
    prompt_tokens: int = 10,
    completion_tokens: int | None = None,
    **message: Any,
) -> dict[str, Any]:
    """A whole chat completion; further arguments are fields of the message."""
    written = len(text or "") // 4 + 1 if completion_tokens is None else completion_tokens
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "system_fingerprint": "fp_1",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish_reason,
                "message": {"role": "assistant", "content": text, **message},
            }
        ],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": written,
            "total_tokens": prompt_tokens + written,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
    }


def failure(
    status: int,
    message: str = "it broke",
    *,
    code: str | None = None,
    kind: str | None = None,
    param: str | None = None,
    headers: dict[str, str] | None = None,
) -> web.Response:
    body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    return web.json_response(body, status=status, headers=headers)


def rate_limited(**headers: str) -> web.Response:
    """A 429; `retry_after="1"` becomes the header Retry-After."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return failure(429, "Rate limit reached", code="rate_limit_exceeded", headers=named)


def unauthorized(key: str = "sk-abc***xyz") -> web.Response:
    return failure(401, f"Incorrect API key provided: {key}.", code="invalid_api_key")


def unknown_model(model: str) -> web.Response:
    said = f"The model `{model}` does not exist or you do not have access to it."
    return failure(404, said, code="model_not_found")


def not_json() -> web.Response:
    return web.Response(text="<!doctype html><p>Welcome", content_type="text/html")


def refused_parameter(name: str) -> web.Response:
    said = f"Unsupported parameter: '{name}' is not supported with this model."
    return failure(400, said, code="unsupported_parameter", param=name)


def refusing(*names: str, answer: Responder = echo) -> Responder:
    """A responder that refuses requests with any of the named parameters.

    `json_schema` stands for a `response_format` of that type.
    """

    def respond(request: dict[str, Any]) -> Act | Awaitable[Act]:
        kind = (request.get("response_format") or {}).get("type")
        for name in names:
            if name == "json_schema" and kind == "json_schema":
                said = "Invalid parameter: 'response_format' of type 'json_schema' is not supported"
                return failure(400, said, param="response_format")
            if name in request:
                return refused_parameter(name)
        return answer(request)

    return respond


class LoopbackServer:
    """Serves /v1/chat/completions and /v1/models on a free port of 127.0.0.1.

    `acts` are played one for each call before the responder is asked; `requests` and `headers` hold
    what came in; `busiest` is the greatest number of calls that ran at once.
    """

    def __init__(
        self,
        responder: Responder = echo,
        *,
        acts: Iterable[Act] = (),
        models: Iterable[str | dict[str, Any]] = ("judge-model",),
        latency: float = 0.0,
        port: int = 0,
        keep: bool = True,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._tls = tls
        self.responder, self.latency, self.port = responder, latency, port
        self.acts = deque(acts)
        self.models = tuple(models)
        self.models_fail = False
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: Counter[str] = Counter()
        self.running = self.busiest = 0
        self._keep = keep
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}/v1"

    @property
    def calls(self) -> int:
        return self.paths["/v1/chat/completions"]

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_get("/v1/models", self._list)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.05)
        await self._runner.setup()
        site = web.TCPSite(
            self._runner, "127.0.0.1", self.port, backlog=1024, ssl_context=self._tls
        )
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _list(self, request: web.Request) -> web.Response:
        self.paths[request.path] += 1
        if self.models_fail:
            return failure(500, "The list of models is not available.")
        records = [{"id": one} if isinstance(one, str) else one for one in self.models]
        return web.json_response({"object": "list", "data": records})

    async def _complete(self, request: web.Request) -> web.Response:
        self.paths[request.path] += 1
        body = json.loads(await request.read())
        if self._keep:
            self.requests.append(body)
            self.headers.append(dict(request.headers))
        self.running += 1
        self.busiest = max(self.busiest, self.running)
        try:
            if self.latency:
                await asyncio.sleep(self.latency)
            act: Any = self.acts.popleft() if self.acts else self.responder(body)
            if inspect.isawaitable(act):
                act = await act
            if isinstance(act, Hang):
                await asyncio.sleep(3600)
            if isinstance(act, Drop) and request.transport is not None:
                request.transport.close()
            if isinstance(act, str | dict):
                return web.json_response(completion(act) if isinstance(act, str) else act)
            return act if isinstance(act, web.Response) else web.Response()
        finally:
            self.running -= 1
