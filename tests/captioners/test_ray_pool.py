"""Captions from the workers of a real Ray: the same files, whatever happens to a worker."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from capeval.captioners.ray_pool import LOST
from tests.world import Said, environment, install, installed, start, typed

PLUGIN = """
import time

class Slow:
    settings = {"style": "plain"}

    def __init__(self, **options):
        self.options = options

    def caption(self, requests):
        time.sleep(0.3)
        return [f"{len(one.frames)} frames of {one.index}" for one in requests]
"""
# As `--ray local` starts it; it ends with its standard input.
CLUSTER = """
import os, sys
from capeval.captioners import ray_pool
os.environ.update(ray_pool._ENVIRONMENT)
import ray
ray_pool._connect(ray, "local")
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""
Cluster = tuple[str, Path, dict[str, str]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A local Ray of two workers: its address, a captioner's package, and the variables of both."""
    folder = tmp_path_factory.mktemp("ray")
    points = "[capeval.captioners]\nslow-vlm = slow_vlm:Slow\n"
    site = install(folder, "slow_vlm", PLUGIN, points)
    variables = {
        "PYTHONPATH": f"{environment(folder)['PYTHONPATH']}:{site}",
        "RAY_OVERRIDE_RESOURCES": '{"CPU": 2}',
        # A local Ray is reached with a token, which it keeps there.
        "RAY_AUTH_MODE": "token",
        "HOME": str(folder),
    }
    with subprocess.Popen(
        [sys.executable, "-c", CLUSTER],
        env=environment(folder, **variables),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        yield process.stdout.readline().strip(), site, variables
        process.stdin.close()


def lines(folder: Path) -> list[dict[str, Any]]:
    """The captions of a run but for the seconds they took."""
    file = folder / "captions.jsonl"
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return [
        {name: value for name, value in json.loads(line).items() if name != "seconds"}
        for line in text.splitlines()
    ]


def alone(folder: Path, *command: str, site: Path) -> Said:
    """Type a command in this process, without Ray."""
    with installed(site, "slow_vlm"):
        return typed(folder, *command, env=environment(folder))


async def test_a_run_that_is_stopped_goes_on_without_ray_to_the_same_files(
    tmp_path: Path, cluster: Cluster
) -> None:
    address, site, variables = cluster
    runs = tmp_path / "runs"
    command = ("generate", "--model", "slow-vlm", "--frames", "4", "--json", "--run")
    process = await start(tmp_path, *command, "pool", "--ray", address, **variables)
    ending = asyncio.ensure_future(process.communicate())
    plain = await asyncio.to_thread(alone, tmp_path, *command, "plain", site=site)
    assert plain.code == 0, plain.err
    while not lines(runs / "pool"):
        assert process.returncode is None, await ending
        await asyncio.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = await ending
    assert (process.returncode, out) == (130, b"")
    assert b"are captioned and kept; run the same command to resume" in err
    # Nothing of Ray's is between capeval's lines.
    assert b"ray" not in err.lower()
    kept = len(lines(runs / "pool"))
    assert 0 < kept < 10
    ended = await asyncio.to_thread(alone, tmp_path, *command, "pool", site=site)
    assert json.loads(ended.out)["new"] == 10 - kept
    assert lines(runs / "pool") == lines(runs / "plain")
    manifests = [
        json.loads((runs / name / "manifest.json").read_text()) for name in ("plain", "pool")
    ]
    ids = {manifest.pop("id") for manifest in manifests}
    assert (len(ids), manifests[0]) == (2, manifests[1])


def test_a_video_that_ends_its_worker_is_left_without_a_caption(
    tmp_path: Path, cluster: Cluster
) -> None:
    address, _, variables = cluster
    ran = subprocess.run(
        [sys.executable, "-m", "tests.captioners.ending_captioner", address],
        cwd=tmp_path,
        env=environment(tmp_path, **variables),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    others = [f"sample_{n:02}" for n in (1, *range(4, 11))]
    # The worker of sample_05 was killed once, and its video was tried again.
    assert found["captions"] == {index: f"A dog of {index} runs." for index in others}
    assert found["left"] == {
        "sample_02": LOST,
        "sample_03": "the model failed: RuntimeError: no kernel image",
    }
    assert "cannot be sent to workers: TypeError: cannot pickle" in found["refused"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--base-url", "http://127.0.0.1:9/v1"], "--ray is for models that capeval loads"),
        (["--ray", "127.0.0.1:9"], "or local (ConnectionRefused"),
        (["--ray", "here"], "--ray here: no Ray cluster can be reached there"),
    ],
)
def test_what_cannot_run_there_is_refused_in_one_line(
    given: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    model = [] if "--base-url" in given else ["--model", str(tmp_path)]
    shown = typed(tmp_path, "generate", "-q", "--ray", "local", *model, *given)
    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert said in shown.err
    monkeypatch.setitem(sys.modules, "ray", None)
    shown = typed(tmp_path, "generate", "-q", "--ray", "local", "--model", str(tmp_path))
    assert "--ray needs ray (not installed): pip install '.[ray]'" in shown.err
