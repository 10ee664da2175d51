import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from capeval.config import sample_folder
from tests.cli.conftest import Workspace, end_of, wait_until
from tests.video.clips import make_clip
from tests.world import Said, lines, typed

WIDTH, HEIGHT, FPS = 320, 240, 24
Picture = NDArray[np.float64]


def world(seed: int) -> Picture:
    """A landscape of coloured blocks and specks, three pictures wide."""
    rng = np.random.default_rng(seed)
    parts = [
        np.kron(
            rng.uniform(-1, 1, (-(-HEIGHT // size), 3 * WIDTH // size, 3)), np.ones((size, size, 1))
        )
        for size in (80, 40, 8)
    ]
    large, small, specks = (part[:HEIGHT] for part in parts)
    return np.asarray(128 + 70 * large + 40 * small + 15 * specks)


def pan(seed: int, count: int, speed: int = 2, start: int = 0) -> list[Picture]:
    whole = world(seed)
    return [whole[:, at : at + WIDTH] for at in range(start, start + speed * count, speed)]


def noisy(pictures: list[Picture], deviation: float) -> list[Picture]:
    rng = np.random.default_rng(0)
    return [one + rng.normal(0, deviation, one.shape) for one in pictures]


def with_ball(pictures: list[Picture], size: int = 10) -> list[Picture]:
    """A grey ball crosses: its size is 3% of the width."""
    found = []
    for at, one in enumerate(pictures):
        moved = one.copy()
        moved[60 : 60 + size, 20 + at : 20 + at + size] = 128
        found.append(moved)
    return found


def dimmed(pictures: list[Picture], light: Callable[[int], float]) -> list[Picture]:
    return [one * light(at) for at, one in enumerate(pictures)]


def blended(first: list[Picture], second: list[Picture]) -> list[Picture]:
    shares = np.linspace(0, 1, len(first))
    return [a * (1 - s) + b * s for a, b, s in zip(first, second, shares, strict=True)]


def write(path: Path, pictures: list[Picture], **given: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    frames = [np.clip(one, 0, 255).astype(np.uint8) for one in pictures]
    options: dict[str, Any] = {"rate": FPS, "pictures": frames, **given}
    return make_clip(path, len(frames), **options)


def rows_of(folder: Path) -> dict[str, dict[str, Any]]:
    return {row["index"]: row for row in lines(folder / "videos.jsonl")}


def filtered(folder: Path, *more: object, side: int = HEIGHT) -> Said:
    return typed(folder.parent, "annotate", "filter", folder.name, "--min-side", side, *more)


STILL = pan(3, 1) * 96
WALK = pan(11, 192, speed=3)
FAULTS: dict[str, tuple[list[Picture], dict[str, Any], set[str]]] = {
    "pan": (pan(1, 96), {}, set()),
    "upright": (pan(12, 96), {"turn": 90}, set()),
    "ball": (noisy(with_ball(STILL), 3), {}, set()),
    "night": (dimmed(pan(2, 96), lambda _: 0.2), {}, set()),
    "late_start": (pan(4, 1) * 20 + pan(4, 76), {}, set()),
    "still_with_noise": (noisy(pan(5, 1) * 96, 12), {}, {"near-static"}),
    "still_in_changing_light": (
        noisy(dimmed(pan(6, 1) * 96, lambda at: 0.7 + 0.1 * np.sin(at / 9)), 12),
        {},
        {"near-static"},
    ),
    "black": (noisy([0 * one for one in STILL], 6), {}, {"black", "frozen", "near-static"}),
    "half_black": (dimmed(pan(7, 96), lambda at: at < 45), {}, {"black", "frozen"}),
    "half_frozen": (pan(8, 48) + pan(8, 48)[-1:] * 48, {"options": {"crf": "35"}}, {"frozen"}),
    "too_small": ([one[::4, ::4] for one in pan(9, 48)], {}, {"low-resolution"}),
    "too_long": (pan(10, 41, speed=8), {"rate": 1}, {"too-long"}),
    "part": (WALK[:144], {}, {"near-duplicate"}),
    "smaller_part": (
        [one[::2, ::2] for one in WALK[60:144]],
        {"options": {"crf": "32"}},
        {"near-duplicate"},
    ),
    "whole": (WALK[24:], {}, set()),
    "cut_off": (pan(13, 96), {"container_options": {"movflags": "faststart"}}, {"unreadable"}),
}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faulty") / "clips"
    for name, (pictures, given, _) in FAULTS.items():
        write(folder / f"{name}.mp4", pictures, **given)
    os.truncate(folder / "cut_off.mp4", (folder / "cut_off.mp4").stat().st_size * 3 // 4)
    (folder / "text.mp4").write_text("not a video")
    (folder / "gone.mp4").symlink_to("nowhere.mp4")
    done = filtered(folder, side=110)
    kept = sum(not reasons for *_, reasons in FAULTS.values())
    assert done.code == 0
    assert done.out.startswith(f"{kept} of {len(FAULTS) + 2} videos kept; ")
    assert ", 3 unreadable, " in done.out.splitlines()[0]
    return folder


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_found_and_clean_clips_pass(faulty: Path, name: str) -> None:
    row = rows_of(faulty)[name]
    assert {*row["reasons"]} == FAULTS[name][2]
    assert row["keep"] == (not FAULTS[name][2])


def test_a_row_says_what_the_video_is(faulty: Path) -> None:
    rows = rows_of(faulty)
    assert list(rows) == sorted(rows)
    assert rows["upright"]["video"] == "upright.mp4"
    assert [rows["upright"][name] for name in ("width", "height", "seconds", "fps")] == [
        *(WIDTH, HEIGHT, 4, FPS)
    ]
    assert {rows[name]["duplicate_of"] for name in ("part", "smaller_part")} == {"whole"}
    assert "does not decode cleanly" in rows["cut_off"]["error"]
    assert rows["gone"]["error"] == "is a link to nowhere.mp4, which does not exist"


HARD = pan(21, 50) + pan(22, 40, start=100) + pan(23, 54)
FLASHES = pan(24, 144)
for _at in (10, 60, 61, 100, 101, 102, 103, 104):
    FLASHES[_at] = FLASHES[_at] * 0.2 + 200
SUBTITLED = pan(25, 96)
for _at in range(40, 96):
    SUBTITLED[_at] = SUBTITLED[_at].copy()
    SUBTITLED[_at][195:225, 60:260] = 255
CUTS: dict[str, tuple[list[Picture], list[int]]] = {
    "hard": (HARD, [50, 90]),
    "in_the_dark": (dimmed(HARD, lambda _: 0.15), [50, 90]),
    "two_frames_of_blend": (
        pan(21, 50) + blended(pan(21, 4, start=100), pan(22, 4))[1:3] + pan(22, 50),
        [50],
    ),
    "flashes": (FLASHES, []),
    "flash_between_shots": (pan(26, 50) + [255 + 0 * STILL[0]] * 3 + pan(27, 50), [50]),
    "fade": (
        dimmed(pan(28, 60) + pan(29, 60), lambda at: min(1, abs(at - 59.5) / 10)),
        [],
    ),
    "dissolve": (pan(30, 40) + blended(pan(30, 24, start=80), pan(31, 24)) + pan(31, 40), []),
    "whip_pan": (pan(32, 1) * 30 + pan(32, 16, speed=40) + pan(32, 1, start=640) * 30, []),
    "strobe": (dimmed(pan(34, 96), lambda at: 0.3 + 0.7 * (at // 3 % 2)), []),
    "subtitle": (SUBTITLED, []),
}


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cut") / "clips"
    for name, (pictures, _) in CUTS.items():
        write(folder / f"{name}.mp4", pictures)
    assert filtered(folder).code == 0
    return folder


@pytest.mark.parametrize("name", CUTS)
def test_cuts_are_found_at_their_frames(cut: Path, name: str) -> None:
    assert [round(time * FPS) for time in rows_of(cut)[name]["cuts"]] == CUTS[name][1]


def test_the_sample_passes_and_its_cuts_are_those_that_were_drawn(tmp_path: Path) -> None:
    shutil.copytree(sample_folder() / "videos", tmp_path / "clips")
    assert filtered(tmp_path / "clips", side=270).out.startswith("10 of 10 videos kept.\n")
    found = {index: row["cuts"] for index, row in rows_of(tmp_path / "clips").items()}
    assert {index: cuts for index, cuts in found.items() if cuts} == {
        "sample_02": [3, 5],
        "sample_06": [pytest.approx(3.8, abs=1 / 24)],
        "sample_07": [4, pytest.approx(5.6, abs=1 / 24)],
        "sample_09": [pytest.approx(4.2, abs=1 / 24)],
    }


def test_a_rerun_decodes_only_what_is_new_and_leaves_what_was_edited(tmp_path: Path) -> None:
    folder = tmp_path / "clips"
    for name, seed in (("a", 1), ("b", 2), ("c", 3)):
        write(folder / f"{name}.mp4", pan(seed, 48))
    assert "3 too long" in filtered(folder, "--max-seconds", "1").out
    assert "checking 3 videos" in filtered(folder).err
    first = (folder / "videos.jsonl").read_bytes()
    again = filtered(folder)
    assert (again.err, (folder / "videos.jsonl").read_bytes()) == ("", first)

    edited = first.decode().replace('"keep": true', '"note": "blurred", "keep": false', 1)
    (folder / "videos.jsonl").write_text(edited)
    stricter = filtered(folder, side=HEIGHT + 1)
    assert (stricter.err, stricter.out.splitlines()[0]) == (
        "",
        "0 of 3 videos kept; 3 low resolution (--min-side), 1 decided by hand.",
    )
    write(folder / "c.mp4", pan(4, 60))
    write(folder / "more" / "a.mp4", pan(5, 48))
    assert "checking 2 videos, 2 done before" in filtered(folder).err
    rows = rows_of(folder)
    assert [row["keep"] for row in rows.values()] == [False, True, True, True]
    assert (rows["a"]["note"], rows["a"]["reasons"]) == ("blurred", [])
    assert (rows["c"]["seconds"], rows["more/a"]["video"]) == (2.5, "more/a.mp4")


def test_an_unreadable_video_cannot_be_kept_and_an_overruled_reason_is_not_counted(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "clips"
    write(folder / "a.mp4", pan(1, 48))
    (folder / "b.mp4").write_text("not a video")
    assert filtered(folder, side=HEIGHT + 1).out.startswith("0 of 2 videos kept; ")
    none = typed(tmp_path, "annotate", "review", "clips", "--annotators", "ann")
    assert "clips/videos.jsonl: keeps none of its 2 videos; set keep to true" in none.refusal
    file = folder / "videos.jsonl"
    assert "hashes" not in file.read_text()
    file.write_text(file.read_text().replace('"keep": false', '"keep": true'))
    again = filtered(folder, side=HEIGHT + 1).out.splitlines()[0]
    assert again == "1 of 2 videos kept; 1 unreadable, 1 decided by hand."


def test_equal_stems_have_their_folder_or_suffix_in_the_index(tmp_path: Path) -> None:
    for name, seed in (("x/a.mp4", 1), ("y/a.mp4", 2), ("y/a.mkv", 3), ("b.mp4", 4)):
        write(tmp_path / name, pan(seed, 24))
    filtered(tmp_path)
    assert {index: row["video"] for index, row in rows_of(tmp_path).items()} == {
        "b": "b.mp4",
        "x/a": "x/a.mp4",
        "y/a": "y/a.mkv",
        "y/a.mp4": "y/a.mp4",
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "clips: has no videos, such as .mp4 files"),
        (None, "clips: does not exist; name the folder of the videos"),
        ('{"index": "a", "video": "a.mp4", "keep": "no"}\n', "line 1: keep: "),
        ("{'index'}\n", "line 1: broken JSON"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, line: str | None, message: str) -> None:
    if line is not None:
        (tmp_path / "clips").mkdir()
    if line:
        write(tmp_path / "clips" / "a.mp4", pan(1, 24))
        (tmp_path / "clips" / "videos.jsonl").write_text(line)
    assert message in filtered(tmp_path / "clips").refusal
    assert not [*tmp_path.glob("clips/.*")]


def test_kill_and_resume_ends_with_the_same_bytes(tmp_path: Path) -> None:
    whole, killed = (Workspace(tmp_path / name, "") for name in ("whole", "killed"))
    for number in range(6):
        write(whole.folder / "clips" / f"{number}.mp4", pan(number, 72))
    shutil.copytree(whole.folder / "clips", killed.folder / "clips")
    command = ("annotate", "filter", "clips", "--min-side", str(HEIGHT))
    assert whole.run(*command).code == 0
    file = killed.folder / "clips" / "videos.jsonl"
    process = killed.start(*command)
    wait_until(lambda: process.poll() is not None or (file.exists() and b"\n" in file.read_bytes()))
    process.kill()
    assert end_of(process).code == -9
    before = len(rows_of(killed.folder / "clips"))
    resumed = killed.run(*command)
    assert f"checking {6 - before} videos, {before} done before" in resumed.err
    assert file.read_bytes() == (whole.folder / "clips" / "videos.jsonl").read_bytes()
