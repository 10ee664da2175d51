"""Repeats on the command line: added when more are asked for, and never taken away."""

from __future__ import annotations

import json

from tests.cli.conftest import Endpoint, Workspace


def repeats(work: Workspace, *arguments: str) -> tuple[str, int]:
    """The repeats in the signature that `score` prints, and how many captions are scored."""
    done = work.run("score", "captions", "--json", *arguments)
    _, _, rest = json.loads(done.out)["signature"].partition("|repeats:")
    return rest.partition("|")[0], json.loads(done.out)["counts"]["scored"]


def test_only_missing_repeats_are_paid(work: Workspace, endpoint: Endpoint) -> None:
    for asked, calls in (("3", 3 * 36), ("1", 3 * 36), ("5", 5 * 36)):
        done = work.judge("captions.jsonl", "--repeats", asked)
        assert (done.code, endpoint.calls()) == (0, calls), done.err
        assert repeats(work) == (asked, 12)
        assert len(work.judgments()["V000"]["repeats"]) == max(3, int(asked))
        spread = work.scores()["repeat_spread"]
        assert spread is None or len(spread["f1"]) == int(asked)
        assert spread is None or (spread["f1_sd"] > 0 and spread["unanimous"] < 1)
    for asked in ("1", "2", "5"):
        assert repeats(work, "--repeats", asked) == (asked, 12)
    assert work.run("score", "captions", "--repeats", "6").code == 3
    assert endpoint.calls() == 5 * 36


def test_repeats_that_are_stopped_leave_the_earlier_ones(
    work: Workspace, endpoint: Endpoint
) -> None:
    assert work.judge().code == 0
    endpoint.mood(**{"401": ["unit006"]})
    again = ("captions", "--repeats", "2", "--max-concurrency", "1")
    assert work.judge(*again).code == 2
    asked, scored = repeats(work)
    assert asked == "2"
    assert 2 < scored < 12
    assert repeats(work, "--repeats", "1") == ("1", 12)
    endpoint.mood()
    assert work.judge(*again).code == 0
    assert repeats(work) == ("2", 12)
    assert endpoint.calls() == 2 * 36 + 1
