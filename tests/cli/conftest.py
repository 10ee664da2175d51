"""The command line in a folder of its own, against the real server process."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.world import Said, typed

ROOT = Path(__file__).resolve().parents[2]
SECRET = "sk-test-SECRET123"
PREFLIGHT = '{\\"ok\\": true}'


@dataclass
class Endpoint:
    """A server process; `mood` says which failures it plays, `calls` what it was asked."""

    url: str
    log: Path
    mood_file: Path
    process: subprocess.Popen[str]

    def mood(self, **failures: list[str]) -> None:
        self.mood_file.write_text(json.dumps(failures), encoding="utf-8")

    def calls(self) -> int:
        """Calls for work so far; the preflight's are not counted."""
        if not self.log.exists():
            return 0
        lines = self.log.read_bytes().splitlines()
        return sum(PREFLIGHT.encode() not in line[:300] for line in lines)

    def requests(self) -> int:
        return len(self.log.read_bytes().splitlines()) if self.log.exists() else 0


def start_server(folder: Path, responder: str = "moody", latency_ms: float = 0) -> Endpoint:
    folder.mkdir(parents=True, exist_ok=True)
    mood, log = folder / "mood.json", folder / "log.jsonl"
    mood.write_text("{}", encoding="utf-8")
    command = [sys.executable, str(ROOT / "tests" / "server.py"), "--log", str(log)]
    command += ["--responder", f"tests.judge_responder:{responder}"]
    command += ["--latency-ms", str(latency_ms)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "CAPEVAL_TEST_MOOD": str(mood)},
    )
    assert process.stdout is not None
    return Endpoint(process.stdout.readline().strip(), log, mood, process)


def stop_server(endpoint: Endpoint) -> None:
    endpoint.process.kill()
    endpoint.process.wait()
    assert endpoint.process.stdout is not None
    endpoint.process.stdout.close()


@pytest.fixture(scope="session")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    endpoint = start_server(tmp_path_factory.mktemp("server"))
    yield endpoint
    stop_server(endpoint)


@pytest.fixture
def endpoint(_server: Endpoint) -> Endpoint:
    _server.mood()
    os.truncate(_server.log, 0) if _server.log.exists() else None
    return _server


EVENTS = {
    "A runner {} walks to a red car under trees.": (
        ("A runner walks.", "action", 3),
        ("The car is red.", "attribute", 2),
        ("There are trees.", "scene", 1),
    ),
    "A dog {} barks at the runner beside a tall gate.": (
        ("A dog barks.", "action", 3),
        ("The dog is small and black.", "attribute", 1),
    ),
    "The camera {} pans to the left over a lake.": (
        ("The camera pans left.", "camera", 2),
        ("There is a lake.", "scene", 2),
    ),
}


def annotation(number: int) -> dict[str, Any]:
    kinds = ["Low-Dynamic", "High-Dynamic", "Multi-Scene,Multi-Subject"]
    names = ("content", "type", "weight")
    return {
        "index": f"V{number:03}",
        "video": f"{number}.mp4",
        "visual_characteristic": kinds[number % 3],
        "domain": ["street", "lake"][number % 2],
        "events": [
            {
                "event": event.format(f"unit{number:03}"),
                "visual_elements": [dict(zip(names, one, strict=True)) for one in elements],
            }
            for event, elements in EVENTS.items()
        ],
    }


def caption(number: int) -> dict[str, str]:
    who = f"unit{number:03}"
    sentences = [
        f"A runner {who} walks to a {['red', 'blue'][number % 2]} car under trees.",
        f"A dog {who} barks at the runner.",
        f"The camera {who} pans to the {['left', 'right', 'left'][number % 3]} over a lake.",
        f"Birds sing to {who}.",
    ]
    del sentences[number % 4]
    return {"index": f"V{number:03}", "caption": " ".join(sentences), "model": "some-captioner"}


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
        self.cache = folder / "xdg"
        folder.mkdir(parents=True, exist_ok=True)

    def fill(self, count: int, name: str = "captions.jsonl") -> None:
        """Write annotations and captions for so many videos."""
        videos = [annotation(number) for number in range(count)]
        self.write("annotations.json", json.dumps(videos))
        self.write(name, "".join(json.dumps(caption(n)) + "\n" for n in range(count)))

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def env(self, **more: str) -> dict[str, str]:
        """The test's own environment without anything of OpenAI's."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("OPENAI_", "CAPEVAL_", "XDG_")) and "PROXY" not in name.upper()
        }
        home = {"HOME": str(self.folder / "home"), "XDG_CACHE_HOME": str(self.cache)}
        return {**kept, **home, "PYTHONWARNINGS": "error", "COLUMNS": "120", **more}

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
