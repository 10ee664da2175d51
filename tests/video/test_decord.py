"""The decoder to compare with: exactly our frames, or the video is refused."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from capeval.errors import MissingExtra, UsageError, VideoError
from capeval.video import Given, Uniform, decoder_named, open_reader
from tests.video.clips import make_clip, numbers
from tests.video.test_decoding import B_FRAMES, HAS_DECORD

installed = pytest.mark.skipif(
    not HAS_DECORD, reason="decord2 is not installed here, or decord beside it"
)


@installed
def test_it_gives_the_frames_that_ours_gives(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "v.mp4", 60, **B_FRAMES)
    policy = Given((9, 2, 50))
    theirs, ours = (decoder_named(name).read(path, policy) for name in ("decord", "pyav"))
    assert numbers(theirs.frames) == [9, 2, 50]
    assert (theirs.frames == ours.frames).all()
    assert theirs.record() == {
        **ours.record(), "decoder": "decord", "decoder_version": theirs.version
    }  # fmt: skip
    assert theirs.version.startswith("decord2 ")


@installed
def test_frames_that_an_edit_list_cuts_away_are_not_shown(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "e.mp4", 277, shift=35, gop=250, **B_FRAMES)
    with pytest.raises(VideoError, match="decord counts 277 frames, and a player shows 242"):
        decoder_named("decord").read(path, Uniform(8))


@installed
def test_damage_is_found_for_it_too(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "v.mkv", 240)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(VideoError, match=r"does not decode cleanly|decord"):
        open_reader("2", "decord").read(path)


def test_without_it_or_beside_the_old_one_a_line_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: dict[str, str] = {}

    def version(package: str) -> str:
        try:
            return found[package]
        except KeyError:
            raise PackageNotFoundError from None

    monkeypatch.setattr("capeval.video.decoding.version", version)
    with pytest.raises(MissingExtra, match=r"needs decord2 .*or use --decoder pyav"):
        decoder_named("decord")
    found |= {"decord2": "3.4.0", "decord": "0.6.0"}
    with pytest.raises(UsageError, match=r"are both installed.* pip uninstall decord decord2"):
        decoder_named("decord")
