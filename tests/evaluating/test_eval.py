"""`capeval eval`: from a model or captions to a report, in one command."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.files.packaged import sample_folder
from tests.cli_runs import capeval as command
from tests.judge_responder import answer, is_preflight
from tests.server import LoopbackServer, completion, failure
from tests.typed import Said, typed

SAMPLE = ("--annotations", "sample", "--judge", "judge-model")
PRICES = (
    '[prices."my-vlm"]\ninput = 100\noutput = 100\n[prices."judge-model"]\ninput = 10\noutput = 10'
)


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
    assert "\nours        10/10    3/10  " in made.out
    for run, shown in zip(("my-vlm", "ours"), again.json["runs"], strict=True):
        folder = Path("runs") / run / "judge-model@tuna-cap-v1"
        assert (shown["run"], shown["report"]) == (run, str(folder / "report.html"))
        assert shown["counts"]["scored"] == 3
        scores = json.loads((tmp_path / shown["scores"]).read_bytes())
        assert shown["f1"] == scores["overall"]["all"]["f1"]
        assert run in (tmp_path / shown["report"]).read_text(encoding="utf-8")


async def test_a_run_begins_while_the_last_caption_of_the_one_before_is_judged(
    tmp_path: Path,
) -> None:
    captions(tmp_path)
    (tmp_path / "b.jsonl").write_text((tmp_path / "ours.jsonl").read_text().replace("dog", "cat"))
    waited, is_begun = list[bool](), asyncio.Event()

    async def slow(request: dict[str, Any]) -> Any:
        text = str(request["messages"])
        if "cat" in text:
            is_begun.set()
        elif not is_preflight(request) and not waited:
            waited.append(False)
            waited[0] = await asyncio.wait_for(is_begun.wait(), 20)
        return answer(request)

    async with LoopbackServer(slow) as server:
        done = await evaluated(tmp_path, server, "ours.jsonl", "b.jsonl", "--json")
    assert done.code == 0, done.err
    assert [run["run"] for run in done.json["runs"]] == ["ours", "b"]
    assert waited == [True]


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


@pytest.mark.parametrize(
    ("priced", "unpriced"),
    [((), "my-vlm, judge-model"), (("judge-model",), "my-vlm"), (("my-vlm",), "judge-model")],
)
async def test_a_model_without_a_price_is_named_and_makes_no_sum(
    priced: Sequence[str], unpriced: str, tmp_path: Path
) -> None:
    text = "".join(f'[prices."{name}"]\ninput = 1000\noutput = 1000\n' for name in priced)
    (tmp_path / "capeval.toml").write_text(text)
    async with LoopbackServer(both) as server:
        dry = await evaluated(tmp_path, server, "my-vlm", "--dry-run")
        found = (await evaluated(tmp_path, server, "my-vlm", "--dry-run", "--json")).json
        capped = await evaluated(tmp_path, server, "my-vlm", "--max-cost", "99")
        refused = await evaluated(tmp_path, server, "my-vlm") if priced else None
        assert server.calls == 0
    assert f"no price is known for {unpriced} (" in dry.out
    assert ("; the rest costs about $" in dry.out) == bool(priced)
    assert found["cost"] is None
    assert found["input_tokens"] > 10_000
    assert f"--max-cost needs the price of {unpriced.partition(',')[0]};" in capped.err
    # The part with a price is asked about.
    assert refused is None or "this is expected to cost about $" in refused.err


async def test_the_cap_is_on_both_models_together(tmp_path: Path) -> None:
    """Captioning costs $4.04 and judging six cents, of which three remain."""
    (tmp_path / "capeval.toml").write_text(PRICES)
    async with LoopbackServer(both) as server:
        done = await evaluated(tmp_path, server, "my-vlm", "--max-cost", "4.07", "--json")
        assert asked(server).count("my-vlm") == 10
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
        (("ours.jsonl", "./ours.jsonl", "--annotations", "sample"), "2 of the arguments are"),
        (("m", "--model-url", "http://127.0.0.1:9/v1", "--max-cost", "1"), "needs the price of m"),
        (("qwen2.5-vl-7b", "--videos", "nowhere"), "nowhere: does not exist"),
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
        "ours.jsonl",
        "sample",
        judge="lexical",
        judging={"only": ["sample_01"], "run": "other"},
        reporting={"out": "r.html", "frames": 0},
    )
    assert (found.name, found.report) == ("other", Path("r.html"))
    assert found.scores is not None
    assert found.scores.counts.scored == 1


def test_captions_with_other_columns_and_a_server_for_other_judges(tmp_path: Path) -> None:
    lines = [{"video_id": f"sample_{n:02}", "text": "A dog runs."} for n in range(1, 11)]
    (tmp_path / "ours.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "capeval.toml").write_text(
        '[commands.judge]\nbase_url = "http://127.0.0.1:9/v1"\ncolumns = "index=video_id"\n'
    )
    made = typed(
        *(tmp_path, "eval", "ours.jsonl", "--annotations", "sample", "--judge", "lexical"),
        *("--columns", "index=video_id,caption=text"),
    )
    assert made.code == 0, made.err
    assert made.out.startswith("ours: F1 ")


async def test_the_file_sets_what_the_steps_do_and_gets_no_key(tmp_path: Path) -> None:
    async with LoopbackServer(both) as server:
        (tmp_path / "capeval.toml").write_text(
            f'[commands.generate]\nbase_url = "{server.url}"\nframes = "2"\n'
            f'[commands.judge]\nbase_url = "{server.url}"\nrepeats = 2\n'
        )
        made = await command(
            *(tmp_path, "eval", "my-vlm", *SAMPLE, "--limit", "1"), OPENAI_API_KEY="sk-mine"
        )
        assert made.code == 0, made.err
        assert "frames 2 by" in made.err
        assert "sk-mine" not in str(server.headers)
    file = tmp_path / "runs" / "my-vlm" / "judge-model@tuna-cap-v1" / "judgments.jsonl"
    assert len(json.loads(file.read_text().splitlines()[0])["repeats"]) == 2


def test_what_is_typed_wins_over_the_file_in_the_report_too(tmp_path: Path) -> None:
    captions(tmp_path)
    one = json.loads((sample_folder() / "annotations.json").read_text("utf-8"))
    (tmp_path / "a.json").write_text(json.dumps(one[:5]))
    (tmp_path / "capeval.toml").write_text(
        '[defaults]\nannotations = "sample"\ncolumns = "index=index"\n'
    )
    made = typed(
        *(tmp_path, "eval", "ours.jsonl", "--annotations", "a.json", "--judge", "lexical"),
    )
    assert made.code == 2  # five captions are unknown to it
    Path(tmp_path / "ours.jsonl").write_text('{"index": "sample_01", "caption": "A dog runs."}\n')
    made = typed(
        *(tmp_path, "eval", "ours.jsonl", "--annotations", "a.json", "--judge", "lexical"),
    )
    assert made.code == 0, made.err
    page = next((tmp_path / "runs").rglob("report.html")).read_text("utf-8")
    assert "@5|" in page
