"""The decoder kept for parity: the same frames as ours where it works, and tamed where not."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import av
import pytest

from capeval.errors import MissingExtra, VideoError
from capeval.video import Given, Uniform, decoder_named
from tests.video.clips import make_clip, numbers

installed = pytest.mark.skipif(
    importlib.util.find_spec("decord") is None, reason="decord is not installed here"
)


@installed
def test_it_gives_the_pixels_that_ours_gives(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "v.mp4", 60, b_frames=2, options={"preset": "veryfast"})
    theirs = decoder_named("decord", timeout=30).read(path, Uniform(8))
    ours = decoder_named("pyav").read(path, Uniform(8))
    assert (theirs.frames == ours.frames).all()
    assert theirs.indices == ours.indices
    assert theirs.times == pytest.approx(ours.times, abs=1e-4)
    assert theirs.version.startswith("decord ")


@installed
def test_the_order_asked_for_is_kept(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "v.mp4", 20)
    frames = decoder_named("decord", timeout=30).read(path, Given((9, 2, 5)))
    assert numbers(frames.frames) == [9, 2, 5]


@installed
def test_a_codec_that_it_does_not_know_is_one_line(tmp_path: Path) -> None:
    if "libsvtav1" not in av.codecs_available:
        pytest.skip("this PyAV has no encoder of AV1")
    options = {"preset": "11", "svtav1-params": "lp=1"}
    path = make_clip(tmp_path / "v.mp4", 10, codec="libsvtav1", options=options)
    with pytest.raises(VideoError) as caught:
        decoder_named("decord", timeout=30).read(path, Uniform(8))
    assert str(caught.value).startswith(f"{path}: decord: ")
    assert "\n" not in str(caught.value)


@installed
def test_a_playlist_is_not_followed(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "other.ts")
    path = tmp_path / "v.mp4"
    path.write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n{clip}\n#EXT-X-ENDLIST\n")
    with pytest.raises(VideoError, match="is not a video"):
        decoder_named("decord", timeout=30).read(path, Uniform(8))


@installed
@pytest.mark.parametrize(
    ("child", "said"),
    [
        ("import time; time.sleep(60)", "the decoder stood still for 1 s"),
        ("import os; os.abort()", "decord crashed on it"),
        ('print(\'{"times": [0, 1], "fps": 1}\')', "decord crashed on it"),
    ],
)
def test_a_child_that_hangs_or_dies_costs_one_video(
    child: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "child.py"
    script.write_text(child)
    monkeypatch.setattr("capeval.video.decord_decoder._CHILD", script)
    path = make_clip(tmp_path / "v.mp4", 5)
    with pytest.raises(VideoError) as caught:
        decoder_named("decord", timeout=1).read(path, Uniform(2))
    assert str(caught.value) == f"{path}: {said}"


def test_without_it_one_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="or use --decoder pyav"):
        decoder_named("decord")
