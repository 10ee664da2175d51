"""`capeval probe`: its output, its cost, and its end."""

from __future__ import annotations

from tests.cli.conftest import Endpoint, Workspace

PRICE = '[prices."judge-model"]\ninput = 1000\noutput = 1000\n'


def probing(work: Workspace, *arguments: str) -> tuple[str, ...]:
    return ("probe", "annotations.json", "--count", "3", "--base-url", work.url, *arguments)


def test_a_cost_cap_stops_and_the_rest_is_done_later(work: Workspace) -> None:
    work.write("capeval.toml", PRICE)
    done = work.run(*probing(work, "--max-cost", "10"))
    assert done.code == 3, done
    assert "captions unscored)" in done.out
    assert "Raise --max-cost" in done.out
    done = work.run(*probing(work, "--yes"))
    assert (done.code, done.out.startswith("judge-model: worst on ")) == (0, True)


def test_unscored_captions_end_with_3(work: Workspace, endpoint: Endpoint) -> None:
    endpoint.mood(filter=["The car is green.", "The car is blue."])
    done = work.run(*probing(work))
    assert done.code == 3, done
    assert "is unscored: " in done.out
    assert work.run(*probing(work, "--max-failed", "100%")).code == 0
