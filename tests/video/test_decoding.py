"""The hard files, each made here: exact or refused, never almost."""

import os
import random
from collections.abc import Callable
from fractions import Fraction
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from capeval.errors import MissingExtra, UsageError, VideoError
from capeval.video import FrameSet, Given, Uniform, decoder_named, open_reader, read_policy
from capeval.video.decoding import _version
from capeval.video.sampling import Choice, Policy, Timeline
from tests.video.clips import make_clip, numbers

B_FRAMES: dict[str, Any] = {"b_frames": 3, "options": {"preset": "veryfast"}}
VPX = {"deadline": "realtime", "cpu-used": "8"}
FRONT: dict[str, Any] = {"container_options": {"movflags": "faststart"}}
ALTREF = {"auto-alt-ref": "1", "lag-in-frames": "16", "deadline": "good", "cpu-used": "8"}


class Every:
    def choose(self, timeline: Timeline) -> Choice:
        return Choice(tuple(range(timeline.total)))


def read(path: Path, policy: Policy | None = None) -> FrameSet:
    return decoder_named("pyav").read(path, policy or Every())


EXACT: dict[str, dict[str, Any]] = {
    "plain.mp4": {},
    "b_frames.mp4": B_FRAMES,
    "long_gop.mp4": {"count": 300, "gop": 300, **B_FRAMES},
    "open_gop.mkv": {"options": {"preset": "veryfast", "x264-params": "open-gop=1"}, "b_frames": 2},
    "variable.mp4": {"times_ms": [40 * n + (1500 if n > 20 else 0) for n in range(48)]},
    "turned_90.mp4": {"turn": 90},
    "turned_270.mp4": {"turn": 270},
    "mirrored.mp4": {"turn": "mirrored"},
    "turned_odd.mp4": {"turn": 90, "size": (131, 97), "pixels": "yuv444p"},
    "delayed.mp4": {"delay_s": 0.5},
    "transport.ts": {"count": 100, "gop": 50, "audio": True, **B_FRAMES},
    "av1.mp4": {"codec": "libsvtav1", "options": {"preset": "11", "svtav1-params": "lp=1"}},
    "vp9_live.webm": {
        "codec": "libvpx-vp9",
        "options": VPX,
        "container_options": {"live": "1"},
    },
    "vp9_hidden.webm": {"codec": "libvpx-vp9", "options": ALTREF},
    "ten_bits.mp4": {
        "codec": "libx265",
        "pixels": "yuv420p10le",
        "options": {"x265-params": "log-level=none"},
    },
    "odd.mkv": {"size": (131, 97), "pixels": "yuv444p"},
    "one.mp4": {"count": 1},
    "film.mp4": {"rate": Fraction(24000, 1001), **B_FRAMES},
    "fragments.mp4": {"container_options": {"movflags": "frag_keyframe+empty_moov"}},
    "packed.avi": {"codec": "mpeg4", "b_frames": 2},
    "h264.avi": B_FRAMES,
    "raw.h264": {"form": "h264", **B_FRAMES},
    "flash.flv": B_FRAMES,
    "moving.gif": {"codec": "gif", "pixels": "rgb8", "rate": 25},
    "names/per%03dcent: ü.mp4": {},
}


HAS_DECORD = _version("decord2") is not None and _version("decord") is None
DECORD_REFUSED = {
    "ten_bits.mp4": "decord gives wrong frames of HEVC",
    "packed.avi": "decord gives wrong frames of AVI with B-frames",
    "h264.avi": "decord gives wrong frames of AVI with B-frames",
    "transport.ts": "decord gives wrong frames of MPEG-TS",
    "mirrored.mp4": "decord shows a different frame 0",
    "vp9_live.webm": "decord: ",
    "raw.h264": "decord: ",
}


@pytest.mark.parametrize("name", EXACT)
def test_every_frame_is_the_one_that_its_index_says(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    settings = EXACT[name]
    encoder = settings.get("codec", "libx264")
    if encoder not in av.codecs_available:
        pytest.skip(f"this PyAV has no encoder {encoder}")
    make_clip(path, **settings)
    count = settings.get("count", 48)
    frames = read(path)
    assert numbers(frames.frames) == list(range(count))
    assert frames.total == count
    assert frames.indices == tuple(range(count))
    width, height = settings.get("size", (128, 96))
    assert frames.frames.shape == (count, height, width, 3)
    assert (frames.damage, frames.hdr) == ((), None)
    some = read(path, Uniform(5))
    assert numbers(some.frames) == list(some.indices)
    assert read(path, Given((count - 1, 0)[: min(2, count)])).indices[0] == count - 1
    if HAS_DECORD:
        check_decord(path, DECORD_REFUSED.get(name))


def check_decord(path: Path, reason: str | None) -> None:
    """Check that decord's frames are exact, or refused in one line for a reason."""
    if reason is None:
        frames = decoder_named("decord").read(path, Uniform(8))
        assert numbers(frames.frames) == list(frames.indices)
        return
    with pytest.raises(VideoError) as caught:
        decoder_named("decord").read(path, Uniform(8))
    assert str(caught.value).startswith(f"{path}: {reason}")
    assert "\n" not in str(caught.value)


def test_times_of_a_variable_rate_are_those_of_the_file(tmp_path: Path) -> None:
    times_ms = [40 * n + (1500 if n > 20 else 0) for n in range(48)]
    path = make_clip(tmp_path / "v.mp4", times_ms=times_ms)
    frames = read(path)
    assert frames.times == pytest.approx([ms / 1000 for ms in times_ms], abs=1e-5)
    assert frames.fps == pytest.approx(47 / 3.38, rel=1e-4)
    by_time = read(path, read_policy("2fps"))
    assert by_time.times == pytest.approx([0, 0.48, 0.8, 2.0 + 0.34, 2.98], abs=0.2)
    assert numbers(by_time.frames) == list(by_time.indices)


def test_frames_that_an_edit_list_cuts_away_are_not_there(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "e.mp4", 277, shift=35, gop=250, **B_FRAMES)
    frames = read(path)
    assert numbers(frames.frames) == list(range(35, 277))
    assert (frames.total, frames.times[0], frames.warnings) == (242, 0.0, ())
    assert frames.duration == pytest.approx(242 / 24, abs=1e-3)
    if HAS_DECORD:
        check_decord(path, "decord counts 277 frames, and a player shows 242")


def cut(path: Path, share: float) -> Path:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    return path


CUT: dict[str, tuple[dict[str, Any], str]] = {
    "front.mp4": ({**FRONT, **B_FRAMES}, "packets are there"),
    "matroska.mkv": (B_FRAMES, "but should last 10.0 s"),
    "sound.mkv": ({"audio": True, **B_FRAMES}, "but should last 10.0 s"),
    "vp9.webm": ({"codec": "libvpx-vp9", "options": VPX}, "but should last 10.0 s"),
    "h264.avi": ({}, "packets are there"),
    "transport.ts": (B_FRAMES, "cut off in its last packet"),
}


@pytest.mark.parametrize("name", CUT)
def test_a_cut_off_video_gives_what_is_left_and_says_so(name: str, tmp_path: Path) -> None:
    settings, said = CUT[name]
    path = cut(make_clip(tmp_path / name, 240, **settings), 0.55)
    if path.suffix == ".ts" and path.stat().st_size % 188 == 0:
        path.write_bytes(path.read_bytes()[:-50])
    frames = read(path)
    found = numbers(frames.frames)
    assert 5 < len(found) < 240
    # Nothing is shown twice or out of order; only at the cut may one be missing between two.
    assert found == sorted(set(found))
    assert found[: len(found) - 4] == list(range(len(found) - 4))
    assert any(said in warning for warning in frames.warnings)


def test_a_stream_that_begins_between_key_frames_shows_what_can_be_decoded(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "m.ts", 120, gop=30, **B_FRAMES)
    data = path.read_bytes()
    path.write_bytes(data[len(data) // 3 // 188 * 188 :])
    frames = read(path)
    found = numbers(frames.frames)
    assert found == list(range(found[0], 120))
    assert found[0] % 30 == 0
    (warning,) = frames.warnings
    assert "where its packets announce" in warning
    assert frames.times[:2] == pytest.approx((0, 1 / 24), abs=1e-5)


def test_a_title_that_is_not_utf8_does_no_harm(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "v.mkv")
    data = path.read_bytes()
    assert b"Lavf" in data
    path.write_bytes(data.replace(b"Lavf", b"L\xc4vf"))
    assert numbers(read(path).frames) == list(range(48))


def test_a_stream_that_appears_in_the_middle_does_no_harm(tmp_path: Path) -> None:
    first = make_clip(tmp_path / "a.ts", 240, size=(640, 480), options={"qp": "1"}).read_bytes()
    second = make_clip(tmp_path / "b.ts", 24, size=(640, 480), delay_s=10, audio=True).read_bytes()
    path = tmp_path / "c.ts"
    path.write_bytes(first + second)
    assert numbers(read(path, Given((0, 239))).frames) == [0, 239]


def test_damage_in_a_frame_that_is_not_chosen_is_told(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "d.mp4", 60, gop=60, **FRONT)
    data = bytearray(path.read_bytes())
    middle = (data.index(b"mdat") + len(data)) // 2
    data[middle : middle + 60] = bytes(60)
    path.write_bytes(data)
    assert read(path, Uniform(2)).warnings


def no_index(path: Path) -> None:
    cut(make_clip(path, audio=True), 0.3)


def only_zeros(path: Path) -> None:
    data = make_clip(path, **FRONT).read_bytes()
    start = data.index(b"mdat") + 4
    path.write_bytes(data[:start] + bytes(len(data) - start))


def sound_only(path: Path) -> None:
    with av.open(str(path), "w", format="mp4") as out:
        stream = out.add_stream("aac", rate=48000, layout="mono")
        for number in range(10):
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
            frame.sample_rate, frame.pts = 48000, number * 1024
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))


def playlist(path: Path) -> None:
    clip = make_clip(path.with_name("other.ts"))
    path.write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n{clip}\n#EXT-X-ENDLIST\n")


def photograph(path: Path) -> None:
    from PIL import Image

    Image.new("RGB", (64, 64)).save(path, format="JPEG")


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: None, "does not exist"),
    "folder": (Path.mkdir, "is a folder"),
    "0 bytes": (Path.touch, "is empty (0 bytes)"),
    "a FIFO": (os.mkfifo, "is not a regular file"),
    "text": (lambda path: path.write_text("a video\n" * 500), "is not a video"),
    "no index": (no_index, "or is cut off"),
    "only zeros": (only_zeros, "has no frame that can be decoded"),
    "sound": (sound_only, "has no video (audio only)"),
    "a playlist": (playlist, "is not a video"),
    "a photograph": (photograph, "is not a video"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_holds_no_video_is_refused_in_one_line(what: str, tmp_path: Path) -> None:
    make, reason = REFUSED[what]
    path = tmp_path / "video.mp4"
    make(path)
    with pytest.raises(VideoError) as caught:
        read(path, Uniform(32))
    assert str(caught.value).startswith(f"{path}: ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_size_that_changes_is_refused(tmp_path: Path) -> None:
    first = make_clip(tmp_path / "a.ts", 24).read_bytes()
    second = make_clip(tmp_path / "b.ts", 24, size=(160, 96), delay_s=1).read_bytes()
    path = tmp_path / "c.ts"
    path.write_bytes(first + second)
    with pytest.raises(VideoError, match="changes its size at frame 24, from 128x96 to 160x96"):
        read(path)
    assert numbers(read(path, Given((3, 20))).frames) == [3, 20]


# decord, to compare with: exactly our frames, or the video is refused

installed = pytest.mark.skipif(
    not HAS_DECORD, reason="decord2 is not installed here, or decord beside it"
)


@installed
def test_damage_is_found_for_it_too(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "v.mkv", 240)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(VideoError, match=r"does not decode cleanly|decord"):
        open_reader("2", "decord").read(path)


def test_a_decoder_that_is_missing_or_twice_there_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: dict[str, str] = {}

    def version(package: str) -> str:
        try:
            return found[package]
        except KeyError:
            raise PackageNotFoundError from None

    monkeypatch.setattr("capeval.video.decoding.version", version)
    with pytest.raises(MissingExtra, match=r"needs decord2 .*or use the decoder pyav"):
        decoder_named("decord")
    found |= {"decord2": "3.4.0", "decord": "0.6.0"}
    with pytest.raises(UsageError, match=r"are both installed.* pip uninstall decord decord2"):
        decoder_named("decord")
    monkeypatch.setitem(__import__("sys").modules, "av", None)
    with pytest.raises(MissingExtra, match=r"PyAV .not installed.: pip install '\.\[frames\]'"):
        decoder_named("pyav")


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
        if (name, spoil) == ("h264.mp4", bits):
            *_, packets, frames = allowed.damage
            assert "packets cannot be decoded" in packets
            assert frames.startswith("damaged frames: ")


def test_two_fields_in_two_packets_are_no_damage(tmp_path: Path) -> None:
    fields = {"flags": "+ildct+ilme", "field_order": "tt"}
    path = make_clip(tmp_path / "fields.ts", codec="mpeg2video", options=fields)
    assert open_reader("8").read(path).damage == ()


PQ = "colorprim=bt2020:transfer=smpte2084:colormatrix=bt2020nc:log-level=none"
HLG = "colorprim=bt2020:transfer=arib-std-b67:colormatrix=bt2020nc:log-level=none"


@pytest.mark.parametrize(("kind", "parameters"), [("PQ", PQ), ("HLG", HLG)])
def test_hdr_without_tone_mapping_is_noted(kind: str, parameters: str, tmp_path: Path) -> None:
    of_hdr: dict[str, Any] = {"codec": "libx265", "pixels": "yuv420p10le"}
    options = {"x265-params": parameters}
    path = make_clip(tmp_path / "hdr.mp4", 24, options=options, **of_hdr)
    frames = open_reader("4").read(path)
    assert (frames.hdr, frames.damage) == (kind, ())
    record = frames.record()
    assert (record["hdr"], record["tone_mapping"]) == (kind, None)
    assert frames.warnings == (
        f"is HDR ({kind}), shown without tone mapping: its colours look pale",
    )
