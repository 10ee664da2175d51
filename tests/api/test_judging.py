"""`capeval.judge` in a notebook: captions in memory or in files, with and without a loop."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.errors import EndpointRefused
from capeval.runs.folder import RunFolder
from capeval.schema import Caption
from capeval.scoring.scores import Scores
from tests.judge_responder import answer
from tests.scripted_client import ScriptedClient
from tests.server import LoopbackServer
from tests.six_videos import COUNT, captions, right, videos

pytestmark = pytest.mark.usefixtures("alone")


@pytest.fixture
def client() -> ScriptedClient:
    return ScriptedClient(right)


def judge(client: ScriptedClient, *given: Any, **more: Any) -> Scores:
    return capeval.judge(*(given or (captions(), videos())), client=client, **more)


def test_three_lines_judge_a_mapping(client: ScriptedClient, tmp_path: Path) -> None:
    scores = judge(client)
    assert (scores.counts.annotated, scores.counts.scored) == (COUNT, COUNT)
    f1 = scores.overall.all.f1.value
    assert f1 is not None
    assert 0 < f1 < 1
    assert scores.signature.startswith("capeval:tuna-cap|judge:gpt-6-luna|prompts:tuna-cap")
    assert len(client.requests) == 3 * COUNT
    # Captions in memory leave nothing behind but the replies that were paid for.
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
    assert judge(client) == scores
    assert len(client.requests) == 3 * COUNT


def served(created: int, **more: Any) -> list[str | dict[str, Any]]:
    """What a server lists of its model; some fields change with every start."""
    start = {"created": created, "permission": [{"id": str(created)}], "max_model_len": created}
    return [{"id": "judge-model", **start, **more}]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"root": "judge-model", "digest": "ab12"}, {"root": "judge-model", "digest": "cd34"}),
        ({"root": "/ckpt/lora", "parent": "base-1"}, {"root": "/ckpt/lora", "parent": "base-2"}),
    ],
)
async def test_other_weights_under_the_same_name_judge_anew(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    notices: list[str] = []
    async with LoopbackServer(answer, models=served(1, **first)) as server:

        async def judged(run: str) -> tuple[int, Scores]:
            before = server.calls
            scores = await capeval.judge_async(
                captions(), videos(), judge="judge-model", run=run, base_url=server.url,
                on_notice=notices.append,
            )  # fmt: skip
            return server.calls - before, scores

        paid, by_first = await judged("one")
        server.models = tuple(served(2, **first))
        assert (await judged("two"))[0] == 0
        assert server.paths["/v1/models"] == 2
        server.models = tuple(served(3, **second))
        again, by_second = await judged("three")
        assert again == paid
        assert by_first.signature != by_second.signature
        # The verdicts of both are kept, and a notice says whose they are.
        assert not notices
        assert (await judged("one"))[1].signature == by_second.signature
        assert len(RunFolder(Path("runs/one")).judges()) == 2
        assert "Now another judge" in notices[0]
        # A server that does not list its models may have other weights: nothing new is paid for.
        server.models_fail = True
        assert (await judged("three"))[0] == 0
        with pytest.raises(EndpointRefused, match="/v1 does not answer"):
            await capeval.judge_async(
                {"V0": "Other."}, videos(), judge="judge-model", base_url=server.url
            )
    # A server that is down has the weights that it had.
    assert (await judged("three"))[0] == 0
    # Folders are not published.
    assert "/ckpt" not in by_first.signature + by_first.model_dump_json()


@pytest.mark.parametrize("silent", [[{}], [{"root": "/ckpt/1"}, {"root": "/ckpt/2"}]])
async def test_a_server_that_says_nothing_of_its_weights_is_reported(silent: Any) -> None:
    notices: list[str] = []
    models = [one for fields in silent for one in served(1, **fields)]
    async with LoopbackServer(answer, models=models) as server:
        for run in ("one", "two"):
            assert not notices
            await capeval.judge_async(
                captions(), videos(), judge="judge-model", run=run, base_url=server.url,
                on_notice=notices.append,
            )  # fmt: skip
        assert server.calls == 3 * COUNT + 1
    (notice,) = notices
    assert f"{3 * COUNT} replies came from the cache, the oldest on 20" in notice
    assert "delete the file that `capeval cache` shows" in notice


def test_scores_are_fresh_whatever_file_has_changed(client: ScriptedClient) -> None:
    whole = judge(client, run="mine")
    folder = Path("runs/mine/gpt-6-luna@tuna-cap-v1@none")
    scores, verdicts = folder / "scores.json", folder / "judgments.jsonl"
    before = scores.read_text("utf-8")
    assert judge(client, run="mine") == whole
    scores.write_text(before.replace('"value": 0.', '"value": 0.9'), encoding="utf-8")
    assert judge(client, run="mine") == whole
    assert scores.read_text("utf-8") == before

    alike = [video.model_dump(mode="json") for video in videos()]
    for element in (e for v in alike for event in v["events"] for e in event["visual_elements"]):
        element["weight"] = 1
    Path("alike.json").write_text(json.dumps(alike), encoding="utf-8")
    weighted = judge(client, "mine", "alike.json")
    assert weighted == capeval.score("runs/mine", "alike.json") != whole
    assert judge(client, captions(), videos(), run="mine") == whole

    edited = verdicts.read_text("utf-8").replace("contradiction", "lack")
    verdicts.write_text(edited, encoding="utf-8")
    assert judge(client, run="mine") == capeval.score("runs/mine", videos()) != whole
    assert len(client.requests) == 3 * COUNT


def test_files_and_objects_mean_the_same(client: ScriptedClient) -> None:
    in_memory = judge(client)
    Path("mine.json").write_text(json.dumps(captions()), encoding="utf-8")
    Path("a.json").write_text(json.dumps([one.model_dump(mode="json") for one in videos()]))
    in_files = judge(client, "mine.json", "a.json")
    objects = [Caption(index=index, caption=text) for index, text in captions().items()]
    as_objects = judge(client, objects, videos())
    assert in_memory.overall == in_files.overall == as_objects.overall
    assert in_memory.signature == in_files.signature == as_objects.signature


NOTEBOOK = """
import asyncio, signal, threading, time
import capeval

class Slow:
    name, is_baseline = "slow-1", False
    def judge(self, annotation, caption):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(600)

async def cell():
    capeval.judge({"sample_01": "A dog."}, "sample", judge=Slow())

# A notebook's loop leaves Ctrl-C to Python.
asyncio.new_event_loop().run_until_complete(cell())
"""


def test_an_interrupted_cell_of_a_notebook_does_not_wait_for_a_judge() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", NOTEBOOK], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.stderr.endswith("KeyboardInterrupt\n"), ended.stderr
