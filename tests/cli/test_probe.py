"""`capeval probe`: its cost, its gate, its end and its resumption."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import (
    Endpoint,
    Workspace,
    end_of,
    start_server,
    stop_server,
    wait_until,
)

FOLDER = "probes/judge-model@tuna-cap-v1"
PRICE = '[prices."judge-model"]\ninput = 1000\noutput = 1000\n'


def probing(work: Workspace, *arguments: str) -> tuple[str, ...]:
    return ("probe", "annotations.json", "--videos", "3", "--base-url", work.url, *arguments)


def card_of(work: Workspace) -> dict[str, Any]:
    card: dict[str, Any] = json.loads((work.folder / FOLDER / "probe.json").read_bytes())
    return card


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_the_headline_comes_first(work: Workspace) -> None:
    done = work.run(*probing(work))
    assert done.code == 0, done
    assert done.out.startswith("judge-model: ")
    assert f"{FOLDER}/probe.json" in done.out
    assert "Judge: judge-model at http" in done.err
    quiet = work.run(*probing(work, "--quiet"))
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")


def test_json_is_alone_on_stdout(work: Workspace) -> None:
    done = work.run(*probing(work, "--json"))
    assert json.loads(done.out)["cards"]["judge-model"] == card_of(work)
    markdown = work.run(*probing(work, "--format", "markdown"))
    assert markdown.out.startswith("**Right verdicts, %**")
    assert work.run(*probing(work, "--json", "--format", "latex")).code == 2


def test_a_dry_run_calls_nothing_and_writes_nothing(work: Workspace, endpoint: Endpoint) -> None:
    work.write("capeval.toml", PRICE)
    done = work.run(*probing(work, "--judge", "judge-model", "--dry-run"))
    assert done.code == 0, done
    assert "judge-model: 2" in done.out
    assert "; nothing was called" in done.out
    assert "$" in done.out
    assert endpoint.requests() == 0
    assert not (work.folder / "probes").exists()
    estimate = json.loads(
        work.run(*probing(work, "--judge", "judge-model", "--dry-run", "--json")).out
    )
    assert estimate["cost"] > 1
    assert estimate["judges"]["judge-model"] == sum(estimate["probes"].values())


def test_more_than_a_dollar_is_asked_for(work: Workspace, endpoint: Endpoint) -> None:
    work.write("capeval.toml", PRICE)
    done = work.run(*probing(work))
    assert (done.code, endpoint.calls()) == (2, 0)
    assert "this is expected to cost about $" in done.err


def test_a_cost_cap_stops_and_the_rest_is_done_later(work: Workspace) -> None:
    work.write("capeval.toml", PRICE)
    done = work.run(*probing(work, "--max-cost", "10", "--max-concurrency", "1"))
    assert done.code == 3, done
    assert "not judged" in done.out
    assert "Raise --max-cost" in done.out
    part = card_of(work)
    assert 0 < part["unscored"] < part["captions"]
    done = work.run(*probing(work, "--yes"))
    assert done.code == 0, done
    assert card_of(work)["unscored"] == 0


def test_a_gate(work: Workspace) -> None:
    done = work.run("probe", "--judge", "lexical", "--fail-under", "99.5")
    assert done.code == 4
    assert "capeval: gate failed: lexical-1 has a headline of" in done.err
    assert "--fail-under 99.5 requires at least that" in done.err
    assert work.run("probe", "--judge", "lexical", "--fail-under", "50").code == 0


def test_unscored_captions_end_with_3(work: Workspace, endpoint: Endpoint) -> None:
    endpoint.mood(filter=["The car is green.", "The car is blue."])
    done = work.run(*probing(work))
    assert done.code == 3, done
    assert "is unscored: " in done.out
    assert card_of(work)["unscored"] > 0
    assert work.run(*probing(work, "--max-unscored", "100%")).code == 0
    endpoint.mood()
    assert work.run(*probing(work)).code == 0
    assert card_of(work)["unscored"] == 0


def test_a_card_of_other_captions_is_not_replaced_without_a_word(work: Workspace) -> None:
    lexical = ("probe", "annotations.json", "--judge", "lexical", "--quiet")
    assert work.run(*lexical, "--videos", "3").err == ""
    # More videos only add to it.
    assert work.run(*lexical, "--videos", "4").err == ""
    before = lines(work.folder / "probes/lexical-1/judgments.jsonl")
    done = work.run(*lexical, "--videos", "3")
    removed = before - lines(work.folder / "probes/lexical-1/judgments.jsonl")
    assert removed > 0
    assert f"lexical-1: {removed} stored verdicts on captions of other annotations" in done.err
    assert "to keep them, move probes/lexical-1" in done.err
    assert work.run(*lexical, "--videos", "3").err == ""


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_what_is_stopped_goes_on_where_it_was(tmp_path: Path, end: signal.Signals) -> None:
    slow = start_server(tmp_path / "server", latency_ms=30)
    try:
        whole, part = (Workspace(tmp_path / name, slow.url) for name in ("whole", "part"))
        for work in (whole, part):
            work.fill(12)
        assert whole.run(*probing(whole)).code == 0
        calls = slow.calls()
        process = part.start(*probing(part, "--max-concurrency", "2"))
        verdicts = part.folder / FOLDER / "judgments.jsonl"
        wait_until(lambda: lines(verdicts) > 3)
        process.send_signal(end)
        stopped = end_of(process)
        assert stopped.code in (130, -signal.SIGKILL), stopped
        kept = lines(verdicts)
        assert kept > 3
        again = part.run(*probing(part))
        assert again.code == 0, again
        assert f"{kept} done before" in again.err
        # At most what was in flight is asked twice.
        assert calls <= slow.calls() - calls <= calls + 4
        for name in ("probes.jsonl", "judgments.jsonl", "probe.json"):
            files = [work.folder / FOLDER / name for work in (whole, part)]
            assert files[0].read_bytes() == files[1].read_bytes(), name
    finally:
        stop_server(slow)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing.json",), "missing.json: does not exist"),
        (("--videos", "none"), "--videos must be a whole number"),
        (("--fail-under", "101"), "--fail-under must be from 1 to 100"),
        (("--fail-under", "0.9"), "--fail-under must be from 1 to 100"),
        (("--judge", ""), "--judge is empty"),
        (("--max-unscored", "x"), "--max-unscored"),
        (("--judge", "lexica"), "did you mean"),
        (("--judge", "lexical", "--out", "capeval.toml"), "--out"),
    ],
)
def test_mistakes_are_one_line(work: Workspace, arguments: tuple[str, ...], message: str) -> None:
    done = work.run("probe", *arguments)
    assert done.code == 2, done
    assert message in done.err
    assert done.err.count("\n") == 1
