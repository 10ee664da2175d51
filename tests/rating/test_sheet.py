from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter

import pytest

from capeval.errors import UsageError
from capeval.rating.sheet import key_csv, sample_sheet, sheet_html
from capeval.schema import Annotation
from tests.rating.rating_examples import HOSTILE, annotation

ANNOTATIONS = [annotation(f"v{n:02}") for n in range(80)]
SYSTEMS = ("alpha", "beta", "gamma")


def captions(
    annotations: list[Annotation] = ANNOTATIONS, systems: tuple[str, ...] = SYSTEMS
) -> dict[str, dict[str, str]]:
    return {s: {a.index: f"What {s[0]} says of {a.index}." for a in annotations} for s in systems}


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def data_of(page: str) -> dict[str, object]:
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    loaded: dict[str, object] = json.loads(found)
    return loaded


@pytest.mark.parametrize("videos", [1, 39, 80])
def test_every_video_is_as_likely_as_any_other(videos: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(60):
        sheet = sample_sheet(ANNOTATIONS, captions(systems=("alpha",)), videos=videos, seed=seed)
        assert len(sheet.items) == videos
        counts.update(item.annotation.index for item in sheet.items)
    # Binomial: 60 draws of each video.
    share = videos / 80
    assert all(
        abs(n - 60 * share) <= 5 * (60 * share * (1 - share)) ** 0.5 for n in counts.values()
    )


def test_systems_are_balanced() -> None:
    sheet = sample_sheet(ANNOTATIONS, captions(), videos=40, per_video=2)
    used = Counter(item.system for item in sheet.items)
    assert max(used.values()) - min(used.values()) <= 1


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


def test_systems_come_first_about_equally_often_where_only_some_are_drawn() -> None:
    for seed in range(10):
        sheet = sample_sheet(ANNOTATIONS, captions(), videos=40, per_video=2, seed=seed)
        firsts = Counter(item.system for item in sheet.items[::2])
        assert max(firsts.values()) - min(firsts.values()) <= 3
    orders = {
        tuple(i.system for i in sample_sheet(ANNOTATIONS, captions(), videos=40, seed=s).items)
        for s in range(5)
    }
    assert len(orders) == 5


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
    with pytest.raises(UsageError, match="4 captions of each video, but there are 3 runs"):
        sample_sheet(ANNOTATIONS, some, videos=1, per_video=4)


def test_same_inputs_and_seed_give_the_same_bytes() -> None:
    one = sample_sheet(ANNOTATIONS, captions(), videos=12, seed=0)
    two = sample_sheet(ANNOTATIONS, captions(systems=SYSTEMS[::-1]), videos=12, seed=0)
    other = sample_sheet(ANNOTATIONS, captions(), videos=12, seed=1)
    for write in (sheet_html, key_csv):
        assert write(one) == write(two) != write(other)
    assert one.name == two.name != other.name


def test_raters_cannot_see_the_systems() -> None:
    sheet = sample_sheet(ANNOTATIONS, captions(), videos=20)
    text = json.dumps(data_of(sheet_html(sheet)))
    assert not any(system in text for system in SYSTEMS)
    key = rows(key_csv(sheet))
    assert [row["system"] for row in key] == [item.system for item in sheet.items]
    assert {row["elements"] for row in key} == {"2 1"}


def test_page_holds_hostile_text_as_data() -> None:
    given = annotation("a<b", sizes=(1, 10)).model_dump()
    given["events"][0]["event"] = HOSTILE
    one = Annotation.model_validate(given)
    sheet = sample_sheet([one], {"system": {one.index: HOSTILE + "\r\nx"}}, videos=1)
    page = sheet_html(sheet, {sheet.items[0].annotation.index: "./a%3Cb.mp4"})
    assert page.count("</script>") == 2
    assert "<img" not in page
    item = data_of(page)["items"][0]  # type: ignore[index]
    assert item["caption"] == sheet.items[0].caption
    assert item["src"] == "./a%3Cb.mp4"
    assert item["events"][0]["event"] == HOSTILE
    assert "http:" not in page
    assert "https:" not in page
