from collections import Counter

import pytest

from capeval.errors import UsageError
from capeval.rating.rate_sheet import sample_sheet
from capeval.schema import Annotation
from tests.rating.rating_examples import annotation

ANNOTATIONS = [annotation(f"v{n:02}") for n in range(80)]
SYSTEMS = ("alpha", "beta", "gamma")


def captions(annotations: list[Annotation] = ANNOTATIONS) -> dict[str, dict[str, str]]:
    return {s: {a.index: f"What {s[0]} says of {a.index}." for a in annotations} for s in SYSTEMS}


def test_every_video_is_as_likely_as_any_other_and_systems_are_balanced() -> None:
    counts: Counter[str] = Counter()
    for seed in range(60):
        sheet = sample_sheet(ANNOTATIONS, captions(), videos=39, per_video=2, seed=seed)
        used = Counter(item.system for item in sheet.items)
        assert max(used.values()) - min(used.values()) <= 1
        counts.update({item.annotation.index for item in sheet.items})
    # Binomial: 60 draws of each video.
    share = 39 / 80
    limit = 5 * (60 * share * (1 - share)) ** 0.5
    assert all(abs(n - 60 * share) <= limit for n in counts.values())


def test_captions_of_a_video_stand_together_and_systems_in_no_order() -> None:
    sheet = sample_sheet(ANNOTATIONS, captions(), videos=40)
    indexes = [item.annotation.index for item in sheet.items]
    assert indexes == [index for index in dict.fromkeys(indexes) for _ in SYSTEMS]
    assert indexes != sorted(indexes)
    firsts = Counter(item.system for item in sheet.items[::3])
    assert set(firsts) == set(SYSTEMS)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("videos", [6, 7, 40])
def test_every_system_has_every_place_equally_often(videos: int, seed: int) -> None:
    sheet = sample_sheet(ANNOTATIONS, captions(), videos=videos, seed=seed)
    counts = Counter((item.system, number % 3) for number, item in enumerate(sheet.items))
    times = [counts[system, place] for system in SYSTEMS for place in range(3)]
    assert max(times) - min(times) <= 1


def test_only_videos_that_enough_systems_captioned_are_drawn() -> None:
    some = captions(ANNOTATIONS[:10])
    some["gamma"] = {"v03": "Three.", "v04": "Four."}
    assert {item.annotation.index for item in sample_sheet(ANNOTATIONS, some, videos=2).items} == {
        "v03",
        "v04",
    }
    with pytest.raises(UsageError, match="2 are captioned by all runs; use --count 2"):
        sample_sheet(ANNOTATIONS, some, videos=3)
    assert len(sample_sheet(ANNOTATIONS, some).items) == 2 * 3
    assert len(sample_sheet(ANNOTATIONS, captions()).items) == 40 * 3
    some["delta"] = {}
    with pytest.raises(UsageError, match="no video is captioned by all runs"):
        sample_sheet(ANNOTATIONS, some)
    del some["delta"]
    assert len(sample_sheet(ANNOTATIONS, some, videos=10, per_video=2).items) == 20
    with pytest.raises(UsageError, match=r"--per-video 4 is more than there are runs \(3\)"):
        sample_sheet(ANNOTATIONS, some, videos=1, per_video=4)
