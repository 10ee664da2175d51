"""The decoder of the papers, decord: kept for parity, and run in a child process.

It gives other frames than a player for edit lists, MPEG-TS and damaged files, crashes on some, and
decodes ahead without bound while it is idle. So each video is read in a child process by one thread
in one batch, under a time limit; the process ends with the video.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from capeval.errors import MissingExtra, VideoError
from capeval.text import one_line
from capeval.video.choice import Policy, choose_frames
from capeval.video.frames import DEFAULT_TIMEOUT, FrameSet, Timeline, checked_file
from capeval.video.guarding import Guard, guarded
from capeval.video.pyav_decoder import check_decoding

_CHILD = Path(__file__).with_name("decord_child.py")


class DecordDecoder:
    """Decodes with decord in a child process for each video."""

    name = "decord"

    def __init__(self, *, timeout: float = DEFAULT_TIMEOUT) -> None:
        if importlib.util.find_spec("decord") is None:
            raise MissingExtra(
                "decoding with decord needs it",
                otherwise=" (Linux and Windows on x86-64 only), or use --decoder pyav",
            )
        self._timeout = timeout
        try:
            self._version = f"decord {version('decord')}"
        except PackageNotFoundError:
            self._version = "decord"

    def read(
        self, path: Path, policy: Policy, *, cancel: threading.Event | None = None
    ) -> FrameSet:
        """Return the frames that `policy` chooses; see `Decoder.read`."""
        size = checked_file(path)
        return guarded(partial(self._read, path, size, policy), path, self._timeout, cancel)

    def _read(self, path: Path, size: int, policy: Policy, guard: Guard) -> FrameSet:
        # decord would follow a playlist to other files and addresses. This also gives the same
        # messages as the default decoder for what is not a video, and finds the damage that decord
        # hides: it shows other frames in the place of those that it cannot decode.
        findings = check_decoding(path, size, guard)
        # Not from our folder (-P): its modules must not hide others of the same name.
        command = [sys.executable, "-P", str(_CHILD), str(path.absolute())]
        with subprocess.Popen(  # noqa: S603 # our own script
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as child:
            guard.on_stop(child.kill)
            try:
                return self._exchange(path, policy, guard, child).with_findings(findings)
            finally:
                child.kill()

    def _exchange(
        self, path: Path, policy: Policy, guard: Guard, child: subprocess.Popen[bytes]
    ) -> FrameSet:
        ask, answer = cast("IO[bytes]", child.stdin), cast("IO[bytes]", child.stdout)
        head = _line(path, answer, guard)
        starts = head["times"]
        times = tuple(round(max(start - starts[0], 0.0), 6) for start in starts)
        fps = round(head["fps"], 6)
        timeline = Timeline(times, fps, round(times[-1] + 1 / fps, 6))
        choice = choose_frames(policy, timeline, path)
        try:
            # Unbuffered: what a dead child did not read must not be written again at the close.
            os.write(ask.fileno(), (json.dumps(choice.to_decode) + "\n").encode())
        except OSError:
            guard.check()
            raise VideoError("decord crashed on it", file=path) from None
        shape = _line(path, answer, guard)["shape"]
        pixels = answer.read(int(np.prod(shape)))
        guard.check()
        if len(pixels) != np.prod(shape):
            raise VideoError("decord crashed on it", file=path)
        return choice.frame_set(
            timeline,
            np.frombuffer(pixels, np.uint8).reshape(shape),
            path=path,
            decoder=self.name,
            version=self._version,
            warnings=choice.warnings,
        )


def _line(path: Path, answer: IO[bytes], guard: Guard) -> dict[str, Any]:
    line = answer.readline()
    guard.check()
    if not line:
        raise VideoError("decord crashed on it", file=path)
    value: dict[str, Any] = json.loads(line)
    if "error" in value:
        raise VideoError(f"decord: {one_line(value['error'], 120)}", file=path)
    return value
