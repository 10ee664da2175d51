"""Frames as small pictures in the page."""

from __future__ import annotations

import base64
import io
from pathlib import Path

from PIL import Image

from capeval.files.videos import VideoFolder
from capeval.reporting.page_data import strips
from tests.scoring.making import annotation
from tests.video.clips import make_clip


def test_frames_are_spread_and_small(tmp_path: Path) -> None:
    make_clip(tmp_path / "long.mp4", 40, size=(640, 360))
    make_clip(tmp_path / "tall.mp4", 3, size=(96, 128))
    (tmp_path / "broken.mp4").write_bytes(b"none")
    videos = [
        annotation("one", "a1", video="long.mp4"),
        annotation("tall", "a1"),
        annotation("broken", "a1"),
        annotation("absent", "a1", video="../long.mp4"),
    ]
    files, missing = VideoFolder(tmp_path).find_all(videos)
    assert "leads out of the folder" in missing["absent"].message
    found = dict(strips(files, 4))
    times = [frame.time for frame in found["one"].frames]
    assert len(times) == 4
    assert times == sorted(set(times))
    sizes = {
        index: Image.open(io.BytesIO(base64.b64decode(found[index].frames[0].webp))).size
        for index in ("one", "tall")
    }
    assert sizes == {"one": (480, 270), "tall": (96, 128)}
    assert not found["broken"].frames
    assert found["broken"].note
    assert all(str(tmp_path) not in strip.note for strip in found.values())
