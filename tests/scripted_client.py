"""A chat client that follows a script."""

from collections.abc import Callable, Iterable

from capeval.llm.replies import ChatReply, ChatRequest
from capeval.schema import Usage

Line = str | ChatReply | BaseException


class ScriptedClient:
    """Answers with the given replies in order, or with a function's result for each request.

    An exception among them is raised. `requests` lists the requests; usage is counted at four
    characters a token. Raises `LookupError` when the script is at its end.
    """

    def __init__(self, script: Iterable[Line] | Callable[[ChatRequest], Line]) -> None:
        lines = iter(() if callable(script) else script)
        self._line = script if callable(script) else lambda _: next(lines)
        self.requests: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        try:
            line = self._line(request)
        except StopIteration:
            raise LookupError(f"no line left for request {len(self.requests)}") from None
        if isinstance(line, BaseException):
            raise line
        if isinstance(line, ChatReply):
            return line
        asked = sum(len(part) for part in request.parts() if isinstance(part, str))
        usage = Usage(calls=1, input_tokens=-(-asked // 4), output_tokens=-(-len(line) // 4))
        return ChatReply(line, "stop", request.model, None, usage)
