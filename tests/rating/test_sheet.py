from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter

import pytest

from capeval.errors import UsageError
from capeval.rating.sheet import (
    SHEET_COLUMNS,
    RatingSheet,
    key_csv,
    sample_sheet,
    sheet_csv,
    sheet_html,
)
from capeval.schema import Annotation
from tests.rating.rating_examples import HOSTILE, annotation

TAGS = ["Low-Dynamic", "High-Dynamic", "High-Dynamic,Multi-Scene", ""]
ANNOTATIONS = [annotation(f"v{n:02}", TAGS[n % 4]) for n in range(80)]
SYSTEMS = ("alpha", "beta", "gamma")


def captions(
    annotations: list[Annotation] = ANNOTATIONS, systems: tuple[str, ...] = SYSTEMS
) -> dict[str, dict[str, str]]:
    return {s: {a.index: f"What {s[0]} says of {a.index}." for a in annotations} for s in systems}


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline="")))


def data_of(page: str) -> dict[str, object]:
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    loaded: dict[str, object] = json.loads(found)
    return loaded


def test_strata_are_drawn_in_proportion() -> None:
    sheet = sample_sheet(ANNOTATIONS, captions(), videos=40)
    drawn = {item.annotation.index: item.annotation for item in sheet.items}
    assert len(drawn) == 40
    assert set(Counter(a.visual_characteristic for a in drawn.values()).values()) == {10}
    assert Counter(item.system for item in sheet.items) == dict.fromkeys(SYSTEMS, 40)


@pytest.mark.parametrize("videos", [1, 7, 39, 80])
def test_as_many_videos_are_drawn_as_were_asked_for(videos: int) -> None:
    sheet = sample_sheet(ANNOTATIONS, captions(), videos=videos, seed=3)
    counts = Counter(item.annotation.visual_characteristic for item in sheet.items)
    assert sum(counts.values()) == 3 * videos
    assert max(counts.values()) - min(counts.values()) <= 3 or videos < 4


def test_systems_are_balanced_within_strata_and_over_all() -> None:
    sheet = sample_sheet(ANNOTATIONS, captions(), videos=40, per_video=2)
    over_all = Counter(item.system for item in sheet.items)
    assert max(over_all.values()) - min(over_all.values()) <= 1
    for tags in {item.annotation.visual_characteristic for item in sheet.items}:
        within = Counter(
            item.system for item in sheet.items if item.annotation.visual_characteristic == tags
        )
        assert max(within.values()) - min(within.values()) <= 1


def test_captions_of_a_video_stand_together_and_systems_in_no_order() -> None:
    sheet = sample_sheet(ANNOTATIONS, captions(), videos=40)
    indexes = [item.annotation.index for item in sheet.items]
    assert indexes == [index for index in dict.fromkeys(indexes) for _ in SYSTEMS]
    assert indexes != sorted(indexes)
    firsts = Counter(item.system for item in sheet.items[::3])
    assert set(firsts) == set(SYSTEMS)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("videos", [6, 7, 40])
def test_every_system_stands_in_every_place_about_equally_often(videos: int, seed: int) -> None:
    sheet = sample_sheet(ANNOTATIONS, captions(), videos=videos, seed=seed)
    strata: dict[str, Counter[tuple[str, int]]] = {"all": Counter()}
    for number, item in enumerate(sheet.items):
        stratum = str(item.annotation.visual_characteristic)
        for counts in (strata["all"], strata.setdefault(stratum, Counter())):
            counts[item.system, number % 3] += 1
    for counts in strata.values():
        times = [counts[system, place] for system in SYSTEMS for place in range(3)]
        assert max(times) - min(times) <= 1 + (counts is strata["all"])


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
    with pytest.raises(UsageError, match="2 are captioned by all runs; use --videos 2"):
        sample_sheet(ANNOTATIONS, some, videos=3)
    assert len(sample_sheet(ANNOTATIONS, some).items) == 2 * 3
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
    for write in (sheet_csv, sheet_html, key_csv):
        assert write(one) == write(two) != write(other)
    assert one.name == two.name != other.name


def test_raters_cannot_see_the_systems() -> None:
    sheet = sample_sheet(ANNOTATIONS, captions(), videos=20)
    for text in (sheet_csv(sheet), json.dumps(data_of(sheet_html(sheet)))):
        assert not any(system in text for system in SYSTEMS)
    key = rows(key_csv(sheet))
    assert [row["system"] for row in key] == [item.system for item in sheet.items]
    assert {row["elements"] for row in key} == {"2 1"}


def hostile() -> RatingSheet:
    given = annotation('=cmd|"/c calc"!A1', sizes=(1, 10)).model_dump()
    given["events"][0]["event"] = HOSTILE
    given["events"][0]["visual_elements"][0]["content"] = "@SUM(A1)"
    one = Annotation.model_validate(given)
    return sample_sheet([one], {"system": {one.index: HOSTILE + "\r\nx"}}, videos=1)


def test_page_holds_hostile_text_as_data() -> None:
    sheet = hostile()
    page = sheet_html(sheet, {sheet.items[0].annotation.index: "./a%3Cb.mp4"})
    assert page.count("</script>") == 2
    assert "<img" not in page
    item = data_of(page)["items"][0]  # type: ignore[index]
    assert item["caption"] == sheet.items[0].caption
    assert item["src"] == "./a%3Cb.mp4"
    assert item["events"][0]["event"] == HOSTILE
    assert "http:" not in page
    assert "https:" not in page


def test_spreadsheet_runs_nothing_and_changes_no_id() -> None:
    found = rows(sheet_csv(hostile()))
    assert tuple(found[0]) == SHEET_COLUMNS
    assert [row["element_id"] for row in found] == ["e1.1", *(f"e2.{n}" for n in range(1, 11))]
    assert found[0]["video"].startswith("'=")
    assert found[0]["content"] == "'@SUM(A1)"
    assert found[0]["caption"].startswith(HOSTILE)
    assert not any(row["label"] or row["rater"] for row in found)
    for row in found:
        assert not any(cell.lstrip()[:1] in tuple("=+-@") for cell in row.values())


@pytest.mark.parametrize(
    ("sizes", "videos"),
    [((96, 3, 1), 10), ((60, 39, 1), 50), ((1, 1, 1, 97), 20), ((50, 50), 1), ((99, 1), 100)],
)
def test_every_video_can_be_sampled(sizes: tuple[int, ...], videos: int) -> None:
    kinds = [tag for tag, size in zip(TAGS, sizes, strict=False) for _ in range(size)]
    several = [annotation(f"v{n:03}", tag) for n, tag in enumerate(kinds)]
    sheet = sample_sheet(several, captions(several, ("alpha",)), videos=videos)
    sampled = Counter(item.stratum for item in sheet.items)
    strata = {stratum: size for (_, stratum), size in sheet.sizes.items()}
    assert sum(strata.values()) == len(several)
    # Each stratum is sampled, and within one every video is as likely as any other.
    assert sampled.keys() == strata.keys()
    for stratum, size in strata.items():
        assert abs(sampled[stratum] - size * videos / len(several)) < 1
    drawn = {item.annotation.index for item in sheet.items}
    for seed in range(1, 40):
        more = sample_sheet(several, captions(several, ("alpha",)), videos=videos, seed=seed)
        drawn |= {item.annotation.index for item in more.items}
    assert len(drawn) > 0.9 * min(len(several), 40 * videos * 0.3)


def test_key_names_the_stratum_of_each_caption_and_its_sizes() -> None:
    some = captions(systems=("alpha", "beta"))
    del some["beta"]["v00"]
    sheet = sample_sheet(ANNOTATIONS, some, videos=40, per_video=1)
    key = rows(key_csv(sheet))
    cells = Counter((row["system"], row["stratum"]) for row in key)
    for row in key:
        assert int(row["stratum_sampled"]) == cells[row["system"], row["stratum"]]
        missing = row["system"] == "beta" and row["stratum"] == "Low-Dynamic"
        assert int(row["stratum_videos"]) == 20 - missing
    assert {row["stratum"] for row in key} == {
        *("Low-Dynamic", "High-Dynamic", "High-Dynamic, Multi-Scene", "no characteristic")
    }


def test_strata_too_small_for_a_video_are_pooled() -> None:
    several = [annotation(f"v{n:02}", TAGS[0 if n < 38 else n - 37]) for n in range(40)]
    sheet = sample_sheet(several, captions(several), videos=20)
    assert {stratum: size for (_, stratum), size in sheet.sizes.items()} == {
        "Low-Dynamic": 38,
        "High-Dynamic / High-Dynamic, Multi-Scene": 2,
    }
