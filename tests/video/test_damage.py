"""What does not decode cleanly is refused unless it is allowed, and HDR is noted."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capeval.errors import VideoError
from capeval.video import open_reader
from tests.video.clips import make_clip
from tests.video.test_decoding import FRONT, VPX

Spoil = Callable[[bytearray, int], None]


def zeros(data: bytearray, start: int) -> None:
    data[start:] = bytes(len(data) - start)


def noise(data: bytearray, start: int) -> None:
    data[start:] = random.Random(1).randbytes(len(data) - start)


def bits(data: bytearray, start: int) -> None:
    rng = random.Random(2)
    for _ in range(12):
        data[rng.randrange(start, len(data))] ^= 0x55


def cut_off(data: bytearray, start: int) -> None:
    del data[start:]


X265 = {"x265-params": "log-level=none"}
CLIPS: dict[str, dict[str, Any]] = {
    "h264.mp4": FRONT,
    "hevc.mp4": {"codec": "libx265", "options": X265, **FRONT},
    "vp9.webm": {"codec": "libvpx-vp9", "options": VPX},
    "live.webm": {"codec": "libvpx-vp9", "options": VPX, "container_options": {"live": "1"}},
    "h264.ts": {"b_frames": 2, "options": {"preset": "veryfast"}},
    "mpeg2.m2ts": {"codec": "mpeg2video"},
    "motion.avi": {"codec": "mjpeg", "pixels": "yuvj420p"},
}


# Flipped bits in pictures, and the end of a stream that states no duration.
OPEN_ENDED = {"live.webm", "h264.ts", "mpeg2.m2ts"}
UNDETECTED: dict[Spoil, set[str]] = {
    bits: {"vp9.webm", "motion.avi", *OPEN_ENDED},
    **dict.fromkeys((zeros, noise, cut_off), OPEN_ENDED),
}


@pytest.mark.parametrize("name", CLIPS)
def test_a_damaged_tail_is_refused_unless_it_is_allowed(name: str, tmp_path: Path) -> None:
    path = make_clip(tmp_path / name, 240, **CLIPS[name])
    whole = path.read_bytes()
    assert open_reader("16").read(path).damage == ()
    for spoil in (zeros, noise, bits, cut_off):
        if name in UNDETECTED.get(spoil, ()):
            continue  # its format has no means to notice this
        data = bytearray(whole)
        spoil(data, int(len(data) * 0.8))
        path.write_bytes(data)
        with pytest.raises(VideoError, match="does not decode cleanly"):
            open_reader("16").read(path)
        try:
            allowed = open_reader("16", allow_damaged=True).read(path)
        except VideoError:  # what is left is too little even so
            continue
        assert allowed.damage
        assert set(allowed.damage) <= set(allowed.warnings)


def test_two_fields_in_two_packets_are_no_damage(tmp_path: Path) -> None:
    fields = {"flags": "+ildct+ilme", "field_order": "tt"}
    path = make_clip(tmp_path / "fields.ts", codec="mpeg2video", options=fields)
    assert open_reader("8").read(path).damage == ()


PQ = "colorprim=bt2020:transfer=smpte2084:colormatrix=bt2020nc:log-level=none"
HLG = "colorprim=bt2020:transfer=arib-std-b67:colormatrix=bt2020nc:log-level=none"


def hdr_clip(path: Path, parameters: str = PQ) -> Path:
    more = {"codec": "libx265", "pixels": "yuv420p10le", "options": {"x265-params": parameters}}
    return make_clip(path, 24, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "parameters"), [("PQ", PQ), ("HLG", HLG)])
def test_hdr_without_tone_mapping_is_noted(kind: str, parameters: str, tmp_path: Path) -> None:
    path = hdr_clip(tmp_path / "hdr.mp4", parameters)
    frames = open_reader("4").read(path)
    assert (frames.hdr, frames.damage) == (kind, ())
    record = frames.record()
    assert (record["hdr"], record["tone_mapping"]) == (kind, None)
    assert frames.warnings == (
        f"is HDR ({kind}), shown without tone mapping: its colours look pale",
    )
