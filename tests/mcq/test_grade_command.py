"""`capeval mcq grade`: its run, its tables, and a chat model that reads replies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.errors import InputError, UsageError
from capeval.mcq.find_run import all_grades, find_grades, find_responses
from tests.cli_runs import environment
from tests.mcq.graded_runs import line, write
from tests.server import LoopbackServer, completion
from tests.typed import Said, here, typed

UNREAD = 12
PRICES = '[prices."reader"]\ninput = 3000\noutput = 3000\n'


def reply(_: dict[str, Any]) -> dict[str, Any]:
    return completion('{"choice": "C"}', model="reader", prompt_tokens=200)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[LoopbackServer]:
    lines = [line(n, f"The red ones, number {n}.") for n in range(UNREAD)]
    write(tmp_path / "r.jsonl", [*lines, line(99, "C")])
    (tmp_path / "capeval.toml").write_text(PRICES)
    async with LoopbackServer(reply, models=["reader"]) as running:
        yield running


async def grade(server: LoopbackServer, folder: Path, *more: str) -> Said:
    llm = ("--select", "exact+llm", "--llm", "reader", "--base-url", server.url)
    arguments = ("mcq", "grade", "r.jsonl", *llm, *more)
    return await asyncio.to_thread(typed, folder, *arguments, env=environment(folder))


async def test_cost_is_shown_before_and_nothing_is_called_without_consent(
    server: LoopbackServer, tmp_path: Path
) -> None:
    dry = await grade(server, tmp_path, "--dry-run")
    assert (dry.code, dry.err) == (0, "Reader of replies: reader\n")
    expected, replies = dry.out.splitlines()
    assert expected.startswith("Expected: at most 12 calls")
    assert expected.endswith("; nothing was called")
    assert replies == "12 replies that rules do not read, for reader"
    found = json.loads((await grade(server, tmp_path, "--dry-run", "--json")).out)
    assert (found["replies"], found["calls"]) == (12, 12)
    assert found["cost"] == (found["input_tokens"] + found["output_tokens"]) * 3000 / 1e6
    refused = await grade(server, tmp_path, "--out", "grades.json")
    assert refused.code == 2
    assert "add --yes or --max-cost" in refused.err
    assert not server.requests
    assert not (tmp_path / "grades.json").exists()


async def test_progress_and_cost_are_shown_and_nothing_is_paid_twice(
    server: LoopbackServer, tmp_path: Path
) -> None:
    first = await grade(server, tmp_path, "--yes", "--out", "grades.json")
    assert first.code == 0
    assert "reader: reading 12 answers" in first.err
    assert "tokens out" in first.out or " out, $" in first.out
    assert json.loads((tmp_path / "grades.json").read_text())["decided_by"]["model"] == UNREAD
    paid = len(server.requests)
    assert paid >= UNREAD
    again = await grade(server, tmp_path, "--yes")
    assert again.code == 0
    assert len(server.requests) == paid
    quiet = await grade(server, tmp_path, "--yes", "--json", "--quiet")
    assert json.loads(quiet.out)["counts"]["scored"] == UNREAD + 1
    assert quiet.err == ""


async def test_cost_cap_stops_and_a_higher_one_does_the_rest(
    server: LoopbackServer, tmp_path: Path
) -> None:
    whole = json.loads((await grade(server, tmp_path, "--dry-run", "--json")).out)["cost"]
    capped = await grade(server, tmp_path, "--max-cost", f"{whole / 3:.4f}")
    assert capped.code == 3
    assert "cost cap" in capped.err
    assert capped.out == ""
    some = len(server.requests)
    assert 0 < some < UNREAD
    assert (await grade(server, tmp_path, "--max-cost", "1000")).code == 0
    assert len(server.requests) - some < UNREAD


async def test_a_reply_that_is_not_read_ends_in_exit_3_and_is_read_the_next_time(
    server: LoopbackServer, tmp_path: Path
) -> None:
    def odd(body: dict[str, Any]) -> dict[str, Any]:
        prompt = str(body["messages"])
        return completion("No idea.", model="reader") if "number 3." in prompt else reply(body)

    server.responder = odd
    first = await grade(server, tmp_path, "--yes")
    assert first.code == 3
    assert "grades: 1 reply not read" in first.out
    assert "Run the same command again to retry each unread reply." in first.out
    assert f"{UNREAD}/{UNREAD} replies" in first.out
    server.responder = reply
    assert (await grade(server, tmp_path, "--yes")).code == 0


def answered(place: str, replies: str = "AB", questions: int | None = None) -> Path:
    """Write a run with one reply for each character."""
    folder = Path(place)
    folder.mkdir(parents=True)
    options = {"options": ["left", "right"], "frames": {}}
    lines = [line(n, reply, "A", **options) for n, reply in enumerate(replies)]
    write(folder / "responses.jsonl", lines)
    if questions is not None:
        (folder / "manifest.json").write_text(json.dumps({"questions": {"count": questions}}))
    return folder


def test_a_run_is_graded_by_its_name_and_keeps_its_grades() -> None:
    run = answered("runs/mcq/own/mine@8")
    capeval.mcq_grade("mine@8", select="exact+random", resamples=99)
    code, out, _ = here("mcq", "grade", "mine@8")
    assert code == 0
    assert out.rstrip().endswith("runs/mcq/own/mine@8/grades.json")
    stored = json.loads((run / "grades.json").read_text("utf-8"))
    assert stored["overall"]["accuracy"]["value"] == 0.5
    assert stored["settings"]["select"] == "exact"  # of the last grading
    assert find_grades("mine@8") == run / "grades.json"
    assert all_grades() == [run / "grades.json"]
    (section,) = capeval.leaderboard(questions=True).sections
    assert section.entries[0].name == "mine@8"


def test_grades_go_next_to_responses_jsonl_alone_and_only_without_out() -> None:
    run = answered("elsewhere")
    capeval.mcq_grade(run, resamples=99, out="other.json")
    assert (not (run / "grades.json").exists(), Path("other.json").is_file()) == (True, True)
    capeval.mcq_grade(run / "responses.jsonl", resamples=99)
    assert (run / "grades.json").is_file()
    (run / "grades.json").unlink()
    (run / "responses.jsonl").rename(run / "theirs.jsonl")
    capeval.mcq_grade(run / "theirs.jsonl", resamples=99)
    assert not (run / "grades.json").exists()


@pytest.mark.parametrize("find", [find_responses, find_grades])
def test_a_name_that_several_runs_have_is_refused(find: Callable[[str], Path]) -> None:
    for benchmark in ("own", "tuna", "tomato"):
        run = answered(f"runs/mcq/{benchmark}/m@16")
        capeval.mcq_grade(run, resamples=99)
    with pytest.raises(InputError) as refused:
        find("m@16")
    assert str(refused.value) == (
        "m@16: can mean runs/mcq/own/m@16, runs/mcq/tomato/m@16 or runs/mcq/tuna/m@16; name one of "
        "these paths"
    )
    assert find("runs/mcq/tuna/m@16").is_relative_to("runs/mcq/tuna/m@16")


def test_what_means_no_run_is_explained() -> None:
    answered("runs/mcq/own/mine@8")
    with pytest.raises(InputError, match=r'nor a run under runs/; did you mean "mine@8"\?'):
        find_responses("mime@8")


def test_an_unfinished_run_says_how_many_questions_have_a_response() -> None:
    answered("runs/mcq/own/half", replies="AB", questions=5)
    code, _, err = here("mcq", "grade", "half")
    assert code == 0
    assert "2 of the run's 5 questions have a response" in err
    answered("runs/mcq/own/whole", replies="AB", questions=2)
    assert "have a response" not in here("mcq", "grade", "whole")[2]


TYPES = ("rotation", "direction", "velocity&frequency", "shape&trend", "visual_cues", "count")


def printed(*arguments: str | Path) -> str:
    code, out, _ = here("mcq", "grade", *arguments)
    assert code == 0
    return out


def tomato(tmp_path: Path) -> Path:
    lines = []
    for number in range(1, 121):
        tags: dict[str, Any] = {
            "benchmark": "tomato",
            "reasoning_type": TYPES[number % 6],
            "demonstration_type": ("human", "object", "simulated")[number % 3],
            "counterfactual": number % 2,
            "zoom": number % 5 == 0,
            "first_person": number % 7 == 0,
            "composite": number % 4 == 0,
        }
        lines.append(line(number, "" if number % 9 == 0 else "ABC"[number % 3], **tags))
    return write(tmp_path / "responses.jsonl", lines)


def test_first_screen_has_whole_groupings_and_names_the_others(tmp_path: Path) -> None:
    file = tomato(tmp_path)
    out = printed(file)
    assert all(name in out for name in (*TYPES, "simulated"))
    assert "continued" not in out
    assert "With --full: " in out
    assert out.count("\n") <= 41
    headline, *table = out.split("Decided by")[0].splitlines()
    assert headline.startswith("TOMATO: accuracy ")
    assert max(map(len, table)) <= 80
    full = printed(file, "--full")
    assert "First person" in full
    assert "--full" not in full


def test_empty_replies_are_not_counted_among_answers_that_were_drawn(tmp_path: Path) -> None:
    out = printed(tomato(tmp_path), "--as", "tomato")
    assert "No answer: 0 of 120 replies. Empty replies: 13." in " ".join(out.split())


def test_headline_says_when_no_reply_counts(tmp_path: Path) -> None:
    file = write(tmp_path / "responses.jsonl", [line(1, None), line(2, None)])
    out = printed(file)
    assert out.startswith(
        "Own questions: no accuracy (exact): of 2 responses, 2 unscored, 0 unread."
    )


def test_out_has_the_format_of_its_suffix(tmp_path: Path) -> None:
    file = tomato(tmp_path)
    for suffix, start in {
        ".json": "{",
        ".md": "**Accuracy**",
        ".tex": "% ",
        ".txt": "TOMATO: ",
    }.items():
        out = tmp_path / f"table{suffix}"
        printed(file, "--out", out)
        assert out.read_text("utf-8").startswith(start)
    with pytest.raises(UsageError, match=r"are written as \.json, \.md, \.tex or \.txt"):
        capeval.mcq_grade(file, out=tmp_path / "table.csv")


def test_where_grades_some_questions_and_keeps_the_grades_of_the_run(tmp_path: Path) -> None:
    file = tomato(tmp_path)
    capeval.mcq_grade(file)
    grades = (tmp_path / "grades.json").read_bytes()
    found = capeval.mcq_grade(file, where=["reasoning_type=count", "counterfactual=1"])
    assert {item.tags["reasoning_type"] for item in found.items} == {"count"}
    assert found.counts.responses == 20
    assert found.settings["where"] == ["reasoning_type=count", "counterfactual=1"]
    assert (tmp_path / "grades.json").read_bytes() == grades
    some = tmp_path / "some.json"
    capeval.mcq_grade(file, where=["zoom=true"], out=some)
    assert some.exists()
    with pytest.raises(UsageError, match='did you mean "count"'):
        capeval.mcq_grade(file, where=["reasoning_type=cuont"])


def test_questions_in_place_of_responses_are_named(tmp_path: Path) -> None:
    question = {name: value for name, value in line(1, "").items() if name != "reply"}
    del question["benchmark"]
    with pytest.raises(InputError, match="line 1: is a question without a reply"):
        capeval.mcq_grade(write(tmp_path / "questions.jsonl", [question]))
