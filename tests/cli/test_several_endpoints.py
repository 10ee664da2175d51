"""`capeval judge` with several servers of one model, each a process."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.cli.conftest import Endpoint, Workspace, start_server, stop_server


def test_servers_share_a_run_and_its_cache(
    work: Workspace, endpoint: Endpoint, tmp_path: Path
) -> None:
    (tmp_path / "first").mkdir()
    first = start_server(tmp_path / "first")
    try:
        both = work.judge("--base-url", first.url, "--max-concurrency", "2", "--json")
    finally:
        stop_server(first)
    assert both.code == 0, both.err
    assert f"2 servers: {first.url}, {endpoint.url}" in both.err
    assert both.json["captions"]["counts"]["scored"] == 12
    shared = [first.calls(), endpoint.calls()]
    assert sum(shared) == 36
    assert min(shared) > 0

    # Without the second one, and with the first one down: every reply is stored.
    shutil.rmtree(work.folder / "runs")
    alone = ("judge", "captions.jsonl", "--annotations", "annotations.json", "--judge")
    stored = work.run(*alone, "judge-model", "--base-url", first.url, "--json")
    assert stored.code == 0, stored.err
    assert stored.json["captions"]["overall"] == both.json["captions"]["overall"]

    # The first one is still down: the second one judges what is new.
    work.fill(14)
    more = work.judge("--base-url", first.url, "--run", "more")
    assert more.code == 0, more.err
    assert f"cannot reach {first.url}" in more.err
    assert endpoint.calls() == shared[1] + 6


def test_endpoints_of_different_names_are_refused(work: Workspace, endpoint: Endpoint) -> None:
    (work.folder / "capeval.toml").write_text(f'[endpoints]\n"{endpoint.url}" = "ours"\n')
    refused = work.judge("--base-url", "http://127.0.0.1:9/v1", "--judge", "judge-model")
    assert refused.code == 2
    assert f"http://127.0.0.1:9/v1 is other, {endpoint.url} is ours" in refused.err
    assert endpoint.calls() == 0
