import csv
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from capeval.rating.rate_merge import read_key, read_rated
from capeval.rating.rate_sheet import RatingSheet, key_csv, sample_sheet, sheet_html
from capeval.schema import Annotation
from tests.browser import CHROMIUM, Page, tab
from tests.rating.rating_examples import HOSTILE, annotation

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")

GIVEN = (
    "Object.fromEntries([...document.querySelectorAll('.element')].map((box) => "
    "[box.querySelector('.kind').textContent.split(' ')[0], "
    "box.querySelector('[aria-pressed=true]')?.dataset.label ?? null]))"
)
HERE = "document.activeElement.querySelector('.content')?.textContent"


def drawn() -> RatingSheet:
    hostile = annotation("<b>third</b>", sizes=(1,)).model_dump()
    hostile["events"][0]["event"] = HOSTILE
    hostile["events"][0]["visual_elements"][0]["content"] = HOSTILE
    annotations = [annotation("first"), annotation("second"), Annotation.model_validate(hostile)]
    captions = {"system": {a.index: f"{a.index}: {HOSTILE}" for a in annotations}}
    return sample_sheet(annotations, captions, videos=3)


@pytest.fixture
async def page(chromium: str, tmp_path: Path) -> AsyncIterator[Page]:
    """The sheet, freshly opened."""
    file = tmp_path / "sheet.html"
    file.write_text(sheet_html(drawn(), {}), encoding="utf-8")
    async with tab(chromium, tmp_path) as opened:
        await opened.open(file)
        await opened.ask("ready")
        yield opened


async def reload(page: Page) -> None:
    await page.reload()
    await page.ask("ready")


async def to_first_caption_of_three(page: Page) -> None:
    while await page.ask("boxes().length") != 3:
        await page.press("ArrowRight")


async def test_keys_rate_move_and_undo(page: Page) -> None:
    await to_first_caption_of_three(page)
    await page.press("1", "l", "3")
    given = {"1.1": "entailment", "1.2": "lack", "2.1": "contradiction"}
    assert await page.ask(GIVEN) == given
    assert "done" in await page.ask("at('status').textContent")
    await page.press("u")
    assert await page.ask(GIVEN) == given | {"2.1": None}
    await page.press("z", control=True)
    assert await page.ask(GIVEN) == given | {"1.2": None, "2.1": None}
    assert (await page.ask(HERE)).startswith("Element 1.2")
    await page.press("ArrowUp")
    assert (await page.ask(HERE)).startswith("Element 1.1")
    await page.press("Delete")
    assert set((await page.ask(GIVEN)).values()) == {None}
    await page.press("u")
    assert (await page.ask(GIVEN))["1.1"] == "entailment"
    # Filling the last gap leaves the next label alone.
    await page.press("ArrowDown", "ArrowDown", "3")
    assert (await page.ask(HERE)).startswith("Element 1.2")
    await page.press("2", "2")
    assert await page.ask(GIVEN) == given


async def test_keys_past_a_captions_end_change_nothing_until_a_move_is_made(page: Page) -> None:
    await to_first_caption_of_three(page)
    await page.press(*"123")
    given = await page.ask(GIVEN)
    for key in "12el":
        await page.press(key)
        assert await page.ask(GIVEN) == given
        assert "That key changed nothing" in await page.ask("at('status').textContent")
    assert await page.ask("state.undo.length") == 3
    await page.press("ArrowUp", "1")
    assert await page.ask(GIVEN) == given | {"1.2": "entailment"}
    await page.press("1")
    assert (await page.ask(GIVEN))["2.1"] == "entailment"
    await page.press("u", "2")
    assert (await page.ask(GIVEN))["2.1"] == "lack"


async def test_work_survives_a_reload(page: Page) -> None:
    assert await page.ask("localStorage.length") == 0
    await page.click("#rater")
    await page.press(*"Ann")
    await page.click("#title")
    await to_first_caption_of_three(page)
    await page.press("1", "c")
    before = await page.ask(GIVEN), await page.ask("at('title').textContent")
    await reload(page)
    assert (await page.ask(GIVEN), await page.ask("at('title').textContent")) == before
    assert await page.ask("at('rater').value") == "Ann"
    assert await page.ask("at('done').textContent") == "2 of 7 labels"
    await page.press("u")
    assert await page.ask("state.labels.size") == 1


async def test_export_is_what_was_given_and_no_spreadsheet_runs_a_name(
    page: Page, tmp_path: Path
) -> None:
    await page.click("#export")
    assert await page.ask("at('status').textContent") == "Enter your name first."
    await page.press(*'=Ann "A", x')
    await page.click("#title")
    for key in "1231":
        await page.press("n", key)
    file = await page.export(tmp_path / "*.csv")
    rows = list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8"))))
    kept = dict(await page.ask("[...state.labels]"))
    assert len(rows) == 7
    assert {row["rater"] for row in rows} == {'\'=Ann "A", x'}
    assert {f"{r['item_id']} {r['element_id']}": r["label"] for r in rows if r["label"]} == kept
    assert sorted(kept.values()) == ["contradiction", "entailment", "entailment", "lack"]
    (tmp_path / "key.csv").write_text(key_csv(drawn()), encoding="utf-8")
    read = read_rated(file, read_key(tmp_path / "key.csv"))
    assert {f"{item} e{element}": label for (item, element), label in read.labels.items()} == kept
    assert (len(read.missing), read.rater) == (3, '=Ann "A", x')


async def test_hostile_text_stays_text(page: Page) -> None:
    while "<b>third</b>" not in await page.ask("at('title').textContent"):
        await page.press("ArrowRight")
    assert await page.ask("at('caption').textContent") == f"<b>third</b>: {HOSTILE}"
    assert await page.ask("document.querySelector('.content').textContent") == HOSTILE
    assert await page.ask("document.querySelectorAll('img, b, #caption *, .content *').length") == 0
    assert await page.ask("document.scripts.length") == 2


async def test_labels_are_kept_whatever_happens_to_the_storage(page: Page) -> None:
    for damaged in ("{", "null", "[]"):
        await page.ask(f"localStorage.setItem(KEY, {damaged!r})")
        await reload(page)
        assert await page.ask("state.labels.size") == 0
        assert "cannot be read" in await page.ask("at('status').textContent")
        assert await page.ask("localStorage.getItem(KEY + ' unreadable')") == damaged
    await page.press("1")
    for gone in ("localStorage.clear()", "localStorage.setItem(KEY, '{broken')"):
        await page.ask(gone)
        await page.ask("dispatchEvent(new StorageEvent('storage', {key: null}))")
        assert await page.ask("state.labels.size") == 1
        assert await page.ask("JSON.parse(localStorage.getItem(KEY)).labels.length") == 1
    # Another tab's work is shown.
    kept = await page.ask("localStorage.getItem(KEY)")
    await page.press("u")
    await page.ask(f"localStorage.setItem(KEY, {json.dumps(kept)})")
    await page.ask("dispatchEvent(new StorageEvent('storage', {key: KEY}))")
    assert "entailment" in (await page.ask(GIVEN)).values()
    # Removing all is asked about.
    await page.click("#clear")
    await page.click("#keep")
    assert await page.ask("state.labels.size") == 1
    await page.click("#clear")
    await page.click("#remove")
    await reload(page)
    assert await page.ask("state.labels.size") == 0
    assert not await page.ask("at('unsaved').checkVisibility()")
    await page.ask("Storage.prototype.setItem = () => { throw new Error('full'); }")
    await page.press("1")
    assert await page.ask("at('unsaved').checkVisibility()")
    await page.ask("delete Storage.prototype.setItem; stored = true; 0")
