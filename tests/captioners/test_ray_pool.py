import asyncio
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.captioners import CaptionRequest
from capeval.captioners.ray_pool import LOST
from capeval.errors import UsageError
from capeval.files.jsonl import whole_lines
from tests.mcq.answering import own_folder
from tests.world import capeval as here
from tests.world import environment, install, installed, start, typed
from tests.world import lines as read_lines

PLUGIN = '''
import os, pathlib

class Ending:
    """Ends its process at one video, at another once, and raises at a third, until mended."""

    settings = {"style": "plain"}

    def caption(self, requests):
        for one in requests if not pathlib.Path("mended").exists() else ():
            once = pathlib.Path("killed-once")
            if one.index == "sample_02" or (one.index == "sample_05" and not once.exists()):
                if one.index == "sample_05":
                    once.touch()
                os.kill(os.getpid(), 9)
            if one.index == "sample_03":
                raise RuntimeError("no kernel image")
        return [f"{len(one.frames)} frames of {one.index}" for one in requests]
'''
# Every worker loads torchvision as the process of the tests does; see conftest.py.
LIKE_THE_TESTS = """
import sys
from tests.torchvision_operators import DefinedBeforeImport
sys.meta_path.insert(0, DefinedBeforeImport())
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
    points = "[capeval.captioners]\nending-vlm = ending_vlm:Ending\n"
    site = install(folder, "ending_vlm", PLUGIN, points)
    (site / "sitecustomize.py").write_text(LIKE_THE_TESTS, encoding="utf-8")
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
    return [line | {"seconds": 0} for line in (read_lines(file) if file.exists() else ())]


async def test_a_lost_worker_costs_one_caption_and_the_run_goes_on_without_ray(
    tmp_path: Path, cluster: Cluster
) -> None:
    address, site, variables = cluster
    runs = tmp_path / "runs"
    command = ("generate", "--model", "ending-vlm", "--frames", "1", "--run")
    process = await start(tmp_path, *command, "pool", "--ray", address, **variables)
    _, err = await process.communicate()
    assert process.returncode == 3, err
    # Nothing of Ray's is between capeval's lines.
    assert b"ray" not in err.replace(address.encode(), b"").lower()
    # The worker of sample_05 was killed once, and its video was tried again.
    captioned = [f"sample_{n:02}" for n in (1, *range(4, 11))]
    assert [line["index"] for line in lines(runs / "pool")] == captioned
    failed = read_lines(runs / "pool" / "ungenerated.jsonl")
    assert {line["index"]: line["reason"] for line in failed} == {
        "sample_02": LOST,
        "sample_03": "the model failed: RuntimeError: no kernel image",
    }
    (tmp_path / "mended").touch()
    for run, new in (("pool", 2), ("plain", 10)):
        with installed(site, "ending_vlm"):
            done = await here(tmp_path, *command, run, "--json")
        assert done.json["new"] == new, done.err
    assert lines(runs / "pool") == lines(runs / "plain")
    manifests = [
        json.loads((runs / run / "manifest.json").read_text()) for run in ("plain", "pool")
    ]
    ids = {manifest.pop("id") for manifest in manifests}
    assert (len(ids), manifests[0]) == (2, manifests[1])


class Locked:
    """A captioner that cannot be sent to another process."""

    name = "locked"

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def caption(self, requests: Sequence[CaptionRequest]) -> list[str]:
        return ["A dog."] * len(requests)


def test_a_captioner_that_cannot_be_sent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be sent to workers: TypeError: cannot pickle"):
        capeval.generate(Locked(), ray="local", frames=1, runs=tmp_path)


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
    assert said in shown.refusal
    monkeypatch.setitem(sys.modules, "ray", None)
    shown = typed(tmp_path, "generate", "-q", "--ray", "local", "--model", str(tmp_path))
    assert "--ray needs ray (not installed): pip install '.[ray]'" in shown.err


async def test_answers_and_likelihoods_are_those_without_ray(
    tmp_path: Path, cluster: Cluster, checkpoint: Callable[[str], Path]
) -> None:
    address, _, variables = cluster
    questions = own_folder(tmp_path / "q", *({"question": f"Where {n}?"} for n in range(12)))
    command = (
        *("mcq", "answer", "--model", str(checkpoint("qwen2-vl")), "--questions", str(questions)),
        *("--frames", "4", "--likelihood", "--max-new-tokens", "4", "--json", "--run"),
    )
    runs = tmp_path / "runs" / "mcq" / "own"
    plain = await asyncio.to_thread(typed, tmp_path, *command, "plain", env=environment(tmp_path))
    assert plain.code == 0, plain.err
    # As a killed process leaves the run.
    file = shutil.copytree(runs / "plain", runs / "pool") / "responses.jsonl"
    file.write_bytes(file.read_bytes()[: -file.stat().st_size // 2])
    kept = len(whole_lines(file))
    process = await start(tmp_path, *command, "pool", "--ray", address, **variables)
    out, err = await process.communicate()
    assert process.returncode == 0, err
    assert json.loads(out)["new"] == 12 - kept
    responses = read_lines(file)
    assert responses == read_lines(runs / "plain" / "responses.jsonl")
    assert len({tuple(one["likelihood"]["text"]) for one in responses}) > 1
