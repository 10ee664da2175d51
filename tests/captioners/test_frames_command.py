from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from tests.video.clips import make_clip, numbered
from tests.world import Said, typed


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return make_clip(tmp_path / "clip.mp4")


def run(*arguments: object, folder: Path) -> Said:
    return typed(folder, "frames", *arguments)


def test_a_contact_sheet_is_the_default(clip: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    done = run(clip, "--frames", "12", folder=here)
    assert done.code == 0, done.err
    assert "12 of 48 frames, 128x96, 2.0 s at 24 fps" in done.out
    assert [entry.name for entry in here.iterdir()] == ["clip.frames.png"]
    with Image.open(here / "clip.frames.png") as sheet:
        # Two rows; the second begins with a frame.
        below = np.asarray(sheet)[sheet.height // 2 :, : sheet.width // 4]
    assert below.mean() < 200


def test_out_writes_each_frame_at_full_size_by_its_index(clip: Path, tmp_path: Path) -> None:
    done = run(clip, "--frames", "0,7,47", "--out", "frames", folder=tmp_path)
    assert done.code == 0, done.err
    names = sorted(entry.name for entry in (tmp_path / "frames").iterdir())
    assert names == ["frame_000000.png", "frame_000007.png", "frame_000047.png"]
    with Image.open(tmp_path / "frames" / names[1]) as picture:
        assert numbered(np.asarray(picture)) == 7
    assert not (tmp_path / "clip.frames.png").exists()


def test_no_file_is_destroyed_and_policies_do_not_mix_in_one_folder(
    clip: Path, tmp_path: Path
) -> None:
    before = clip.read_bytes()
    assert run("clip.mp4", "--out", "clip.mp4", folder=tmp_path).refusal
    assert clip.read_bytes() == before
    assert [run(clip, "--frames", "2", folder=tmp_path).code for _ in range(2)] == [0, 0]
    for frames, code in (("2", 0), ("3", 2)):
        assert run(clip, "--frames", frames, "--out", "shown", folder=tmp_path).code == code
    assert len(list((tmp_path / "shown").iterdir())) == 2


def test_json_is_the_record_alone(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "film.mp4", rate=Fraction(24000, 1001))
    record = run(clip.name, "--frames", "2fps", "--json", folder=tmp_path).json
    assert record.pop("decoder_version").startswith(f"PyAV {av.__version__}, FFmpeg ")
    assert record == {
        "video": "film.mp4",
        "frames": "2fps",
        "count": 5,
        "indices": [0, 11, 23, 35, 47],
        "times": [0.0, 0.458792, 0.959292, 1.459792, 1.960292],
        "total_frames": 48,
        "fps": 23.976024,
        "duration": 2.002,
        "width": 128,
        "height": 96,
        "decoder": "pyav",
        "warnings": [],
    }
    assert [entry.name for entry in tmp_path.iterdir()] == ["film.mp4"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.mp4"], "missing.mp4: does not exist"),
        (["clip.mp4", "--frames", "many"], "frames: 'many' is not one of"),
        (["clip.mp4", "--frames", "99,"], "has 48 frames; there is no frame 99"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(
    arguments: list[str], said: str, clip: Path, tmp_path: Path
) -> None:
    assert said in run(*arguments, folder=tmp_path).refusal
