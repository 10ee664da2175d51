"""`capeval frames` destroys nothing and prints nothing raw."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.typed import Said, typed

CLIP = Path(__file__).resolve().parents[2] / "annotations/sample/videos/sample_08.mp4"


def frames(folder: Path, *arguments: str) -> Said:
    return typed(folder, "frames", *arguments)


def test_a_sheet_never_replaces_the_video(tmp_path: Path) -> None:
    clip = tmp_path / "clip.mp4"
    shutil.copy(CLIP, clip)
    done = frames(tmp_path, "clip.mp4", "--sheet", "clip.mp4")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert clip.read_bytes() == CLIP.read_bytes()
    assert frames(tmp_path, "clip.mp4", "--frames", "2").code == 0
    assert frames(tmp_path, "clip.mp4", "--frames", "2").code == 0


def test_frames_of_two_policies_do_not_mix_in_one_folder(tmp_path: Path) -> None:
    shutil.copy(CLIP, tmp_path / "clip.mp4")
    assert frames(tmp_path, "clip.mp4", "--frames", "2", "--out", "shown").code == 0
    done = frames(tmp_path, "clip.mp4", "--frames", "3", "--out", "shown")
    assert done.code == 2
    assert len(list((tmp_path / "shown").iterdir())) == 2


def test_no_escape_of_a_file_name_is_printed(tmp_path: Path) -> None:
    shutil.copy(CLIP, tmp_path / "e\x1b[31m.mp4")
    done = frames(tmp_path, "e\x1b[31m.mp4", "--frames", "2")
    assert done.code == 0
    assert "\x1b" not in done.out + done.err
