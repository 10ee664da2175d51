"""The command line in a folder of its own, against a server."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from tests.judge_responder import is_preflight, moody
from tests.judged_runs import write_annotations
from tests.server import LoopbackServer, Responder
from tests.six_videos import captions, videos
from tests.world import Said, environment, typed, write_lines

SECRET = "sk-test-SECRET123"


class Endpoint(LoopbackServer):
    """Counts the calls for work; `mood` says which failures of `moody` it plays."""

    def __init__(self, responder: Responder | None = None, latency: float = 0.0) -> None:
        self.mood: dict[str, list[str]] = {}
        super().__init__(responder or (lambda asked: moody(asked, self.mood)), latency=latency)

    @property
    def work(self) -> int:
        """Calls so far but for the preflights."""
        return sum(not is_preflight(request) for request in self.requests)


@contextmanager
def serving(endpoint: Endpoint) -> Iterator[Endpoint]:
    """Let an endpoint answer while a test waits for a command."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(endpoint):
        yield endpoint


@pytest.fixture(scope="session")
def _server() -> Iterator[Endpoint]:
    with serving(Endpoint()) as endpoint:
        yield endpoint


@pytest.fixture
def endpoint(_server: Endpoint) -> Endpoint:
    _server.mood = {}
    _server.requests.clear()
    _server.paths.clear()
    return _server


def caption_lines(count: int) -> list[dict[str, str]]:
    """The lines of a captions file of so many videos."""
    texts = captions(count).items()
    return [{"index": index, "caption": text, "model": "some-captioner"} for index, text in texts]


_started: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def _none_is_left_running() -> Iterator[None]:
    """A test that fails while its command runs must not fail the tests after it."""
    before = len(_started)
    yield
    while len(_started) > before:
        with _started.pop() as process:
            process.kill()


class Workspace:
    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        folder.mkdir(parents=True, exist_ok=True)

    def fill(self, count: int, name: str = "captions.jsonl") -> None:
        """Write annotations and captions for so many videos."""
        write_annotations(self.folder / "annotations.json", videos(count))
        write_lines(self.folder / name, caption_lines(count))

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def env(self, **more: str) -> dict[str, str]:
        """An environment in which a warning is an error."""
        home = str(self.folder / "home")
        return environment(self.folder, **{"HOME": home, "PYTHONWARNINGS": "error"} | more)

    def start(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        command = shutil.which("capeval", path=str(Path(sys.executable).parent))
        assert command, "capeval is not installed beside this Python"
        process = subprocess.Popen(
            [command, *arguments],
            cwd=self.folder,
            env=self.env(**env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        _started.append(process)
        return process

    def run(self, *arguments: str, **env: str) -> Said:
        return typed(self.folder, *arguments, env=self.env(**env))

    def judge(self, *arguments: str, **env: str) -> Said:
        """Judge with the server's model, the captions file of `fill` if nothing else is named."""
        return self.run(*self.judging(*arguments), **env)

    def judging(self, *arguments: str) -> tuple[str, ...]:
        named = ("captions.jsonl",) if not arguments or arguments[0].startswith("-") else ()
        given = ("--annotations", "annotations.json", "--base-url", self.url)
        return ("judge", *named, *arguments, *given)

    @property
    def judged(self) -> Path:
        return self.folder / "runs" / "captions" / "judge-model@tuna-cap-v1"

    def judgments(self, prompts: str = "tuna-cap-v1") -> dict[str, dict[str, Any]]:
        """The stored judgments by index, in the file's order; none before the first."""
        path = self.judged.with_name(f"judge-model@{prompts}") / "judgments.jsonl"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        lines = [json.loads(line) for line in text.splitlines()]
        assert len({line["index"] for line in lines}) == len(lines)
        return {line["index"]: line for line in lines}

    def scores(self) -> dict[str, Any]:
        scores: dict[str, Any] = json.loads((self.judged / "scores.json").read_bytes())
        return scores


def end_of(process: subprocess.Popen[str], timeout: float = 60) -> Said:
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    return Said(process.returncode, out, err)


def wait_until(condition: Callable[[], bool], timeout: float = 60) -> None:
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)


@pytest.fixture
def work(tmp_path: Path, endpoint: Endpoint) -> Workspace:
    workspace = Workspace(tmp_path / "work", endpoint.url)
    workspace.fill(12)
    return workspace
