"""A judge that changed: its verdicts replace the earlier ones when all are there, not before."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

from tests.cli.conftest import Endpoint, Workspace, end_of, start_server, stop_server, wait_until

AGAIN = ("captions", "--repeats", "2")


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def shown(work: Workspace) -> tuple[str, str]:
    """The repeats in the signature that `score` prints, and what it prints on stderr."""
    done = work.run("score", "captions", "--json")
    assert done.code == 0, done
    _, _, rest = json.loads(done.out)["signature"].partition("|repeats:")
    return rest.partition("|")[0], done.err


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_a_rejudging_that_is_stopped_keeps_the_earlier_scores(
    tmp_path: Path, end: signal.Signals
) -> None:
    slow = start_server(tmp_path / "server", latency_ms=40)
    try:
        work = Workspace(tmp_path / "work", slow.url)
        work.fill(12)
        assert work.judge().code == 0
        files = {path.name: path.read_bytes() for path in work.judged.iterdir()}
        coming = work.judged / "judgments.next.jsonl"
        process = work.start(*work.judging(*AGAIN, "--max-concurrency", "2"))
        wait_until(lambda: lines(coming) > 2)
        process.send_signal(end)
        stopped = end_of(process)
        assert stopped.code in (130, -signal.SIGKILL), stopped
        assert "12 stored verdicts are outdated (the repeats changed)" in stopped.err
        assert "will be judged again, and the stored verdicts count until all are" in stopped.err
        assert {name: (work.judged / name).read_bytes() for name in files} == files
        repeats, notice = shown(work)
        assert (repeats, notice.count("\n")) == ("1", 1)
        assert f"captions: {lines(coming)} of 12 captions are judged again" in notice
        assert work.run("compare", "captions", "captions", "--judge", "x").code == 2
        board = work.run("leaderboard")
        assert (board.code, board.err) == (0, notice)
        again = work.judge(*AGAIN, "--json")
        assert (again.code, again.json["captions"]["settings"]["repeats"]) == (0, 2)
        assert shown(work) == ("2", "")
        assert sorted(path.name for path in work.judged.iterdir()) == sorted(files)
        # The first repeat is in the cache; of the second, what was in flight is asked again.
        assert 2 * 36 <= slow.calls() <= 2 * 36 + 4
    finally:
        stop_server(slow)


def test_part_of_a_rejudging_is_shown_and_not_stored_as_the_scores(
    work: Workspace, endpoint: Endpoint
) -> None:
    work.judge()
    before = work.scores()
    part = work.judge(*AGAIN, "--limit", "3")
    assert part.code == 0, part.err
    assert "(scored 3/12), judged by judge-model" in part.out.splitlines()[0]
    assert "scores.json" not in part.out
    assert "3 of 12 captions are judged again, stored in runs/captions/judge-model" in part.err
    as_json = work.judge(*AGAIN, "--limit", "3", "--json").json["captions"]
    assert (as_json["counts"]["scored"], len(as_json["videos"])) == (3, 3)
    assert work.scores() == before
    endpoint.mood(filter=["unit007"])
    unscored = work.judge(*AGAIN)
    assert unscored.code == 3
    assert "accept the 1 unscored with --max-unscored 1" in unscored.err
    assert work.scores() == before
    accepted = work.judge(*AGAIN, "--max-unscored", "1")
    assert accepted.code == 0, accepted.err
    assert work.scores()["counts"]["scored"] == 11
    assert lines(work.judged / "judgments.aside.jsonl") == 1
    endpoint.mood()
    assert work.judge(*AGAIN).code == 0
    assert not (work.judged / "judgments.aside.jsonl").exists()


def test_a_cost_cap_that_is_reached_at_once_keeps_everything(
    work: Workspace, endpoint: Endpoint
) -> None:
    work.judge()
    files = {path.name: path.read_bytes() for path in work.judged.iterdir()}
    work.write("capeval.toml", '[prices."judge-model"]\ninput = 10\noutput = 10\n')
    stopped = work.judge(*AGAIN, "--max-cost", "0.00001")
    assert stopped.code == 3
    assert "0 of 12 captions are judged again" in stopped.err
    assert "none of 12 captions was scored" not in stopped.out
    assert {path.name: path.read_bytes() for path in work.judged.iterdir()} == files


@pytest.mark.parametrize("how", ["moved", "replaced", "another run", "deleted", "judge moved"])
def test_a_run_that_is_replaced_while_it_is_judged_stops_it(tmp_path: Path, how: str) -> None:
    slow = start_server(tmp_path / "server", latency_ms=40)
    try:
        work = Workspace(tmp_path / "work", slow.url)
        work.fill(24)
        run = work.judged.parent
        process = work.start(*work.judging("--max-concurrency", "2"))
        wait_until(lambda: lines(work.judged / "judgments.jsonl") > 2)
        if how == "deleted":
            shutil.rmtree(run)
        elif how == "judge moved":
            work.judged.rename(run / "other")
        else:
            run.rename(run.with_name("elsewhere"))
        if how == "replaced":
            run.mkdir()
        if how == "another run":
            shutil.copytree(run.with_name("elsewhere"), run)
        before = sorted(path for path in run.rglob("*"))
        stopped = end_of(process)
        assert stopped.code == 2, stopped
        said = [line for line in stopped.err.splitlines() if line.startswith("capeval: ")]
        assert len(said) == 1
        assert "was moved, replaced or deleted while results were written" in said[0]
        assert stopped.out == ""
        left = [path for path in run.rglob("*") if path.name != ".lock"]
        assert sorted(left) == [path for path in before if path.name != ".lock"]
        kept = {"deleted": None, "judge moved": run / "other"}
        kept_in = kept.get(how, run.with_name("elsewhere") / work.judged.name)
        assert kept_in is None or lines(kept_in / "judgments.jsonl") > 2
    finally:
        stop_server(slow)
