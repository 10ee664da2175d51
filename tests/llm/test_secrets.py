"""Keys reach the endpoint that they are meant for, and nothing else."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capeval.errors import CapevalError, EndpointRefused, UsageError
from capeval.llm.client import OpenAIChatClient
from capeval.llm.redact import Redactor
from capeval.llm.transport import proxy_for
from capeval.llm.types import ChatRequest
from tests.llm.conftest import KEY
from tests.server import LoopbackServer, completion, failure

Clients = Callable[..., OpenAIChatClient]
Requests = Callable[..., ChatRequest]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_carries_the_key_away(
    status: int, client_of: Clients, ask_for: Requests
) -> None:
    async with LoopbackServer() as thief:
        away = failure(status, headers={"Location": f"{thief.url}/chat/completions"})
        async with LoopbackServer(acts=[away]) as server, client_of(server.url) as client:
            with pytest.raises(EndpointRefused, match="redirects"):
                await client.complete(ask_for())
    assert not thief.paths


async def test_the_environments_key_is_not_sent_unasked(
    ask_for: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID", "WEBHOOK_SECRET")
    for name in variables:
        monkeypatch.setenv(f"OPENAI_{name}", KEY)
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", f"Authorization: Bearer {KEY}\nX-Own: {KEY}")
    async with LoopbackServer() as server, OpenAIChatClient(server.url) as client:
        await client.complete(ask_for())
    assert KEY not in str(server.headers)
    assert server.headers[0]["Authorization"] == "Bearer none"


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "ALL_PROXY", "http_proxy"])
async def test_a_local_server_is_reached_without_the_proxy(
    variable: str, client_of: Clients, ask_for: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with LoopbackServer() as proxy, LoopbackServer() as server:
        monkeypatch.setenv(variable, proxy.url.removesuffix("/v1"))
        async with client_of(server.url) as client:
            await client.complete(ask_for())
    assert (proxy.calls, server.calls) == (0, 1)


async def test_another_host_is_reached_through_the_proxy_of_the_environment(
    client_of: Clients, ask_for: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with LoopbackServer() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/v1"))
        async with client_of("http://judge.invalid/v1") as client:
            assert (await client.complete(ask_for("hi"))).text == "hi"


@pytest.mark.parametrize("excepted", ["invalid", ".invalid", "a.org, *.invalid", "*"])
async def test_no_proxy_names_hosts_that_are_reached_without_it(
    excepted: str, client_of: Clients, ask_for: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with LoopbackServer() as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.url.removesuffix("/v1"))
        monkeypatch.setenv("NO_PROXY", excepted)
        async with client_of("http://judge.invalid/v1", attempts=1) as client:
            with pytest.raises(CapevalError, match="attempts"):
                await client.complete(ask_for())
    assert proxy.calls == 0


async def test_a_proxy_of_another_kind_is_refused(
    client_of: Clients, ask_for: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://me:hunter2hunter2@127.0.0.1:9")
    async with client_of("http://judge.invalid/v1") as client:
        with pytest.raises(UsageError, match="SOCKS proxies are not supported") as caught:
            await client.complete(ask_for())
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "is_proxied"),
    [
        ({"NO_PROXY": "judge.lab:8000"}, False),
        ({"NO_PROXY": "judge.lab:9000"}, True),
        ({"NO_PROXY": "a.org b.org .lab"}, False),
        ({"no_proxy": "a.org, judge.lab"}, False),
        ({}, True),
    ],
)
def test_no_proxy_is_read_as_other_programs_read_it(
    settings: dict[str, str], is_proxied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy:3128")
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert bool(proxy_for("http://judge.lab:8000/v1")[0]) is is_proxied


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "0.0.0.0", "[::1]", "localhost."])
def test_a_desktop_with_a_socks_proxy_reaches_local_servers(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("all_proxy", "socks://127.0.0.1:7891/")
    assert proxy_for(f"http://{host}:8000/v1") == (None, None)


@pytest.mark.parametrize(
    "address",
    ["http://a..b:3128", f"http://{'x' * 70}:1", "http://us%C5%82:pw@h:1", "http://us%3Aer:pw@h:1"],
)
def test_a_proxy_that_cannot_be_one_is_refused(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", address)
    with pytest.raises(UsageError, match="HTTP_PROXY: is not the address of a proxy") as caught:
        proxy_for("http://judge.lab/v1")
    assert "pw" not in str(caught.value)


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
    client_of: Clients,
    ask_for: Requests,
    certificate: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)
    async with LoopbackServer(tls=tls) as server:
        async with client_of(server.url, attempts=1) as client:
            with pytest.raises(CapevalError, match="its TLS certificate is not trusted"):
                await client.complete(ask_for())
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        async with client_of(server.url, attempts=1) as client:
            assert (await client.complete(ask_for("hi"))).text == "hi"
    assert server.calls == 1


async def test_a_proxys_password_is_in_no_message(
    client_of: Clients, ask_for: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://me:hunter2hunter2@127.0.0.1:9")
    async with client_of("http://judge.invalid/v1", attempts=1) as client:
        with pytest.raises(CapevalError) as caught:
            await client.complete(ask_for())
    assert "hunter2" not in str(caught.value)


async def test_a_netrc_file_is_not_read(
    ask_for: Requests, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password hunter2hunter2\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    async with LoopbackServer() as server, OpenAIChatClient(server.url) as client:
        await client.complete(ask_for())
    assert server.headers[0]["Authorization"] == "Bearer none"


@pytest.mark.parametrize(
    "payload",
    [
        completion(f"A dog. {KEY}"),
        completion(None, refusal=f"No: {KEY}"),
        completion(f"A dog. {KEY}", finish_reason="content_filter"),
        completion("A dog.", model=KEY),
        {**completion("A dog."), "system_fingerprint": f"fp {KEY}"},
    ],
)
async def test_a_key_that_the_endpoint_repeats_is_in_no_reply(
    payload: dict[str, Any], client_of: Clients, ask_for: Requests
) -> None:
    async with LoopbackServer(acts=[payload]) as server, client_of(server.url) as client:
        reply = await client.complete(ask_for())
    assert KEY not in repr(reply)
    assert "[hidden]" in repr(reply)


async def test_what_only_looks_like_a_key_stays_in_a_reply(
    client_of: Clients, ask_for: Requests
) -> None:
    text = "A sign reads sk-1234567890, Bearer abcdefgh, http://me:pw@host and [hidden]"
    async with LoopbackServer(acts=[text]) as server, client_of(server.url) as client:
        assert (await client.complete(ask_for())).text == text


@pytest.mark.parametrize("cut", [8, len(KEY) - 1])
async def test_a_key_that_a_limit_cuts_in_two_is_hidden(
    cut: int, client_of: Clients, ask_for: Requests
) -> None:
    secret = f"plain{KEY.removeprefix('sk')}"
    said = "x" * (2000 - cut) + secret
    async with (
        LoopbackServer(lambda _: failure(400, said)) as server,
        OpenAIChatClient(server.url, secret) as client,
    ):
        with pytest.raises(CapevalError) as caught:
            await client.complete(ask_for())
    assert secret[:8] not in caught.value.args[0]


@pytest.mark.parametrize(
    "text",
    [
        "GET /v1?api-key=a%2Bb%2Fc%3D%3D1234",
        'body: {"key": "a+b/c==1234"}',
        "at https://host/v1?x=1&access_token=zzzz#end",
        "postgres://me:a+b/c==1234@host",
        "was cut: a+b/c==1…",
    ],
)
def test_encoded_and_cut_keys_are_hidden(text: str) -> None:
    shown = Redactor(["a+b/c==1234"])(text)
    assert "[hidden]" in shown
    for part in ("a+b/c==1", "a%2Bb", "zzzz"):
        assert part not in shown


def test_redacting_a_hostile_text_takes_no_time() -> None:
    for text in ("&" * 50_000, "?" + "key" * 50_000, "a." * 50_000, "http://" + "a" * 100_000):
        Redactor([KEY])(text)


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
