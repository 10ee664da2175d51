"""What many tests share, made once for each worker."""

import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from capeval.llm.cache import ReplyCache
from tests.browser import running

# No test downloads a model; huggingface_hub would try each of its files for half a minute.
os.environ["HF_HUB_OFFLINE"] = "1"
# Tables are as wide as a test says, whatever terminal the tests are started in.
os.environ["COLUMNS"] = "120"
# Tests run on all cores already; more threads in each would wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A busy machine is no failure.
settings.register_profile(
    "capeval", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("capeval")


# Neither is an endpoint, a key or a proxy of this machine.
for _name in [*os.environ]:
    if _name.startswith("OPENAI_") or _name.lower().endswith("_proxy"):
        del os.environ[_name]


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a browser: starting one takes a second or two."""
    with running(tmp_path_factory.mktemp("chromium")) as address:
        yield address


@pytest.fixture(autouse=True)
def _caches_are_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """From Python 3.13 on, a forgotten connection of SQLite is a warning."""
    made: list[ReplyCache] = []
    begin = ReplyCache.__init__

    def remember(self: ReplyCache, *args: Any, **given: Any) -> None:
        begin(self, *args, **given)
        made.append(self)

    monkeypatch.setattr(ReplyCache, "__init__", remember)
    yield
    for cache in made:
        cache.close()


class Today:
    """The day that capeval takes for today; a test may set another."""

    day = date(2026, 6, 1)


@pytest.fixture(autouse=True)
def today(monkeypatch: pytest.MonkeyPatch) -> Today:
    """A day on which no current judge is about to end."""
    found = Today()
    monkeypatch.setattr("capeval.llm.money.today", lambda: found.day)
    return found


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working folder with its own cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
