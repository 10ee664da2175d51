"""`capeval inspect --raw`: what a judge at a real endpoint said itself, found in the cache."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from capeval.files.packaged import packaged
from tests.cli.conftest import Endpoint, Workspace, start_server, stop_server
from tests.typed import Said, Typed

REFUSED = "not accepted, and asked again"


@pytest.fixture(scope="module")
def flaky(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """A judge whose reply is malformed at first for one prompt in three."""
    server = start_server(tmp_path_factory.mktemp("flaky"), "flaky")
    yield server
    stop_server(server)


class Bench:
    """A workspace, and `capeval inspect` typed in it."""

    def __init__(self, work: Workspace, typed: Typed) -> None:
        self.work, self._typed = work, typed

    def inspect(self, *arguments: str) -> Said:
        said = self._typed("inspect", *arguments, "--raw")
        assert (said.code, said.err) == (0, ""), said
        return said

    def notices(self, index: str, *arguments: str) -> list[str]:
        (card,) = self.inspect(index, "--json", *arguments).json.values()
        assert card["raw"]["replies"] == []
        notices: list[str] = card["raw"]["notices"]
        return notices


@pytest.fixture
def bench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Bench:
    work = Workspace(tmp_path / "work", "")
    work.fill(12)
    monkeypatch.chdir(work.folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(work.cache))
    return Bench(work, Typed(monkeypatch, capsys))


def test_every_reply_is_shown_also_the_refused(bench: Bench, flaky: Endpoint) -> None:
    bench.work.url = flaky.url
    assert bench.work.judge("--repeats", "2", "--quiet").code == 0
    stored = bench.work.judgments()
    index = next(
        index for index, one in stored.items() if any("asked again" in n for n in one["notes"])
    )
    calls, requests = flaky.requests(), flaky.log.read_text(encoding="utf-8")
    (card,) = bench.inspect(index, "--json").json.values()
    replies, notices = card["raw"]["replies"], card["raw"]["notices"]
    assert flaky.requests() == calls, "nothing is asked"
    assert notices == []

    taken = [(one["repeat"], one["stage"]) for one in replies if one["complaint"] is None]
    assert taken == [(n, stage) for n in (1, 2) for stage in ("split", "match", "classify")]
    assert {one["state"] for one in replies if one["complaint"] is None} == {"validated"}
    refused = [one for one in replies if one["complaint"] is not None]
    assert refused
    assert {one["state"] for one in refused} == {"refused"}
    # What is shown is what the model was shown of its own replies, word for word.
    asked = [json.loads(line)["messages"] for line in requests.splitlines()]
    for one in refused:
        told = [one["text"] or "(empty reply)", one["complaint"]]
        assert any([m["content"] for m in messages[1:3]] == told for messages in asked) or (
            one["attempt"] > 1
        )
    # And what was taken makes the verdicts that are stored.
    split, match = (
        json.loads(one["text"])
        for one in replies
        if one["complaint"] is None and one["repeat"] == 1 and one["stage"] in ("split", "match")
    )
    assert len(split["starts"]) == len(stored[index]["candidate_events"])
    assert [reference for _, reference in match["matches"]] == stored[index]["matches"]

    text = bench.inspect(index).out
    assert text.count(REFUSED) == len(refused)
    assert text.count(": accepted") == 6
    assert text.count("    complaint: ") == len(refused)
    assert "repeat 2, classify" in text


def test_a_conversation_that_came_to_nothing_is_shown(bench: Bench, endpoint: Endpoint) -> None:
    bench.work.url = endpoint.url
    endpoint.mood(prose=["unit003"])
    assert bench.work.judge("--only", "V003,V004", "--quiet").code == 3
    (card,) = bench.inspect("V003", "--json").json.values()
    replies = card["raw"]["replies"]
    assert [(one["stage"], one["attempt"], one["state"]) for one in replies] == [
        ("split", attempt, "exhausted") for attempt in (1, 2, 3)
    ]
    assert {one["text"] for one in replies} == {"I would rather talk about the weather."}
    assert card["raw"]["notices"] == []
    assert card["reason"] == f"split: {replies[-1]['complaint']}"
    text = bench.inspect("V003").out
    assert text.count("I would rather talk about the weather.") == 3
    assert text.count("not accepted, and the caption left out") == 3


def test_what_is_not_in_the_cache_is_said(bench: Bench, endpoint: Endpoint) -> None:
    bench.work.url = endpoint.url
    bench.work.judge("--only", "V000,V001", "--quiet")
    calls = endpoint.requests()
    assert bench.work.run("cache", "clear", "--yes").code == 0
    (notice,) = bench.notices("V000")
    assert notice.startswith("split: this reply and those after it are not in the cache")
    assert "split: this reply and those after it are not in the cache" in bench.inspect("V000").out
    shutil.rmtree(bench.work.cache)
    (notice,) = bench.notices("V000")
    assert notice.startswith("split: this reply and those after it are not in the cache")
    assert not bench.work.cache.exists(), "looking makes no cache"
    assert endpoint.requests() == calls


def test_an_endpoint_that_gave_no_reply_left_none(bench: Bench, endpoint: Endpoint) -> None:
    bench.work.url = endpoint.url
    endpoint.mood(filter=["unit003"])
    assert bench.work.judge("--only", "V003,V004", "--quiet").code == 3
    assert bench.notices("V003") == ["split: no reply is in the cache"]


def test_prompts_must_be_those_that_were_used(bench: Bench, endpoint: Endpoint) -> None:
    bench.work.url = endpoint.url
    own = bench.work.folder / "own"
    shutil.copytree(packaged("prompts") / "tuna-cap-v1", own)
    with (own / "split.txt").open("a") as file:
        file.write("\nBe brief.\n")
    judged = bench.work.judge("--prompts", "./own", "--only", "V000", "--quiet")
    assert judged.code == 0, judged.err
    (card,) = bench.inspect("V000", "--json").json.values()
    assert len(card["raw"]["replies"]) == 3
    label = card["provenance"]["prompts"]

    own.rename(bench.work.folder / "moved")
    (notice,) = bench.notices("V000")
    assert notice.startswith(f"it was judged with the prompts {label}, which are not available")
    assert "name their folder with --prompts" in notice
    (card,) = bench.inspect("V000", "--json", "--prompts", "./moved").json.values()
    assert len(card["raw"]["replies"]) == 3

    with (bench.work.folder / "moved" / "split.txt").open("a") as file:
        file.write("\nBe briefer.\n")
    (notice,) = bench.notices("V000", "--prompts", "./moved")
    assert notice.startswith(
        f"it was judged with the prompts {label}, which are not available (found moved@"
    )


def test_another_caption_or_annotation_has_other_replies(bench: Bench, endpoint: Endpoint) -> None:
    bench.work.url = endpoint.url
    bench.work.judge("--only", "V000", "--quiet")
    captions = bench.work.judged.parent / "captions.jsonl"
    before = captions.read_text()
    captions.write_text(before.replace("A dog unit000", "A cat unit000"))
    assert bench.notices("V000")[0].startswith("the caption has changed since it was judged")
    captions.write_text(before)
    text = Path("annotations.json").read_text()
    Path("annotations.json").write_text(text.replace("A runner walks.", "A runner runs."))
    assert bench.notices("V000")[0].startswith("the annotation has changed since")


@pytest.mark.parametrize(
    ("line", "notice"),
    [
        ({"provenance": {"judge": "lexical-1", "prompts": None}}, "lexical-1 follows rules"),
        ({"inputs": None}, "its verdicts come from another program"),
        (
            {"provenance": {"judge": "m", "prompts": "../../etc@abc"}},
            "its judgment does not name an endp",
        ),
        (
            {"provenance": {"judge": "m", "prompts": "../own@abc", "base_url": "http://x/v1"}},
            "it was judged with the prompts ../own@abc, which are not available",
        ),
        (
            {"provenance": {"judge": "m", "prompts": "abc", "base_url": "http://x/v1"}},
            "it was judged with the prompts abc, which are not available",
        ),
    ],
)
def test_judgments_without_replies_say_why(
    bench: Bench, line: dict[str, object], notice: str
) -> None:
    folder = Path("runs/captions/some")
    folder.mkdir(parents=True)
    (folder.parent / "captions.jsonl").write_bytes(Path("captions.jsonl").read_bytes())
    judgment = {
        "index": "V000",
        "status": "scored",
        "candidate_events": [],
        "matches": [],
        "relations": [["lack"] * 3, ["lack"] * 2, ["lack"] * 2],
        "inputs": {"judge": "a", "caption": "b", "reference": "c"},
    }
    (folder / "judgments.jsonl").write_text(json.dumps(judgment | line) + "\n")
    (told,) = bench.notices("V000", "--annotations", "annotations.json")
    assert told.startswith(notice)
    assert bench.notices("V001", "--annotations", "annotations.json") == [
        "this video is not judged"
    ]


def test_an_empty_caption_was_never_asked_about(bench: Bench, endpoint: Endpoint) -> None:
    bench.work.url = endpoint.url
    bench.work.write("captions.jsonl", '{"index": "V000", "caption": " "}\n')
    assert bench.work.judge("--quiet").code == 0
    assert bench.notices("V000") == ["its caption is empty, so the model was not asked"]
