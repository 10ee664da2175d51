"""The world that tests share: commands that are typed, packages, fake models, files of lines.

Its endpoint is `tests/server.py`, its clips are made by `tests/video/clips.py`.
"""

import asyncio
import gc
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from capeval.captioners.protocol import Captioned, CaptionRequest, Uncaptioned
from capeval.cli import main
from capeval.config import Registry
from capeval.errors import VideoError
from capeval.schema import Usage
from capeval.video import FrameSet

ROOT = Path(__file__).resolve().parent.parent


class Said(NamedTuple):
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.err.splitlines()

    @property
    def refusal(self) -> str:
        """The one line on stderr of a command that is refused and prints nothing else."""
        assert (self.code, self.out, len(self.lines)) == (2, "", 1), self
        assert self.err.startswith("capeval: ")
        return self.err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def typed(
    folder: Path, *arguments: object, columns: int = 120, env: dict[str, str] | None = None
) -> Said:
    """Type `capeval ...` in a folder, in this process; `env` is the whole environment.

    Both streams are what a process has that writes to a pipe.
    """
    out, err = (TextIOWrapper(BytesIO(), encoding="utf-8") for _ in range(2))
    with ExitStack() as stack:
        patched = stack.enter_context(pytest.MonkeyPatch.context())
        if env is not None:
            for name in os.environ.keys() - env.keys():
                patched.delenv(name)
            for name, value in env.items():
                patched.setenv(name, value)
        patched.setenv("COLUMNS", str(columns))
        patched.setattr(sys, "argv", ["capeval", *map(str, arguments)])
        stack.enter_context(chdir(folder))
        stack.enter_context(redirect_stdout(out))
        stack.enter_context(redirect_stderr(err))
        ended = stack.enter_context(pytest.raises(SystemExit))
        main()
    code = ended.value.code
    return Said(code if isinstance(code, int) else 0, _written(out), _written(err))


def _written(stream: TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.detach()
    assert isinstance(buffer, BytesIO)
    return buffer.getvalue().decode()


def here(*arguments: object, columns: int | None = None) -> Said:
    """Type `capeval ...` in the folder that the test is in, as wide as COLUMNS says."""
    return typed(Path(), *arguments, columns=columns or int(os.environ["COLUMNS"]))


def environment(cwd: Path, **more: str) -> dict[str, str]:
    """Return that of the tests with a cache of its own and without keys."""
    # What was typed in this process has set OpenBLAS's.
    unlike = ("OPENAI_", "GEMINI_", "OPENBLAS_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(unlike)}
    kept |= {"XDG_CACHE_HOME": str(cwd / "cache"), "PYTHONPATH": str(ROOT), "COLUMNS": "120"}
    return kept | more


async def capeval(cwd: Path, *arguments: object, **variables: str) -> Said:
    """Type `capeval ...` in this process; two at a time need processes of their own."""
    return await asyncio.to_thread(typed, cwd, *arguments, env=environment(cwd, **variables))


def run(cwd: Path, *arguments: str, **variables: str) -> Said:
    """Run `capeval` to its end in a process of its own, with nothing else to do meanwhile."""
    done = subprocess.run(
        [sys.executable, "-m", "capeval", *arguments],
        cwd=cwd,
        env=environment(cwd, **variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Said(done.returncode, done.stdout, done.stderr)


async def start(cwd: Path, *arguments: str, **variables: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "capeval", *arguments),
        cwd=cwd,
        env=environment(cwd, **variables),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_lines(file: Path, values: Iterable[Any]) -> Path:
    file.write_text("".join(json.dumps(one) + "\n" for one in values), encoding="utf-8")
    return file


def install(folder: Path, name: str, source: str, entry_points: str) -> Path:
    """Install a package with one module of this name; return the folder for `PYTHONPATH`."""
    site = folder / "site"
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (site / f"{name}.py").write_text(source, encoding="utf-8")
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n"
    )
    (info / "entry_points.txt").write_text(entry_points)
    return site


@contextmanager
def installed(site: Path, *modules: str) -> Iterator[None]:
    """Let commands that are typed in this process find the packages of a folder."""

    def forget() -> None:
        for name in modules:
            sys.modules.pop(name, None)
        for one in gc.get_objects():
            if type(one) is Registry:
                vars(one).pop("_installed", None)

    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(site)
        forget()
        yield
    forget()


ERRORS: dict[str, tuple[Exception, str]] = {
    "huge": (ValueError("x\n" * 1_000_000), "ValueError: x x x"),
    "group": (ExceptionGroup("many", [OSError("no\ndisk"), ValueError()]), "OSError: no disk"),
}
"""Exceptions as unhelpful as other packages can make them, and how their descriptions begin."""


SETTINGS = {"backend": "fake", "max_new_tokens": 1024}


class FakeReader:
    """Makes frames out of a video's name; `broken` says why a name has none."""

    def __init__(
        self,
        *,
        policy: str = "32",
        count: Callable[[str], int] = lambda _: 4,
        broken: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        self.policy, self.decoder = policy, "fake"
        self.read_names: list[str] = []
        self._count, self._broken = count, broken

    def read(self, path: Path, *, cancel: threading.Event | None = None) -> FrameSet:
        self.read_names.append(path.stem)
        if reason := self._broken(path.stem):
            raise VideoError(reason, file=path)
        n = self._count(path.stem)
        return FrameSet(
            np.zeros((n, 4, 6, 3), np.uint8), tuple(range(n)), (0.5,) * n, n, 24.0, n / 24
        )


class FakeCaptioner:
    """Writes what it was given; `answer` may say otherwise for an index."""

    def __init__(
        self,
        *,
        name: str = "fake-vlm",
        batch_size: int = 1,
        concurrency: int = 1,
        settings: Mapping[str, Any] = SETTINGS,
        answer: Callable[[CaptionRequest], Captioned | Uncaptioned | BaseException | None] = (
            lambda _: None
        ),
    ) -> None:
        self.name = name
        self.settings, self.batch_size, self.concurrency = settings, batch_size, concurrency
        self.mixes_frame_counts = False
        self.batches: list[tuple[int, ...]] = []
        self.prompts: dict[str, str] = {}
        self._answer = answer

    async def caption(self, requests: Sequence[CaptionRequest]) -> list[Captioned | Uncaptioned]:
        await asyncio.sleep(0)
        self.batches.append(tuple(len(r.frames) for r in requests))
        outcomes: list[Captioned | Uncaptioned] = []
        for request in requests:
            self.prompts[request.index] = request.prompt
            answer = self._answer(request)
            if isinstance(answer, BaseException):
                raise answer
            outcomes.append(answer or replace(captioned(request.index), model=self.name))
        return outcomes


def captioned(index: str, text: str | None = None, **more: Any) -> Captioned:
    usage = Usage(calls=1, input_tokens=100, output_tokens=10)
    text = f"A dog of {index} runs." if text is None else text
    return Captioned(index, text, usage, 0.1, "fake-vlm", **more)
