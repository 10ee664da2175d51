"""Models of the hub where the hub can be reached, and where it cannot."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from huggingface_hub import constants

from capeval.local_models.checkpoint import use_downloads_if_unreachable


@pytest.fixture
def listening(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_hub_that_answers_is_used(listening: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", listening)
    use_downloads_if_unreachable()
    assert not constants.HF_HUB_OFFLINE


def test_without_a_hub_only_downloads_are_read(
    listening: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        closed = f"http://127.0.0.1:{gone.getsockname()[1]}"
    for endpoint in (closed, "http://hub.invalid", "http://127.0.0.1:99999"):
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "ENDPOINT", endpoint)
        use_downloads_if_unreachable()
        assert constants.HF_HUB_OFFLINE, endpoint


def test_behind_a_proxy_the_proxy_decides(listening: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://hub.invalid")
    monkeypatch.setenv("http_proxy", listening)
    use_downloads_if_unreachable()
    assert not constants.HF_HUB_OFFLINE
