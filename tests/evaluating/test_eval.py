"""`capeval eval`: from a model or captions to a report, in one command."""

import json
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

import capeval
from capeval.config import packaged
from capeval.runs.folder import RunFolder
from tests.judge_responder import answer, is_preflight
from tests.server import LoopbackServer, completion, failure
from tests.world import Said, typed
from tests.world import capeval as command
from tests.world import lines as read_lines

SAMPLE = ("--annotations", "sample", "--judge", "judge-model")
FAST = '[commands.generate]\nframes = "2"\ngpus = 8\n[commands.report]\nframes = 0\n'
PRICES = FAST + (
    '[prices."my-vlm"]\ninput = 100\noutput = 100\n[prices."judge-model"]\ninput = 10\noutput = 10'
)


@pytest.fixture(autouse=True)
def _few_frames(tmp_path: Path) -> None:
    """Decode few frames: this is about the steps together."""
    (tmp_path / "capeval.toml").write_text(FAST)


def both(request: dict[str, Any]) -> Any:
    """Captions videos, and judges captions."""
    content = request["messages"][-1]["content"]
    if isinstance(content, str):
        return answer(request)
    return completion("A man stands on a beach.", prompt_tokens=4000, completion_tokens=40)


def asked(server: LoopbackServer) -> list[str]:
    """Return which models were asked to work."""
    return [request["model"] for request in server.requests if not is_preflight(request)]


async def evaluated(folder: Path, server: LoopbackServer, *arguments: str) -> Said:
    urls = ("--model-url", server.url, "--judge-url", server.url)
    return await command(folder, "eval", *arguments, *SAMPLE, *urls)


def captions(folder: Path) -> None:
    lines = [{"index": f"sample_{n:02}", "caption": "A dog runs."} for n in range(1, 11)]
    (folder / "ours.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


async def test_a_model_and_captions_become_scores_and_reports(tmp_path: Path) -> None:
    captions(tmp_path)
    async with LoopbackServer(both) as server:
        names = ("my-vlm", "ours.jsonl", "--limit", "3")
        made = await evaluated(tmp_path, server, *names)
        first = len(server.requests)
        again = await evaluated(tmp_path, server, *names, "--json")
        assert len(server.requests) == first
    assert made.code == again.code == 0, made.err + again.err
    assert made.out.startswith("my-vlm: F1 ")
    assert made.err.count("all 10 captions are the same text") == 1
    assert "\nours        10/10    3/10  " in made.out
    for run, shown in zip(("my-vlm", "ours"), again.json["runs"], strict=True):
        folder = Path("runs") / run / "judge-model@tuna-cap-v1"
        assert (shown["run"], shown["report"]) == (run, str(folder / "report.html"))
        assert shown["counts"]["scored"] == 3
        scores = json.loads((tmp_path / shown["scores"]).read_bytes())
        assert shown["mean_words"] == scores["mean_words"] > 0
        assert shown["f1"] == scores["overall"]["all"]["f1"]
        assert run in (tmp_path / shown["report"]).read_text(encoding="utf-8")
        # Captions of a file say which file it was; those that were generated say how.
        manifest = json.loads((tmp_path / "runs" / run / "manifest.json").read_bytes())
        assert {"generation", "captions"} & manifest.keys() == {
            "generation" if run == "my-vlm" else "captions"
        }


async def test_only_what_is_missing_is_done(tmp_path: Path) -> None:
    async with LoopbackServer(both) as server:
        await evaluated(tmp_path, server, "my-vlm", "--limit", "2")
        before = asked(server)
        dry = await evaluated(tmp_path, server, "my-vlm", "--limit", "3", "--dry-run")
        assert asked(server) == before
        done = await evaluated(tmp_path, server, "my-vlm", "--limit", "3")
        new = asked(server)[len(before) :]
    assert "my-vlm: 1 video to caption" in dry.out
    assert "my-vlm: 1 caption to judge" in dry.out
    assert done.code == 0
    # All captions are alike, and replies are cached: only what the events are matched to is new.
    assert new.count("my-vlm") == 1
    assert 0 < new.count("judge-model") <= 3


async def test_a_dry_run_adds_up_the_cost_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "capeval.toml").write_text(PRICES)
    async with LoopbackServer(both) as server:
        dry = await evaluated(tmp_path, server, "my-vlm", "--dry-run", "--json")
        refused = await evaluated(tmp_path, server, "my-vlm")
        assert server.calls == 0
    steps = dry.json["steps"]
    assert [step["step"] for step in steps] == ["generate", "judge", "report"]
    assert dry.json["cost"] == pytest.approx(sum(step["cost"] for step in steps))
    assert dry.json["calls"] == 40
    assert (refused.code, refused.out) == (2, "")
    assert "this is expected to cost about $" in refused.err
    assert not (tmp_path / "runs").exists()


async def test_the_cap_is_on_both_models_together(tmp_path: Path) -> None:
    """Captioning costs $4.04 and judging six cents, of which three remain."""
    (tmp_path / "capeval.toml").write_text(PRICES)
    async with LoopbackServer(both) as server:
        done = await evaluated(tmp_path, server, "my-vlm", "--max-cost", "4.07", "--json")
        assert asked(server).count("my-vlm") == 10
        less = await evaluated(tmp_path, server, "my-vlm", "--run", "b", "--max-cost", "0.5")
        assert (less.code, asked(server).count("my-vlm")) == (3, 11)
    assert done.code == 3
    assert 4.04 < done.json["cost"] <= 4.07
    assert "the cost cap of $0.03" in done.json["runs"][0]["stopped"]


async def test_videos_without_a_caption_are_counted_and_the_others_judged(tmp_path: Path) -> None:
    def moody(request: dict[str, Any]) -> Any:
        is_third = len([r for r in server.requests if r["model"] == "my-vlm"]) == 3
        return failure(400, "flagged", code="content_filter") if is_third else both(request)

    async with LoopbackServer(moody) as server:
        done = await evaluated(tmp_path, server, "my-vlm")
    assert done.code == 3
    assert "\nmy-vlm       9/10     9/9  " in done.out
    assert "is ungenerated: " in done.out


def test_a_model_in_this_process_is_not_loaded_for_a_finished_run(tmp_path: Path) -> None:
    captions(tmp_path)
    run = tmp_path / "runs" / "qwen2-vl-7b"
    run.mkdir(parents=True)
    (tmp_path / "ours.jsonl").rename(run / "captions.jsonl")
    (run / "manifest.json").write_text('{"generation": {"model": "qwen2-vl-7b"}}')
    done = typed(tmp_path, "eval", "qwen2-vl-7b", "--annotations", "sample", "--judge", "lexical")
    assert (done.code, "qwen2-vl-7b: F1 " in done.out) == (0, True), done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing.jsonl",), "nothing.jsonl: is neither a captions file nor a run under runs/"),
        (("ours.jsonl",), "name its annotations with --annotations"),
        (("ours.jsonl", "./ours.jsonl", "--annotations", "sample"), "2 arguments name the run"),
        (("m", "--model-url", "http://127.0.0.1:9/v1", "--max-cost", "1"), "needs the price of m"),
        (("qwen2.5-vl-7b", "--videos", "nowhere"), "nowhere: does not exist"),
        (("ours.jsonl", "qwen2.5-vl-7b", "--run", "x"), "--run is for one model or captions file"),
        (("sample", "--run", "x"), "--run is for one model or captions file"),
    ],
)
def test_mistakes_are_one_line_before_anything_is_done(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    captions(tmp_path)
    done = typed(tmp_path, "eval", *arguments, "--judge", "lexical")
    assert done.code == 2
    assert message in done.err.splitlines()[-1]
    assert not (tmp_path / "runs").exists()


def test_steps_take_further_arguments_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    captions(tmp_path)
    (found,) = capeval.evaluate(
        *("ours.jsonl", "sample"),
        judge="lexical",
        judging={"only": ["sample_01"], "run": "other"},
        reporting={"out": "r.html", "frames": 0},
    )
    assert (found.name, found.report) == ("other", Path("r.html"))
    assert found.scores
    assert found.scores.counts.scored == 1


async def test_frames_repeats_prompts_and_the_run_are_those_of_the_steps(tmp_path: Path) -> None:
    copytree(packaged("prompts") / "tuna-cap-v1", tmp_path / "mine")
    more = ("my-vlm", "--limit", "1", "--judge-prompts", "./mine")
    b = (*more, "--run", "b", "--frames", "3")
    async with LoopbackServer(both) as server:
        # Of a step's own table, [defaults] and the command line, in this order the last one wins.
        (tmp_path / "capeval.toml").write_text(
            '[defaults]\nrepeats = 3\nframes = "4"\n[commands.report]\nframes = 0\n'
            f'[commands.generate]\nbase_url = "{server.url}"\n'
            f'[commands.judge]\nbase_url = "{server.url}"\nrepeats = 2\n'
        )
        made = [await command(tmp_path, "eval", *more, *SAMPLE, OPENAI_API_KEY="sk-mine")]
        # A file's address gets no key.
        assert "sk-mine" not in str(server.headers)
        made += [await evaluated(tmp_path, server, *b)]
        made += [await evaluated(tmp_path, server, *b, "--repeats", "1")]
    captions(tmp_path)
    ours = ("ours.jsonl", "--run", "c", "--annotations", "sample", "--judge", "lexical")
    made += [await command(tmp_path, "eval", *ours)]
    assert [one.code for one in made] == [0, 0, 0, 0], [one.err for one in made]
    runs = tmp_path / "runs"
    assert {path.name for path in runs.iterdir()} == {"my-vlm", "b", "c"}
    frames = [read_lines(runs / run / "captions.jsonl")[0]["frames"] for run in ("my-vlm", "b")]
    assert [one["policy"] for one in frames] == ["4", "3"]
    asked = [
        json.loads((runs / run / "judge-model@mine/judge.json").read_text())
        for run in ("my-vlm", "b")
    ]
    assert [one["repeats"] for one in asked] == [2, 1]


async def test_a_run_stays_locked_from_its_captions_to_its_report(tmp_path: Path) -> None:
    locks = list[bool]()

    def locked(request: dict[str, Any]) -> Any:
        locks.append((tmp_path / "runs" / "my-vlm" / ".lock").exists())
        return both(request)

    async with LoopbackServer(locked) as server:
        done = await evaluated(tmp_path, server, "my-vlm", "--limit", "1")
        assert (done.code, set(locks)) == (0, {True}), done.err
        assert not (tmp_path / "runs" / "my-vlm" / ".lock").exists()
        with RunFolder(tmp_path / "runs" / "my-vlm").locked():
            refused = await evaluated(tmp_path, server, "my-vlm")
            dry = await evaluated(tmp_path, server, "my-vlm", "--dry-run")
        assert server.calls == len(locks)
    assert (refused.code, dry.code) == (2, 0)
    assert "another capeval process is working in this folder" in refused.err
