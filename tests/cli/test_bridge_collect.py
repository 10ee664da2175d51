"""`capeval bridge collect`: random videos judged by both judges, resumed after a kill."""

from __future__ import annotations

import json
import random
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.errors import BudgetReached, InputError, UsageError
from capeval.files.packaged import packaged
from capeval.runs.stored_scores import load_scores
from capeval.schema import Annotation, Verdict
from tests.cli.conftest import Endpoint, Workspace, end_of, start_server, stop_server

NEW, OLD = "lexical-1", "judge-model@tuna-cap-v1"


def collecting(work: Workspace, *more: str, videos: int = 5) -> tuple[str, ...]:
    """Collect for the run of `fill`, which the lexical judge has judged."""
    base = ("bridge", "collect", "judge-model", "lexical", "captions", "--old-base-url", work.url)
    return (*base, "--videos", str(videos), *more)


@pytest.fixture
def judged(work: Workspace) -> Workspace:
    """Twelve videos, judged by the lexical judge."""
    arguments = ("judge", "captions.jsonl", "--annotations", "annotations.json")
    assert work.run(*arguments, "--judge", "lexical").code == 0
    return work


def drawn(work: Workspace, judge: str = OLD) -> dict[str, Any]:
    file = work.folder / "runs" / "captions" / judge / "anchors.json"
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def lines(work: Workspace, judge: str = OLD) -> list[dict[str, Any]]:
    file = work.folder / "runs" / "captions" / judge / "judgments.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_the_drawn_videos_are_judged_and_recorded(judged: Workspace) -> None:
    said = judged.run(*collecting(judged))
    assert said.code == 0, said.err
    found = drawn(judged)
    assert (found["n"], found["N"], found["seed"]) == (5, 12, 0)
    assert {one["index"] for one in lines(judged)} == {*found["indexes"]}
    assert len(lines(judged, NEW)) == 12
    assert not (judged.folder / "runs" / "captions" / NEW / "anchors.json").exists()
    assert said.out.startswith("10 of 10 drawn verdicts collected, 5 of them now")
    assert f"Next: capeval bridge {OLD} {NEW}" in said.err


def test_nothing_is_judged_before_both_judges_have_a_key(
    judged: Workspace, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    calls = endpoint.requests()
    said = judged.run(
        "bridge", "collect", "judge-model", "gpt-9", "captions", "--old-base-url", judged.url
    )
    assert said.code == 2
    last = said.err.splitlines()[-1]
    assert last.endswith("set OPENAI_API_KEY, or name a local server with --new-base-url")
    assert endpoint.requests() == calls
    assert not (judged.folder / "runs" / "captions" / OLD).exists()


def test_again_it_does_nothing_and_asks_nothing(judged: Workspace, endpoint: Endpoint) -> None:
    assert judged.run(*collecting(judged)).code == 0
    files = {p: p.read_bytes() for p in (judged.folder / "runs").rglob("*") if p.is_file()}
    calls = endpoint.requests()
    said = judged.run(*collecting(judged))
    assert said.code == 0
    assert "0 of them now" in said.out
    assert endpoint.requests() == calls
    assert files == {p: p.read_bytes() for p in (judged.folder / "runs").rglob("*") if p.is_file()}


def test_a_larger_sample_contains_the_smaller(judged: Workspace) -> None:
    assert judged.run(*collecting(judged)).code == 0
    few = drawn(judged)["indexes"]
    assert judged.run(*collecting(judged, videos=8)).code == 0
    assert drawn(judged)["indexes"][:5] == few
    assert len(lines(judged)) == 8
    # A smaller one keeps what there is.
    assert judged.run(*collecting(judged, videos=3)).code == 0
    assert drawn(judged)["n"] == 8


def test_a_dry_run_shows_the_cost_and_does_nothing(judged: Workspace, endpoint: Endpoint) -> None:
    said = judged.run(*collecting(judged, "--dry-run"))
    assert said.code == 0
    assert "5 of 5 drawn videos to judge; 12 captioned, seed 0" in said.out
    assert "15 calls" in said.out
    assert "no price is known for judge-model" in said.out
    assert "nothing was called" in said.out
    assert endpoint.requests() == 0
    assert not (judged.folder / "runs" / "captions" / OLD).exists()
    as_json = judged.run(*collecting(judged, "--dry-run", "--json")).json
    assert as_json["old"]["runs"]["captions"] == {
        "drawn": 5,
        "captioned": 12,
        "seed": 0,
        "to_judge": 5,
    }
    assert as_json["new"]["runs"]["captions"]["to_judge"] == 0


def test_the_new_judge_judges_what_it_has_not(work: Workspace) -> None:
    arguments = (*collecting(work)[:4], "captions.jsonl", *collecting(work)[5:])
    said = work.run(*arguments, "--annotations", "annotations.json")
    assert said.code == 0, said.err
    assert drawn(work) == drawn(work, NEW)
    assert len(lines(work, NEW)) == 5


def test_a_run_judged_in_full_keeps_its_place(judged: Workspace) -> None:
    done = judged.run("judge", "captions", "--judge", "judge-model", "--base-url", judged.url)
    assert done.code == 0
    said = judged.run(*collecting(judged))
    assert said.code == 0
    assert not (judged.folder / "runs" / "captions" / OLD / "anchors.json").exists()
    assert "judged by judge-model" in judged.run("score", "captions", "--judge", "judge-model").out


def test_a_sample_may_become_a_whole_run(judged: Workspace) -> None:
    assert judged.run(*collecting(judged)).code == 0
    before = judged.run("leaderboard")
    assert "1 random sample of videos for `capeval bridge` is not ranked" in before.err
    done = judged.run("judge", "captions", "--judge", "judge-model", "--base-url", judged.url)
    assert done.code == 0
    after = judged.run("leaderboard")
    assert "judged by snapshot-1" in after.out or "judge-model" in after.out
    assert "random sample" not in after.err


def test_a_drawn_caption_that_changed_is_judged_again(judged: Workspace) -> None:
    assert judged.run(*collecting(judged)).code == 0
    index = drawn(judged)["indexes"][0]
    file = judged.folder / "runs" / "captions" / "captions.jsonl"
    captions = [json.loads(line) for line in file.read_text().splitlines()]
    for one in captions:
        if one["index"] == index:
            one["caption"] = "The car is green."
    file.write_text("".join(json.dumps(one) + "\n" for one in captions))
    said = judged.run(*collecting(judged))
    assert said.code == 0, said
    assert "1 stored verdict outdated (another caption of this video was judged" in said.err
    assert said.out.startswith("10 of 10 drawn verdicts collected, 2 of them now")


@pytest.mark.parametrize("videos", [3, 5, 8])
def test_a_drawn_caption_that_is_gone_is_no_mistake_of_an_option(
    judged: Workspace, videos: int
) -> None:
    assert judged.run(*collecting(judged)).code == 0
    index = drawn(judged)["indexes"][0]
    file = judged.folder / "runs" / "captions" / "captions.jsonl"
    kept = [line for line in file.read_text().splitlines() if f'"{index}"' not in line]
    file.write_text("\n".join(kept) + "\n")
    said = judged.run(*collecting(judged, videos=videos))
    assert (said.code, len(said.err.splitlines())) == (2, 1)
    assert "its captions have changed since videos were drawn; delete anchors.json" in said.err


PRICE = '[prices."judge-model"]\ninput = 1000\noutput = 1000\n'


def test_a_cost_cap_stops_cleanly_and_counts_what_was_not_reached(judged: Workspace) -> None:
    judged.write("capeval.toml", PRICE)
    judged.write("other.jsonl", (judged.folder / "captions.jsonl").read_text())
    arguments = ("judge", "other.jsonl", "--annotations", "annotations.json", "--judge", "lexical")
    assert judged.run(*arguments).code == 0
    both = (*collecting(judged), "other")
    said = judged.run(*both, "--max-cost", "3", "--max-concurrency", "1")
    assert said.code == 3, said
    # What closes connections at the wrong time complains on stderr.
    assert "asyncgen" not in said.err
    assert "Unclosed" not in said.err
    assert "of 20 drawn verdicts collected" in said.out.splitlines()[0]
    assert ", $" in said.out.splitlines()[0]
    assert "other, judge-model@tuna-cap-v1: 0 of 5 drawn videos judged" in said.out
    assert "the cost cap of $3" in said.err
    assert judged.run(*both, "--yes").out.startswith("20 of 20 drawn verdicts collected")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--seed", "7"), "its videos were drawn with seed 0; add --seed 0"),
        (
            ("--repeats", "3"),
            "its judge was asked for 1 repeats; collect with --repeats 1",
        ),
        (("--old-prompts", "./own"), None),
    ],
)
def test_other_settings_are_refused_or_another_judge(
    judged: Workspace, more: tuple[str, ...], message: str | None
) -> None:
    own = judged.folder / "own"
    shutil.copytree(packaged("prompts") / "tuna-cap-v1", own)
    (own / "split.txt").write_text("Be brief.\n" + (own / "split.txt").read_text())
    assert judged.run(*collecting(judged)).code == 0
    before = lines(judged)
    said = judged.run(*collecting(judged, *more))
    assert lines(judged) == before
    if message is None:
        assert said.code == 0, said.err
        assert drawn(judged, "judge-model@own")["indexes"] == drawn(judged)["indexes"]
    else:
        assert said.code == 2
        assert message in said.err


def test_a_failure_leaves_the_video_for_another_time(judged: Workspace, endpoint: Endpoint) -> None:
    first = json.loads(judged.run(*collecting(judged, "--dry-run", "--json")).out)
    assert first["old"]["calls"] == 15
    order = _order(judged, 5)
    endpoint.mood(filter=[f"unit{int(order[0][1:]):03}"])
    said = judged.run(*collecting(judged))
    assert said.code == 3
    assert "is unscored" in said.err + said.out
    endpoint.mood()
    assert judged.run(*collecting(judged)).code == 0
    assert all(one["status"] == "scored" for one in lines(judged))


def _order(work: Workspace, n: int) -> list[str]:
    from capeval.runs.drawn_videos import drawing_order

    return drawing_order([f"V{number:03}" for number in range(12)], 0)[:n]


DAMAGED = {
    "no JSON": ("{", "broken JSON"),
    "list": ("[1]", "must be a JSON object"),
    "missing": ("{}", "seed: Field required"),
    "text": ('{"seed": "0", "n": 1, "N": 2, "indexes": ["a"]}', "Input should be a valid integer"),
    "wrong n": ('{"seed": 0, "n": 2, "N": 2, "indexes": ["a"]}', "n must be the number"),
    "repeated": ('{"seed": 0, "n": 2, "N": 2, "indexes": ["a", "a"]}', "n must be the number"),
    "not at random": (
        '{"drawn": "by hand", "seed": 0, "n": 1, "N": 2, "indexes": ["a"]}',
        "Input should be 'at random'",
    ),
    "unknown key": (
        '{"seed": 0, "n": 1, "N": 2, "indexes": ["a"], "x": 1}',
        "Extra inputs are not permitted",
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_record_is_one_line(judged: Workspace, name: str) -> None:
    assert judged.run(*collecting(judged)).code == 0
    text, message = DAMAGED[name]
    file = judged.folder / "runs" / "captions" / OLD / "anchors.json"
    file.write_text(text)
    for arguments in (collecting(judged), ("bridge", OLD, NEW, "captions")):
        said = judged.run(*arguments)
        assert said.code == 2
        assert len(said.lines) == 1
        assert "anchors.json" in said.err
        assert message in said.err


def test_names_are_checked_before_anything_is_called(judged: Workspace, endpoint: Endpoint) -> None:
    for arguments, message in (
        (("lexical", "lexical", "captions"), "OLD and NEW are both lexical-1; name two judges"),
        (
            ("judge-model", "lexical", "nothing", "--old-base-url", judged.url),
            "nothing: is neither a captions file nor a run",
        ),
    ):
        said = judged.run("bridge", "collect", *arguments)
        assert said.code == 2
        assert message in said.err
    assert endpoint.requests() == 0


class Lenient:
    """A judge that finds every element in every caption but the first ones' cameras."""

    name = "lenient-1"
    is_baseline = True

    def judge(self, annotation: Annotation, caption: str) -> Verdict:
        events = len(annotation.events)
        return Verdict(
            candidate_events=tuple(f"Event {n}" for n in range(events)),
            matches=tuple(range(1, events + 1)),
            relations=tuple(
                tuple(
                    "lack" if (len(caption) + len(e.content)) % 3 == 0 else "entailment"
                    for e in event.visual_elements
                )
                for event in annotation.events
            ),
        )


def test_judges_of_ones_own_are_bridged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    work = Workspace(tmp_path, "")
    work.fill(40)
    capeval.judge("captions.jsonl", "annotations.json", judge="lexical")
    found = capeval.bridge_collect(Lenient(), "lexical", "captions", videos=15)
    assert found.complete
    assert [(one.judge, one.judged, one.new) for one in found.runs] == [
        ("lenient-1", 15, 15),
        ("lexical-1", 15, 0),
    ]
    bridged = capeval.bridge("lenient", "lexical").runs["captions"]
    assert (bridged.method, bridged.anchored, bridged.overall.all.n) == ("own_anchor", 15, 40)
    assert bridged.signature.count("bridged:lenient-1<-lexical-1@") == 1
    assert any("fewer than 20" in line for line in bridged.warnings)
    file = Path("runs/captions/lexical-1")
    assert load_scores(file / "scores.json").bridged == bridged
    # Judged again with the same verdicts they stay, with others they go.
    capeval.judge("captions", judge="lexical")
    assert load_scores(file / "scores.json").bridged == bridged
    text = (file / "judgments.jsonl").read_text()
    (file / "judgments.jsonl").write_text(text.replace('"entailment"', '"lack"', 1))
    capeval.judge("captions", judge="lexical")
    assert load_scores(file / "scores.json").bridged is None
    # All the other videos judged too, the score is known.
    capeval.judge("captions", judge=Lenient())
    assert capeval.bridge("lenient", "lexical").whole == ("captions",)


def test_a_cost_cap_stops_it(judged: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    judged.write("capeval.toml", '[prices."judge-model"]\ninput = 100.0\noutput = 100.0\n')
    said = judged.run(*collecting(judged, "--max-cost", "0.01"))
    assert said.code == 3
    assert "Raise --max-cost and run the same command again" in said.out
    monkeypatch.chdir(judged.folder)
    with pytest.raises(BudgetReached):
        capeval.bridge_collect(
            "judge-model", "lexical", "captions", old_base_url=judged.url, videos=5, max_cost=0
        )
    assert judged.run(*collecting(judged, "--max-cost", "100")).code == 0
    assert len(lines(judged)) == 5


@pytest.mark.parametrize("name", ["", "a@b@c", "sample/../x"])
def test_hostile_names_end_in_one_line(judged: Workspace, name: str) -> None:
    said = judged.run("bridge", name, "lexical")
    assert (said.code, len(said.lines)) == (2, 1)
    monkey = (InputError, UsageError)
    with pytest.raises(monkey):
        capeval.bridge(name, "lexical", runs=judged.folder / "runs")


def test_killed_anywhere_it_goes_on(tmp_path: Path) -> None:
    server = start_server(tmp_path / "server", "answer", latency_ms=20)
    try:
        work = Workspace(tmp_path / "work", server.url)
        work.fill(40)
        arguments = ("judge", "captions.jsonl", "--annotations", "annotations.json")
        assert work.run(*arguments, "--judge", "lexical").code == 0
        rng, folder = random.Random(1), work.folder / "runs" / "captions" / OLD
        command = collecting(work, "--max-concurrency", "2", videos=20)
        kills = 0
        for _ in range(4):
            process = work.start(*command)
            assert process.stderr is not None
            for line in process.stderr:
                if "judging" in line:
                    break
            time.sleep(rng.uniform(0.0, 0.5))
            kills += process.poll() is None
            process.kill()
            process.communicate()
            # Verdicts without the record would be taken for an interrupted run.
            if (folder / "judgments.jsonl").exists():
                assert drawn(work)["n"] == 20
                assert work.run("bridge", "show", OLD, NEW).code in (0, 2)
        assert kills
        said = end_of(work.start(*command))
        assert said.code == 0, said.err
        assert sorted(one["index"] for one in lines(work)) == sorted(drawn(work)["indexes"])
        # Four processes were killed with at most three captions of three calls under way each.
        assert 60 <= server.calls() <= 60 + 4 * 9
    finally:
        stop_server(server)
