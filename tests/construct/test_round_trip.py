"""From a folder of videos to a judged run: filtered, drafted, reviewed, merged, judged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from capeval.construct.annotator_exports import read_exports
from capeval.files.packaged import sample_folder
from tests.browser import CHROMIUM, tab
from tests.construct.chat_responder import answer
from tests.construct.test_review_pages import exported
from tests.server import LoopbackServer
from tests.world import capeval, typed


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
async def test_the_sample_becomes_a_benchmark(chromium: str, tmp_path: Path) -> None:
    names = ("sample_01", "sample_02", "sample_03")
    (tmp_path / "clips").mkdir()
    for name in names:
        shutil.copy(sample_folder() / "videos" / f"{name}.mp4", tmp_path / "clips")
    shutil.copy(sample_folder() / "captions" / "thorough.jsonl", tmp_path / "ours.jsonl")

    done = typed(tmp_path, "annotate", "filter", "clips", "--min-side", "270")
    assert done.out.startswith("3 of 3 videos kept")
    async with LoopbackServer(answer) as server:
        model = ("--judge", "some-model", "--base-url", server.url)
        drafted = await capeval(
            *(tmp_path, "annotate", "draft", "clips", "--captions", "ours.jsonl", *model),
            OPENAI_API_KEY="sk-test-1",
        )
    assert drafted.code == 0, drafted.err

    assert typed(tmp_path, "annotate", "review", "clips", "--annotators", "ann").code == 0
    async with tab(chromium, tmp_path) as page:
        await page.open(tmp_path / "clips" / "review" / "ann-1.html")
        await page.ask("ready")
        for _ in names[1:]:
            await page.press("a", "n")
        await page.press("a")
        file = await exported(page, tmp_path / "ann-1.json")
    assert [one.open for _, one in read_exports([file])] == [[], [], []]

    merged = typed(tmp_path, "annotate", "merge", "clips", "ann-1.json")
    assert merged.out.startswith("3 of 3 videos merged, 0 open")
    made = tmp_path / "clips" / "annotations.json"
    first = json.loads(made.read_text("utf-8"))[0]
    element = first["events"][0]["visual_elements"][0]
    assert (element["source"], element["confirmed_by"]) == ("some-model", ["ann"])
    assert typed(tmp_path, "check", str(made)).code == 0

    judged = await capeval(
        *(tmp_path, "judge", "ours.jsonl", "--annotations", str(made), "--judge", "lexical"),
        "--ignore-unknown",
    )
    assert judged.out.startswith("ours: F1")
    assert "may be too high" in judged.err
