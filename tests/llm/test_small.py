from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from capeval.llm.fake import ScriptedClient
from capeval.llm.redact import Redactor, public_url
from capeval.llm.types import ChatReply, ChatRequest
from capeval.schema.usage import Usage

Requests = Callable[..., ChatRequest]


def test_importing_llm_does_not_import_the_http_library() -> None:
    code = "import sys, capeval.llm.asker; sys.exit('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("key sk-proj-abc123 refused", "key [hidden] refused"),
        ("Authorization: Bearer abc.def-123", "Authorization: [hidden]"),
        ("sk-ab***yz", "[hidden]"),
        ("the Bearer token is wrong", "the Bearer token is wrong"),
        ("a task-oriented risk-averse desk-lamp", "a task-oriented risk-averse desk-lamp"),
        ("my own-secret-value", "my [hidden]"),
    ],
)
def test_secrets_are_hidden(text: str, shown: str) -> None:
    assert Redactor(["own-secret-value", ""])(text) == shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://u:p@host:8000/v1/", "http://host:8000/v1"),
        ("HTTPS://Host:443/v1?key=1#x", "https://host/v1"),
        ("http://[::1]:80/v1", "http://[::1]/v1"),
    ],
)
def test_a_base_url_is_shown_without_secrets(url: str, shown: str) -> None:
    assert public_url(url) == shown


async def test_a_script_is_played_in_order(ask_for: Requests) -> None:
    reply = ChatReply("whole", "length", "m", None, Usage())
    client = ScriptedClient(["one two", reply, TimeoutError()])
    first = await client.complete(ask_for("12345678"))
    assert (first.text, first.usage) == (
        "one two",
        Usage(calls=1, input_tokens=2, output_tokens=2),
    )
    assert await client.complete(ask_for()) is reply
    with pytest.raises(TimeoutError):
        await client.complete(ask_for())
    with pytest.raises(LookupError, match="request 4"):
        await client.complete(ask_for())
    assert len(client.requests) == 4


def test_a_runaway_reply_is_not_sent_back_whole(ask_for: Requests) -> None:
    follow = ask_for(repeat=2).followed_by("x" * 100_000, "too long", 7)
    assert len(follow.messages[1]["content"]) == 4000
    assert (follow.max_tokens, follow.repeat) == (7, 2)
    assert ask_for().followed_by("", "empty").messages[1]["content"].strip()
