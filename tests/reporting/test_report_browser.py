import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from capeval.reporting.report_page import Strip, report_html
from capeval.schema import HumanLabel
from capeval.scoring.judged_run import JudgedRun
from capeval.show.numbers import percent
from tests.browser import CHROMIUM, Page, tab
from tests.reporting.making import ATTACK, ATTACKER, VIDEOS, judged, run
from tests.scoring.making import scored, verdict

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")

ROWS = "[...document.querySelectorAll('#body a.name')].map((a) => a.textContent)"
INDEXES = "found.map((video) => video.index)"
TITLE = "at('card').hidden ? null : at('card-title').textContent"
# One grey pixel.
PIXEL = "UklGRiQAAABXRUJQVlA4IBgAAABQAQCdASoBAAEADMDOJaQABHQAAAAAAAA="
HUMAN: dict[tuple[str, str | None], dict[str, dict[str, HumanLabel]]] = {
    ("V1", None): {"1.1": {ATTACK: "entailment"}, "1.2": {"Bo": "entailment"}},
    ("V2", None): {"1.1": {"Bo": "covered"}},
}
STRIPS: dict[str, Strip] = {"V1": [(0.5, PIXEL)], "V2": f"is broken {ATTACK}"}


def other() -> JudgedRun:
    return run(judged({"V1": "00 +0", "V2": "-+"}), name="other")


class Opened:
    def __init__(self, page: Page, folder: Path) -> None:
        self.page, self.file = page, folder / "report.html"
        self.ask, self.press, self.click = page.ask, page.press, page.click

    async def show(self, runs: dict[str, JudgedRun], address: str = "", **more: Any) -> None:
        self.file.write_text(report_html(runs, **more), encoding="utf-8")
        await self.open(address)

    async def open(self, address: str) -> None:
        # A page that differs in its hash alone would not be loaded anew.
        for url in ("about:blank", self.file.as_uri() + address):
            self.page._loaded.clear()
            await self.page.call("Page.navigate", url=url)
            await self.page._loaded.wait()

    async def each(self, selector: str, field: str = "textContent") -> list[Any]:
        script = f"[...document.querySelectorAll('{selector}')].map((one) => one.{field})"
        found: list[Any] = await self.ask(script)
        return found

    async def choose(self, name: str, value: str) -> None:
        await self.ask(
            f"form.elements.{name}.value = {json.dumps(value)};"
            f"form.elements.{name}.dispatchEvent(new Event('input')); 0"
        )

    async def search(self, text: str) -> list[str]:
        await self.ask("at('q').focus(); at('q').select(); 0")
        await self.press(*(text or ["Delete"]))
        found: list[str] = await self.ask(ROWS)
        return found

    async def settled(self) -> Any:
        """What the title of the open card is, once the address has been followed."""
        await self.ask("new Promise((done) => setTimeout(done, 60))")
        return await self.ask(TITLE)


@pytest.fixture
async def report(chromium: str, tmp_path: Path) -> AsyncIterator[Opened]:
    """One run, freshly opened; whatever a test does, nothing is asked for and nothing complains."""
    async with tab(chromium, tmp_path) as page:
        opened = Opened(page, tmp_path)
        await opened.show({"mine": run()}, human=HUMAN, strips=STRIPS)
        yield opened
        assert await page.ask("document.querySelectorAll('#card script, #body script').length") == 0


async def test_worst_come_first_with_the_numbers_of_the_scores(report: Opened) -> None:
    scores = run().scores.videos
    ranked = sorted(scores, key=lambda index: scores[index]["all"].f1)
    assert (await report.ask(INDEXES))[:4] == ranked
    cells = await report.ask(
        "[...document.querySelectorAll('#body tr')].map((tr) => "
        "[1, 2, 3].map((n) => tr.cells[n].textContent))"
    )
    assert cells[:4] == [
        [percent(getattr(scores[index]["all"], name)) for name in ("f1", "precision", "recall")]
        for index in ranked
    ]
    assert cells[4:] == [["–"] * 3] * 3
    for _ in range(2):
        await report.click("[data-sort=p]")
        assert set((await report.ask(INDEXES))[4:]) == {"unscored", "uncaptioned", "unjudged"}


async def test_search_finds_indexes_captions_and_elements(report: Opened) -> None:
    assert await report.search("v10") == ["V10"]
    assert await report.search("SOUP cooks") == ["V2"]
    assert await report.search("sleeps element 2") == ["V1"]
    assert await report.search("<img src=x") == [await report.ask("visible(videos[6].index)")]
    await report.press("Escape")
    assert len(await report.ask(ROWS)) == len(VIDEOS)
    assert await report.search("nowhere") == []
    assert "0 videos of 7" in await report.ask("at('count').textContent")


FILTERS = [
    ("kind", "High-Dynamic", {"V2", "V10"}),
    ("domain", "2", {"V1", "V10"}),
    ("only", "unscored", {"unscored"}),
    ("only", "uncaptioned", {"uncaptioned", "unjudged"}),
    ("only", "loose", {"V1", ATTACKER}),
    ("verdict", "c", {"V1", "V10", ATTACKER}),
    ("among", "disputed", {"V1"}),
    ("among", "unmatched", {ATTACKER}),
    ("type", "camera", {"V1", "V10", ATTACKER}),
    ("weight", "1", {"V1", "V10", "unscored", "uncaptioned", "unjudged"}),
]


async def test_filters_and_their_address(report: Opened) -> None:
    for control, value, found in FILTERS:
        await report.choose(control, value)
        assert set(await report.ask(INDEXES)) == found, (control, value)
        address = await report.ask("location.hash")
        await report.click("#filters [data-clear]")
        assert await report.ask("location.hash") == ""
        assert len(await report.ask(ROWS)) == len(VIDEOS)
        await report.ask(f"location.hash = {json.dumps(address)}; 0")
        await report.settled()
        assert set(await report.ask(INDEXES)) == found, address
        await report.click("#filters [data-clear]")


async def test_card_explains_the_score(report: Opened) -> None:
    await report.open("#video=V1")
    card = await report.ask("at('card').innerText")
    assert "P = entailed / (entailed + contradicted) = 3 / 6 = 50.0" in card
    assert "R = entailed / all = 3 / 9 = 33.3" in card
    assert "F1 = 2 × 3 / (6 + 9) = 40.0" in card
    elements = await report.ask(
        "[...document.querySelectorAll('.elements li')].map((li) => "
        "[li.dataset.element, li.querySelector('.verdict').textContent, "
        "li.querySelector('.meta').textContent])"
    )
    assert elements == [
        ["1.1", "✓ entailed", "1.1 · camera · weight 3"],
        ["1.2", "– lacking", "1.2 · scene · weight 2"],
        ["2.1", "✗ contradicted", "2.1 · action · weight 3"],
        ["2.2", "– lacking", "2.2 · attribute · weight 1"],
    ]
    pieces = await report.each(".piece")
    assert pieces == [
        "1 → event 1A cat sleeps.",
        "2 → event 2Then  a dog barks,",
        "3 matches no eventand birds sing.",
    ]
    assert await report.ask("document.querySelectorAll('.lines path').length") == 2
    assert "relation of 1.2 was missing: asked again" in card
    people = await report.each(".human")
    assert people[0].startswith("human: ✓ entailed (</script>")
    assert people[1] == "human: ✓ entailed (Bo) ≠ judge"
    assert await report.ask("document.querySelector('.strip img').naturalWidth") == 1


async def test_cards_of_what_is_not_scored_say_why(report: Opened) -> None:
    for index, why in (
        ("unscored", "Unscored: refused: </script>"),
        ("uncaptioned", "There is no caption of this video."),
        ("unjudged", "This caption has no verdict yet."),
    ):
        await report.open(f"#video={index}")
        card = await report.ask("at('card').innerText")
        assert card.count(why) == 1
        assert "F1" not in card
        assert "No caption" not in card
        assert "NaN" not in card


async def test_markup_and_script_in_any_text_stay_text(report: Opened) -> None:
    names = {ATTACK: run(), "other": other()}
    await report.show(names, human=HUMAN, strips=STRIPS)
    for video in VIDEOS:
        await report.ask(f"go({{ video: videos[{VIDEOS.index(video)}].index }})")
        assert await report.settled() is not None
    card = await report.ask("at('card').textContent")
    seen = await report.ask(f"visible({ATTACK!r})".replace("\\x00", "\\u0000"))
    assert (seen.count("␀"), seen.count("↵")) == (1, 2)
    assert not set("\0\u2028\u2029") & set(card)
    assert card.count("<img src=x onerror='window.broken = 2'>") > 5
    assert seen in card
    assert await report.ask("document.querySelectorAll('img').length") == 0
    assert await report.ask("[...document.links].every((a) => a.protocol === 'file:')")


async def test_two_runs_stand_side_by_side(report: Opened) -> None:
    await report.show({"mine": run(), "other": other()}, address="#among=differ&sort=gap&video=V1")
    assert await report.ask(INDEXES) == ["V2", "V1"]
    verdicts = await report.each(".elements .by", "innerText")
    assert verdicts[0].split("\n") == ["A ✓ entailed", "B – lacking"]
    differ = await report.each("li.differ", "dataset.element")
    assert differ == ["1.1", "2.1"]
    assert (await report.each(".matching > *", "className"))[:3] == [
        "caption",
        "reference",
        "caption",
    ]
    await report.press("Escape")
    await report.settled()
    gaps = await report.each("#body tr", "cells[3].textContent")
    one, two = run().scores.videos, other().scores.videos
    expected = [two[v]["all"].f1 - one[v]["all"].f1 for v in ("V2", "V1")]
    assert gaps == [f"{'+' if d > 0 else '−'}{percent(abs(d))}" for d in expected]


async def test_votes_of_repeats_and_reasons_are_shown(report: Opened) -> None:
    why = (("It is told.", f"So is this {ATTACK}"),)
    repeats = tuple(map(verdict, ("++", "+-", "++")))
    repeated = scored("V2", "++", repeats=repeats, explanations=why)
    await report.show({"mine": run([repeated])}, "#among=unsteady&video=V2")
    assert await report.ask("found.length") == 1
    element = await report.ask("document.querySelectorAll('.elements li')[1].textContent")
    assert "votes ✓ ✗ ✓ (not unanimous)" in element
    assert (await report.each(".why"))[1].startswith("reason: So is this </script><script>")
    assert "those of the first of 3 repeats" in await report.ask("at('card').innerText")
