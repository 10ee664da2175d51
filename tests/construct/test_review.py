import json
import re
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.world import typed, write_lines

REVIEW = ("annotate", "review", ".", "--annotators")


def listed(folder: Path, count: int) -> None:
    rows = [
        {"index": f"v{n:02}", "video": f"v{n:02}.mp4", "keep": n % 10 > 0} for n in range(count)
    ]
    write_lines(folder / "videos.jsonl", rows)


def pages(folder: Path) -> dict[str, list[str]]:
    found = {}
    for file in sorted((folder / "review").iterdir()):
        (data,) = re.findall('id="data">(.*?)</script>', file.read_text(encoding="utf-8"))
        items: list[dict[str, Any]] = json.loads(data)["items"]
        assert all(file.stem.split("-")[0] in item["reviewers"] for item in items)
        found[file.stem] = [item["id"] for item in items]
    return found


def test_videos_are_shared_out_evenly(tmp_path: Path) -> None:
    listed(tmp_path, 100)
    done = typed(tmp_path, *REVIEW, "ann,bob,cat", "--overlap", "20%")
    assert done.out.startswith("90 videos, 18 of them for two annotators: ann 36, bob 36, cat 36\n")
    found = pages(tmp_path)
    assert {name: len(videos) for name, videos in found.items()} == {
        f"{name}-{n}": size for name in ("ann", "bob", "cat") for n, size in ((1, 25), (2, 11))
    }
    of = {who: {*found[f"{who}-1"], *found[f"{who}-2"]} for who in ("ann", "bob", "cat")}
    counts = Counter(video for videos in of.values() for video in videos)
    assert Counter(counts.values()) == {1: 72, 2: 18}
    assert {"v00", "v10"}.isdisjoint(counts)
    # All pairs of annotators can be compared.
    assert all(of[one] & of[other] for one, other in combinations(of, 2))


def test_no_page_is_replaced_by_another(tmp_path: Path) -> None:
    listed(tmp_path, 20)
    assert typed(tmp_path, *REVIEW, "ann,bob").code == 0
    before = {file: file.read_bytes() for file in (tmp_path / "review").iterdir()}
    assert typed(tmp_path, *REVIEW, "ann,bob").code == 0
    done = typed(tmp_path, *REVIEW, "ann,bob", "--overlap", "50%")
    assert "review/ann-1.html has other contents" in done.refusal
    assert {file: file.read_bytes() for file in (tmp_path / "review").iterdir()} == before


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ((), "name the annotators with --annotators ann,bob"),
        (("--annotators", "a/b"), "a/b cannot be part of a file name"),
        (("--differences", "ann.json"), "--differences: needs two annotators, not ann"),
        (("--differences", "draft.json"), 'index "v": has no annotator'),
        (("--differences", "odd.json"), "events.1.visual_elements.1.weight"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, options: tuple[str, ...], error: str) -> None:
    listed(tmp_path, 2)
    element = {"content": "A man runs.", "type": "action", "weight": 7, "source": "m"}
    odd = [{"event": "A man.", "visual_elements": [element]}]
    ann = {"annotator": "ann", "exported": "2026-10-05"}
    for name, more in (("ann", ann), ("draft", {}), ("odd", {"events": odd})):
        (tmp_path / f"{name}.json").write_text(json.dumps([{"index": "v", "video": "v", **more}]))
    assert error in typed(tmp_path, "annotate", "review", ".", *options).refusal
    assert not (tmp_path / "review").exists()


def test_a_name_in_an_export_never_leads_out_of_the_folder(tmp_path: Path) -> None:
    listed(tmp_path, 2)
    element = {"content": "A man runs.", "type": "action", "weight": 3, "source": "m"}
    events = [{"event": "A man.", "visual_elements": [element | {"confirmed_by": ["x"]}]}]
    draft = {"index": "v01", "video": "v01", "events": events, "exported": "2026-10-05"}
    draft["visual_characteristic"] = ["Low-Dynamic"]
    for n, (name, domain) in enumerate({"x/../../y": "Foods", "bob": "Plants"}.items()):
        text = json.dumps([draft | {"annotator": name, "domain": domain}])
        (tmp_path / f"{n}.json").write_text(text)
    done = typed(tmp_path, "annotate", "review", ".", "--differences", "0.json,1.json")
    assert done.code == 0, done.err
    assert len([*(tmp_path / "review").iterdir()]) == 1
    assert not [*tmp_path.parent.glob("*.html")]
