"""The review pages in a real browser, from the command that writes them to the file they export."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from capeval.construct.annotator_exports import read_exports
from capeval.construct.drafts import Draft
from capeval.mcq.question_files import load_questions
from tests.browser import CHROMIUM, Page, tab
from tests.rating.rating_examples import HOSTILE
from tests.video.clips import make_clip
from tests.world import typed, write_lines

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")

STATUS = "at('status').textContent"
HERE = "document.activeElement.querySelector('.content')?.textContent"
TEXTS = "[...document.querySelectorAll('.content')].map((one) => one.textContent)"

Opened = Callable[[str], AbstractAsyncContextManager[Page]]


@pytest.fixture
def opened(chromium: str, tmp_path: Path) -> Opened:
    """Opens a page of the folder's `review`."""

    @asynccontextmanager
    async def opening(name: str) -> AsyncIterator[Page]:
        async with tab(chromium, tmp_path) as page:
            await page.open(tmp_path / "review" / f"{name}.html")
            await page.ask("ready")
            yield page

    return opening


def element(content: str, kind: str = "action", weight: int = 2, **more: Any) -> dict[str, Any]:
    return {"content": content, "type": kind, "weight": weight, "source": "m", **more}


def draft(events: list[tuple[str, list[dict[str, Any]]]], **more: Any) -> dict[str, Any]:
    made = [{"event": event, "visual_elements": elements} for event, elements in events]
    held = {"visual_characteristic": ["Low-Dynamic"], "domain": "Film", "drafted_by": ["m"]}
    return {"index": "clip", "video": "clip.mp4", "events": made, **held, **more}


def small(**more: Any) -> dict[str, Any]:
    run, tall, rain = element("A man runs."), element("He is tall."), element("It rains.")
    return draft([("A man.", [run, tall]), ("Rain.", [rain])], **more)


def write_pages(folder: Path, *drafts: dict[str, Any]) -> None:
    videos = ({"index": one["index"], "video": one["video"], "keep": True} for one in drafts)
    write_lines(folder / "videos.jsonl", videos)
    write_lines(folder / "drafts.jsonl", drafts)
    done = typed(folder, "annotate", "review", ".", "--annotators", "ann")
    assert "capeval annotate merge . FILES" in done.out, done.err


async def reviewed(page: Page, file: Path) -> Draft:
    (found,) = read_exports([await page.export(file)])
    return found


async def write(page: Page, text: str, *, over: bool = False) -> None:
    if over:
        await page.press("a", control=True)
    await page.call("Input.insertText", text=text)
    await page.press("Enter")


async def to(page: Page, content: str) -> None:
    for key in ("ArrowUp", "ArrowDown"):
        for _ in range(await page.ask("boxes().length") + 1):
            if await page.ask(HERE) == content:
                return
            await page.press(key)
    raise AssertionError(content)


async def test_a_faulty_draft_is_corrected(opened: Opened, tmp_path: Path) -> None:
    walks, tall, barks = element("He walks."), element("He is tall."), element("It barks.")
    write_pages(tmp_path, draft([("A man and a dog.", [walks, tall, barks])], domain=None))
    async with opened("ann-1") as page:
        await to(page, "It barks.")
        await page.press("s")
        await write(page, "A dog barks.")
        await to(page, "A man and a dog.")
        await page.press("Enter")
        await write(page, "A man walks.", over=True)
        await to(page, "He is tall.")
        await page.press("Enter")
        await write(page, "He is short.", over=True)
        await page.press("d")
        await page.call("Input.insertText", text="Film")
        # From Low-Dynamic to all three others.
        await page.press("Escape", "h", " ", "Tab", " ", "Tab", " ", "Tab", " ", "Escape")
        assert "3 unconfirmed elements" in await page.ask("at('todo').textContent")
        await page.press("a")
        assert "All videos are done" in await page.ask(STATUS)
        found = await reviewed(page, tmp_path / "ann-1.json")
    assert (found.open, found.domain) == ([], "Film")
    assert found.visual_characteristic == ("High-Dynamic", "Multi-Scene", "Multi-Subject")
    assert [one.event for one in found.events] == ["A man walks.", "A dog barks."]
    sources = {one.content: one.source for one in found.elements}
    assert sources == {"He walks.": "m", "He is short.": "ann", "It barks.": "m"}
    assert {one.confirmed_by for one in found.elements} == {("ann",)}


async def test_a_blank_page_is_filled_by_keyboard(opened: Opened, tmp_path: Path) -> None:
    make_clip(tmp_path / "clip.mp4", 5)
    assert typed(tmp_path, "annotate", "filter", ".", "--min-side", "1").code == 0
    rows = (tmp_path / "videos.jsonl").read_text().replace('"keep": false', '"keep": true')
    (tmp_path / "videos.jsonl").write_text(rows)
    assert typed(tmp_path, "annotate", "review", ".", "--annotators", "ann").code == 0
    async with opened("ann-1") as page:
        await page.press("i")
        assert "press E" in await page.ask(STATUS)
        await page.press("e")
        await write(page, "A man runs.")
        await page.press("i")
        await write(page, "The man runs.")
        await page.press("1", "6", "i")
        await write(page, "  ")
        assert "nothing was changed" in await page.ask(STATUS)
        await page.press("i")
        await write(page, "The man is tall.")
        await page.press("ArrowUp", "c", "7", "o")
        await page.call("Input.insertText", text="Too dark.")
        await page.press("Escape", "c")
        found = await reviewed(page, tmp_path / "ann-1.json")
    assert found.events[0].event == "A man runs."
    assert [one.claim for one in found.elements] == [
        ("The man runs.", "action", 1),
        ("The man is tall.", "attribute", 1),
    ]
    assert (found.comment, found.open[-1]) == ("Too dark.", "no domain")
    assert (found.reviewers, found.exported[-1]) == (("ann",), "Z")


async def test_a_change_takes_away_what_others_confirmed(opened: Opened, tmp_path: Path) -> None:
    elements = [element(f"Man {n} runs.", confirmed_by=["bob", "ann"]) for n in range(3)]
    write_pages(tmp_path, draft([("Men run.", elements)]))
    async with opened("ann-1") as page:
        await page.press("ArrowDown", "3", "ArrowDown", "Enter")
        await write(page, "Man 1 walks.", over=True)
        await page.press("ArrowDown", "2", "Enter", "x", "Escape")
        found = await reviewed(page, tmp_path / "ann-1.json")
    assert [(one.source, one.confirmed_by) for one in found.elements] == [
        ("m", ("ann",)),
        ("ann", ("ann",)),
        ("m", ("bob", "ann")),
    ]


async def test_every_step_is_undone_and_work_survives_a_reload(
    opened: Opened, tmp_path: Path
) -> None:
    write_pages(tmp_path, small(), small(index="other"))
    async with opened("ann-1") as page:
        states = [await page.ask("JSON.stringify(state.values)")]
        await to(page, "It rains.")

        async def after(*keys: str, alt: bool = False) -> None:
            await page.press(*keys, alt=alt)
            states.append(await page.ask("JSON.stringify(state.values)"))
            assert states[-1] != states[-2]

        await after("c")
        await after("ArrowUp", alt=True)
        rows = ["A man.", "A man runs.", "He is tall.", "It rains.", "Rain."]
        assert await page.ask(TEXTS) == rows
        await after("m")
        assert (await page.ask(TEXTS))[2] == "He is tall. It rains."
        await page.press("ArrowDown")
        await after("m")
        assert await page.ask("document.querySelectorAll('.event').length") == 1
        await after("Delete")
        await page.press("ArrowRight")
        await after("a")
        await page.reload()
        await page.ask("ready")
        assert await page.ask("JSON.stringify(state.values)") == states[-1]
        assert "other" in await page.ask("at('title').textContent")
        for state in reversed(states[:-1]):
            await page.press("z", control=True)
            assert await page.ask("JSON.stringify(state.values)") == state
        await page.press("u")
        assert await page.ask(STATUS) == "There is nothing to undo."


async def test_a_frame_step_records_the_time_of_a_frame(opened: Opened, tmp_path: Path) -> None:
    times = [0, 100, 130, 300, 340, 500, 700]
    make_clip(tmp_path / "clip.mp4", len(times), times_ms=times)
    write_pages(tmp_path, small())
    async with opened("ann-1") as page:

        async def arrive(ms: int) -> None:
            for _ in range(200):
                shown = await page.ask("film().seeking || stepping ? null : frame")
                if shown is not None and round(shown * 1000) == ms:
                    return
                await asyncio.sleep(0.02)
            raise AssertionError((ms, shown))

        await arrive(0)
        for ms in times[1:5]:
            await page.press(".")
            await arrive(ms)
        for ms in (300, 130):
            await page.press(",")
            await arrive(ms)
        await page.press("ArrowDown", "f", ".")
        await arrive(300)
        await page.press("g")
        await arrive(130)
        found = await reviewed(page, tmp_path / "ann-1.json")
    assert [event.start for event in found.events] == [pytest.approx(0.13, abs=1e-3), None]


async def test_hostile_text_stays_text_and_fits_a_phone(opened: Opened, tmp_path: Path) -> None:
    hostile = element(HOSTILE, source="<img src=x>", confirmed_by=["<b>bob</b>"])
    write_pages(tmp_path, draft([(HOSTILE, [hostile])], domain=HOSTILE, comment=HOSTILE))
    question = {"id": "<b>", "video": "<b>", "question": HOSTILE, "options": [HOSTILE, "b"]}
    write_lines(tmp_path / "q.jsonl", [question | {"answer": "A", "task_type": HOSTILE}])
    typed(tmp_path, "mcq", "construct", "review", "q.jsonl", "--reviewers", "ann")
    for name in ("ann-1", "q-ann-1"):
        async with opened(name) as page:
            await page.press("ArrowDown", "Enter")
            await write(page, HOSTILE)
            assert HOSTILE in await page.ask(TEXTS)
            assert await page.ask("document.querySelectorAll('img, b, .content *').length") == 0
            assert await page.ask("document.scripts.length") == 2
            for width in (320, 1280):
                size = {"width": width, "height": 800, "deviceScaleFactor": 1}
                is_phone = width < 600
                await page.call("Emulation.setDeviceMetricsOverride", **size, mobile=is_phone)
                assert not await page.ask("document.documentElement.scrollWidth > innerWidth")


async def test_only_what_differs_is_decided(opened: Opened, tmp_path: Path) -> None:
    def by(name: str, index: str, *elements: dict[str, Any], **more: Any) -> dict[str, Any]:
        signed = [one | {"confirmed_by": [name]} for one in elements]
        more |= {"index": index, "annotator": name, "exported": "2026-10-05"}
        return draft([("A man runs by.", signed)], **more)

    run, tall, dog = element("A man runs."), element("The man is tall."), element("A dog barks.")
    car = element("A red car stops.", source="bob")
    quick = element("A man runs quickly.", "action", 3, source="bob")
    ann = [by("ann", "same", run), by("ann", "clip", run, tall, dog, comment="Dark.")]
    bob = [by("bob", "same", run), by("bob", "clip", quick, car, tall, domain="Cooking")]
    for name, drafts in (("ann", ann), ("bob", bob)):
        (tmp_path / f"{name}.json").write_text(json.dumps(drafts))
    done = typed(tmp_path, "annotate", "review", ".", "--differences", "ann.json,bob.json")
    assert (done.code, done.out.splitlines()[0]) == (0, "1 video with differences")
    async with opened("differences-ann-bob") as page:
        # bob's car follows ann's version of what bob has before it.
        rows = ["A man runs by.", "A man runs.", "A red car stops.", "A dog barks."]
        assert await page.ask(TEXTS) == rows
        notes = "[...document.querySelectorAll('#notes li')].map((one) => one.textContent)"
        assert await page.ask(notes) == ["domain: Film (ann), Cooking (bob)", "ann: Dark."]
        assert "3 unconfirmed elements, domain" in await page.ask("at('todo').textContent")
        await page.press("ArrowDown", "x", "ArrowDown", "c", "Delete", "d")
        await page.call("Input.insertText", text="Film")
        found = await reviewed(page, tmp_path / "differences-ann-bob.json")
    assert (found.annotator, found.adjudicates) == ("ann+bob", ("ann", "bob"))
    assert (found.open, found.domain) == ([], "Film")
    assert [(one.content, one.source, one.confirmed_by) for one in found.elements] == [
        ("A man runs quickly.", "bob", ("ann+bob",)),
        ("A red car stops.", "bob", ("ann+bob",)),
        ("The man is tall.", "m", ("ann", "bob")),
    ]
    assert all(one.other is None for one in found.elements)


async def test_questions_are_kept_mended_or_dropped(opened: Opened, tmp_path: Path) -> None:
    options = ["A man runs.", "A man sits.", "It rains.", "It snows."]
    common = {"video": "clip.mp4", "options": options, "answer": "B"}
    common |= {"task_type": "Action Sequence", "findings": ["the longest option is right"]}
    lines = [{"id": f"q{n}", "question": f"What happens {n}?"} | common for n in range(5)]
    write_lines(tmp_path / "q.jsonl", lines)
    done = typed(tmp_path, "mcq", "construct", "review", "q.jsonl", "--reviewers", "ann")
    assert done.out.startswith("5 questions: ann 5\n")
    async with opened("q-ann-1") as page:
        assert "findings: the longest option is right" in await page.ask("at('notes').textContent")
        await page.press("k", "n", "x", "n", "4", "n", "ArrowDown", "Enter")
        await write(page, "A man walks.", over=True)
        await page.press("ArrowUp", "Enter")
        await write(page, "What is next?", over=True)
        assert await page.ask("at('done').textContent") == "4 of 5 questions done"
        found = load_questions(await page.export(tmp_path / "q-ann-1.jsonl"))
        assert "1 dropped, 1 not decided" in await page.ask(STATUS)
    assert [one.id for one in found] == ["q0", "q2", "q3"]
    assert [one.answer for one in found] == ["B", "D", "B"]
    assert (found[2].question, found[2].options[0]) == ("What is next?", "A man walks.")
    assert [one.tags.get("mended") for one in found] == [None, True, True]
    assert {one.tags["reviewed_by"] for one in found} == {"ann"}
    assert found[0].tags["task_type"] == "Action Sequence"
