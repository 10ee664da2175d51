"""Requests and keys reach the endpoint that they are meant for, and nothing else."""

import asyncio
import logging
import shutil
import socket
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from capeval.errors import CapevalError, EndpointRefused, UsageError
from capeval.llm.client import OpenAIChatClient
from capeval.llm.tracing import public_url, redact, remember_secrets
from capeval.runs.concurrency import blocking
from tests.llm.conftest import KEY, ask_for, client_of, served
from tests.server import LoopbackServer, failure


async def test_no_redirect_carries_the_key_away() -> None:
    async with LoopbackServer() as thief:
        away = failure(307, headers={"Location": f"{thief.url}/chat/completions"})
        async with served(acts=[away]) as (_, client):
            with pytest.raises(EndpointRefused, match="redirects"):
                await client.complete(ask_for())
    assert not thief.paths


async def test_only_the_given_key_is_sent_and_azures_in_its_own_header(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_ORG_ID", KEY)
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", f"Authorization: Bearer {KEY}\nX-Own: {KEY}")
    async with LoopbackServer() as server, OpenAIChatClient(server.url) as client:
        await client.complete(ask_for())
    assert KEY not in str(server.headers[0])
    assert "stainless" not in str(server.headers[0]).lower()
    async with LoopbackServer() as azure, client_of(f"{azure.url}?api-version=2024-10") as client:
        await client.complete(ask_for())
    assert azure.headers[0]["api-key"] == KEY
    assert "Authorization" not in azure.headers[0]


async def test_user_password_and_parameters_of_the_base_url_are_sent() -> None:
    seen: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        url = f"http://me:p%40ss@127.0.0.1:{port}/openai/v1/?api-version=2026-01-01&key=a%2Bb"
        async with client_of(url, attempts=1) as client:
            with pytest.raises(CapevalError):
                await client.complete(ask_for())
    assert seen[0].startswith(
        "POST /openai/v1/chat/completions?api-version=2026-01-01&key=a%2Bb HTTP/1.1"
    )
    assert "authorization: basic bWU6cEBzcw==".lower() in seen[0].lower()
    assert "user-agent: capeval/" in seen[0].lower()


async def test_the_proxy_of_the_environment_gets_all_but_this_machines_own_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with LoopbackServer() as proxy, LoopbackServer() as server:
        monkeypatch.setenv("ALL_PROXY", proxy.url.removesuffix("/v1").replace("//", "//me:pw@"))
        for url in (server.url, server.url.replace("127.0.0.1", "localhost")):
            async with client_of(url) as client:
                await client.complete(ask_for())
        assert (proxy.calls, server.calls) == (0, 2)
        async with client_of("http://judge.invalid/v1") as client:
            assert (await client.complete(ask_for("hi"))).text == "hi"
        assert proxy.headers[0]["Proxy-Authorization"] == "Basic bWU6cHc="
        monkeypatch.setenv("NO_PROXY", "a.org, .invalid")
        async with client_of("http://judge.invalid/v1", attempts=1) as client:
            with pytest.raises(CapevalError, match="attempt"):
                await client.complete(ask_for())
        assert proxy.calls == 1


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that nobody trusts, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes the certificate, is not installed")
    made, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1"
    extension = ("-addext", "subjectAltName=IP:127.0.0.1")
    files = ("-keyout", str(key), "-out", str(made))
    subprocess.run([*command.split(), *extension, *files], check=True, capture_output=True)
    return made, key


async def test_only_trusted_certificates_are_accepted(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)
    async with LoopbackServer(tls=tls) as server:
        for url, message in (
            (server.url, "CERTIFICATE_VERIFY_FAILED.*SSL_CERT_FILE"),
            (server.url.replace("https", "http"), "disconnected.*begin with https://"),
        ):
            async with client_of(url) as client:
                with pytest.raises(EndpointRefused, match=message):
                    await client.preflight("judge-model")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        async with client_of(server.url, attempts=1) as client:
            assert (await client.complete(ask_for("hi"))).text == "hi"
        assert server.calls == 1
        monkeypatch.setenv("SSL_CERT_FILE", "no-such-file")
        with pytest.raises(UsageError, match="SSL_CERT_FILE"):
            await client_of(server.url).complete(ask_for())


async def test_what_cannot_be_reached_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    async def reach_async(url: str) -> None:
        async with client_of(url) as client:
            await client.preflight("judge-model")

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
    async with LoopbackServer() as plain:
        for url, message in (
            (f"http://127.0.0.1:{port}/v1", "ConnectionRefused.*is the server running"),
            (plain.url.replace("http", "https"), "SSL.*begin with http://"),
            ("http://judge.invalid:8000/v1", "Name or service.*check the address, the network"),
            ("https://judge.invalid/v1", "ConnectionRefused.*proxy settings"),
        ):
            with pytest.raises(EndpointRefused, match=message):
                # As the public functions do it, outside of a running loop.
                await asyncio.to_thread(blocking(reach_async), url)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://u:p@host:8000/v1/", "http://host:8000/v1"),
        ("HTTPS://Host:443/v1?key=1#x", "https://host/v1"),
        ("http://[::1]:80/v1", "http://[::1]/v1"),
        *((bad, None) for bad in ("ftp://host/v1", "localhost:8000", "http://", "http://..", "")),
    ],
)
def test_a_base_url_is_one_and_is_shown_without_secrets(url: str, shown: str | None) -> None:
    if shown is None:
        with pytest.raises(UsageError, match="base URL"):
            public_url(url)
    else:
        assert public_url(url) == shown


async def test_the_key_is_in_no_log_or_error(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    seen: list[str] = []

    def answer(request: dict[str, Any]) -> Any:
        kind = request["messages"][0]["content"]
        said = f"bad: {KEY}, api-key: some-other-key, hunter2hunter2, querysecret123"
        return failure(int(kind), said, param="temperature" if kind == "422" else None)

    async with LoopbackServer(answer) as server:
        url = server.url.replace("http://", "http://me:hunter2hunter2@") + "?key=querysecret123"
        async with client_of(url, on_notice=seen.append) as client:
            for status in ("400", "401", "404", "422", "500"):
                with pytest.raises(CapevalError) as caught:
                    await client.complete(ask_for(status))
                seen += [str(caught.value), repr(caught.value), repr(caught.value.__cause__)]
            seen.append(client.base_url)
    out = capfd.readouterr()
    everything = " ".join([*seen, caplog.text, out.out, out.err])
    assert "request" in caplog.text
    for secret in (KEY, "some-other", "hunter2", "querysecret"):
        assert secret not in everything


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("my own-secret", "my [hidden]"),
        ('{"Authorization": "Bearer ab.c", "x": 1}', '{"Authorization": "[hidden]", "x": 1}'),
        ("api-key: abcd refused", "api-key: [hidden] refused"),
        ("https://me:pw@host/v1?x=1&t=zz#end", "https://[hidden]@host/v1?x=[hidden]&t=[hidden]#end"),
        ("the Bearer token is wrong; a task-oriented sk-lamp", None),
    ],
)  # fmt: skip
def test_known_secrets_headers_and_addresses_are_hidden(text: str, shown: str | None) -> None:
    remember_secrets(["own-secret", "", "short"])
    assert redact(text) == (shown or text)
