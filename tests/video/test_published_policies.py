"""The frames of some models' own code, by hand from the published rules."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from capeval.errors import UsageError, VideoError
from capeval.video import open_reader
from capeval.video.frames import Timeline
from capeval.video.sampling import read_policy
from tests.video.clips import make_clip


def clip(total: int) -> Timeline:
    return Timeline(tuple(at / 10 for at in range(total)), 10, total / 10)


@pytest.mark.parametrize(
    ("policy", "total", "indices"),
    [
        # A step of 100 / 4 = 25: middles from 12.5, truncated.
        ("internvl-4", 101, (12, 37, 62, 87)),
        # A step of 2.5: 1.25 + (0, 2, 5, 8), as 2.5 is rounded to even and 7.5 to 8.
        ("internvl-4", 11, (1, 3, 6, 9)),
        # A step of 0.5: 0.25 + (0, 0, 1, 2).
        ("internvl-4", 3, (0, 0, 1, 2)),
        ("internvl-2", 1, (0, 0)),
        ("tarsier-4", 101, (0, 33, 67, 100)),
        # Places 0, 2.5, 5, 7.5, 10.
        ("tarsier-5", 11, (0, 2, 5, 8, 10)),
        ("tarsier-4", 3, (0, 1, 1, 2)),
        ("tarsier-8", 50, (0, 7, 14, 21, 28, 35, 42, 49)),
    ],
)
def test_indices_are_those_of_the_published_rule(
    policy: str, total: int, indices: tuple[int, ...]
) -> None:
    chosen = read_policy(policy)
    assert str(chosen) == policy
    choice = chosen.choose(clip(total))
    assert choice.indices == indices
    assert bool(choice.warnings) == (total < len(indices))


@pytest.mark.parametrize("policy", ["internvl-1", "tarsier-1", "tarsier-0", "internvl-200000"])
def test_impossible_numbers_are_refused(policy: str) -> None:
    with pytest.raises(UsageError, match="is not a number from 2 to"):
        read_policy(policy)


def test_a_false_time_does_not_make_millions_of_frames() -> None:
    # The last frame of a small hostile file may be shown after years.
    late = Timeline((0.0, 0.1, 0.2, 1e9), 3e-9, 1e9 + 0.1)
    for policy in ("2fps", "auto", "tuna-2fps", "tuna-auto", "1000fps"):
        with pytest.raises(ValueError, match="at most 100000 are taken"):
            read_policy(policy).choose(late)
    assert read_policy("qwen-2fps").choose(late).indices == (0, 1, 2, 3)
    slow = Timeline(tuple(1e8 * at for at in range(5)), 1e-8, 5e8)
    assert read_policy("1000fps").choose(slow).indices == (0, 1, 2, 3, 4)


@pytest.mark.parametrize("policy", ["tuna-99999", "internvl-99999", "tuna-1000fps"])
def test_repeated_frames_must_fit_into_memory(policy: str, tmp_path: Path) -> None:
    # Of a clip of 5 frames, which alone would fit.
    file = make_clip(tmp_path / "clip.mp4", 5, rate=Fraction(1, 20), size=(256, 192))
    with pytest.raises(VideoError, match=r"frames of 256x192 need \d+ GiB; ask for fewer"):
        open_reader(policy, "pyav").read(file)
