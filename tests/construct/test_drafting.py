from pathlib import Path
from typing import Any

from capeval.construct.drafts import read_drafts
from capeval.language import segments
from tests.construct.chat_responder import answer, asking, fill, prompt_of
from tests.server import Act, LoopbackServer, completion
from tests.world import Said, write_lines

DRAFTS = Path("clips") / "drafts.jsonl"
MODEL = "some-model"
CAPTION = "A man walks in. The camera pans left over a lake."


DRAFT = ("annotate", "draft", "clips", "--judge", MODEL, "--captions")


async def draft(folder: Path, url: str, *more: str, captions: str = "captions.jsonl") -> Said:
    return await asking(folder, url, *DRAFT, captions, *more)


async def test_events_are_spans_of_the_caption(tmp_path: Path) -> None:
    fill(tmp_path, {"a": CAPTION, "b": " \n", "c": "A dog barks."}, model="captioner-1")
    with (tmp_path / "clips" / "videos.jsonl").open("a") as file:
        file.write('{"index": "d", "video": "d.mp4", "keep": true}\n')
    async with LoopbackServer(answer) as server:
        done = await draft(tmp_path, server.url)
        assert done.code == 0, done.err
        assert "2 videos drafted: 3 events, 6 elements" in done.out
        assert "2 videos without a caption or with an empty one, not drafted: b, d" in done.err
        assert server.calls == 3  # one tests the endpoint
        found = read_drafts(tmp_path / "clips")
        assert [*found] == ["a", "c"]
        one = found["a"]
        assert [event.event for event in one.events] == [t.strip() for t in segments(CAPTION)]
        assert one.drafted_by == ("captioner-1", MODEL)
        assert {element.source for element in one.elements} == {MODEL}
        assert (one.video, one.domain) == ("a.mp4", "Daily Life")
        assert one.visual_characteristic == ("Low-Dynamic", "Multi-Scene")
        await draft(tmp_path, server.url, "--limit", "1")
        assert server.calls == 3
    assert read_drafts(tmp_path / "clips") == found


async def test_a_run_is_named_and_captions_of_other_videos_are_refused(tmp_path: Path) -> None:
    fill(tmp_path, {"sub/x": CAPTION})
    run = tmp_path / "runs" / "vlm-7b"
    run.mkdir(parents=True)
    (tmp_path / "captions.jsonl").write_text('{"index": "z", "caption": "A cat."}', "utf-8")
    write_lines(run / "captions.jsonl", [{"index": "sub/x", "caption": CAPTION}])
    async with LoopbackServer(answer) as server:
        done = await draft(tmp_path, server.url)
        assert (done.code, server.calls) == (2, 0)
        assert done.lines == ["capeval: captions.jsonl: has no captions of these videos"]
        assert [one.name for one in (tmp_path / "clips").iterdir()] == ["videos.jsonl"]
        done = await draft(tmp_path, server.url, captions="vlm-7b")
    assert done.code == 0, done.err
    (found,) = read_drafts(tmp_path / "clips").values()
    assert (found.index, found.drafted_by) == ("sub/x", ("vlm-7b", MODEL))


async def test_only_a_new_draft_replaces_one_and_an_edited_one_is_kept(tmp_path: Path) -> None:
    names = "abcdef"
    fill(tmp_path, {name: f"A man holds {name}. Then he leaves." for name in names})
    file, other = tmp_path / DRAFTS, ("--judge", "other-model")

    def models() -> dict[str, str]:
        return {name: one.drafted_by[-1] for name, one in read_drafts(tmp_path / "clips").items()}

    def respond(request: dict[str, Any]) -> Act:
        failing = request["model"] == "other-model" and "holds c" in prompt_of(request)
        return completion("No.") if failing else answer(request)

    async with LoopbackServer(respond, models=(MODEL, "other-model")) as server:
        assert (await draft(tmp_path, server.url)).code == 0
        lines = file.read_text("utf-8").splitlines(True)
        lines[:2] = [line.replace("Daily Life", "Film") for line in lines[:2]]
        file.write_text("".join(lines), "utf-8")
        done = await draft(tmp_path, server.url, *other, "--limit", "1")
        assert (done.code, file.read_text("utf-8")) == (0, "".join(lines))
        assert "1 video from other inputs or another model (a) kept: edited by hand" in done.err

        done = await draft(tmp_path, server.url, *other, "--limit", "4")
        assert done.code == 3
        assert "2 videos from other inputs or another model (c, d) will be replaced" in done.err
        assert "drafts: c is undrafted" in done.out
        assert models() == dict.fromkeys(names, MODEL) | {"d": "other-model"}
        assert [one.domain for one in read_drafts(tmp_path / "clips").values()][:3] == [
            *("Film", "Film", "Daily Life")
        ]

        lines = file.read_text("utf-8").splitlines(True)
        file.write_text("".join([*lines[:1], *lines[2:]]), "utf-8")
        done = await draft(tmp_path, server.url, *other, "--limit", "2")
        assert done.code == 0, done.err
        assert models() == dict.fromkeys(names, MODEL) | dict.fromkeys("bd", "other-model")
