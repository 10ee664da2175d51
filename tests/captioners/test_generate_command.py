import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from capeval.captioners.catalogue import read_catalogue
from capeval.config import sample_folder
from tests.captioners.test_endpoint import DISTRUST, VLLM
from tests.captioners.tiny import Checkpoint
from tests.mcq.answering import own_folder
from tests.server import LoopbackServer, completion, failure
from tests.world import capeval as here
from tests.world import environment, lines, typed

INDEXES = [f"sample_{n:02}" for n in range(1, 11)]
ANSWER = ("mcq", "answer", "--questions", "questions.jsonl")
GONE = ("--base-url", "http://127.0.0.1:9/v1")


def describe(request: dict[str, Any]) -> Any:
    """A model that looks: what it says depends on every byte of the images."""
    content = request["messages"][-1]["content"]
    if isinstance(content, str):
        return '{"ok": true}'
    seen = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:10]
    said = f"A man in a blue shirt stands on a beach ({seen}, {len(content) - 1} frames)."
    return completion(said, prompt_tokens=4000, completion_tokens=40)


def frames_of(server: LoopbackServer) -> list[int]:
    contents = [r["messages"][-1]["content"] for r in server.requests]
    return [len(c) - 1 for c in contents if isinstance(c, list)]


async def test_the_sample_is_captioned_and_judged(tmp_path: Path) -> None:
    async with LoopbackServer(describe, models=["my-vlm"]) as server:
        made = await here(tmp_path, "generate", "--base-url", server.url)
    # After ten seconds, as on a busy machine, there is a line of progress too.
    notices = [line for line in made.err.splitlines() if " tokens" not in line]
    assert (made.code, notices) == (
        0,
        [
            "No --annotations are given: captioning the bundled sample.",
            f"Model: my-vlm at {server.url}, frames 32 by pyav, prompt tuna-cap-v1/caption.txt",
            "my-vlm: captioning 10 videos",
        ],
    )
    assert "my-vlm: captioned 10/10\n" in made.out
    assert "Judge them: capeval judge my-vlm" in made.out
    assert "written by" not in made.out
    assert frames_of(server) == [32] * 10
    captions = lines(tmp_path / "runs" / "my-vlm" / "captions.jsonl")
    assert [line["index"] for line in captions] == INDEXES
    assert len({line["caption"] for line in captions}) == 10
    first = captions[0]
    assert (first["model"], first["revision"]) == ("my-vlm", "snapshot-1")
    assert first["frames"]["indices"][0] == 0
    assert first["frames"]["indices"][-1] == first["frames"]["total_frames"] - 1
    assert first["frames"]["decoder"] == "pyav"
    assert first["details"]["image"]["width"] == 480
    judged = await here(tmp_path, "judge", "--judge", "lexical")
    assert judged.code == 0
    assert "my-vlm: captioned 10/10, scored 10/10" in judged.out


async def test_what_cannot_be_captioned_exits_3_and_is_listed(tmp_path: Path) -> None:
    videos = tmp_path / "videos"
    videos.mkdir()
    for index in INDEXES[:6]:
        shutil.copy(sample_folder() / "videos" / f"{index}.mp4", videos)
    for index in INDEXES[6:9]:
        (videos / f"{index}.mp4").touch()

    def moody(request: dict[str, Any]) -> Any:
        answer = describe(request)
        count = len(server.requests)
        return failure(400, "flagged", code="content_filter") if count == 3 else answer

    async with LoopbackServer(moody) as server:
        base = (
            "generate", "--model", "m", "--base-url", server.url, "--frames", "4",
            "--annotations", "sample", "--videos", "videos",
        )  # fmt: skip
        made = await here(tmp_path, *base)
        allowed = await here(tmp_path, *base, "--max-failed", "40%")
    assert made.code == 3
    assert "m: captioned 5/10" in made.out
    assert "Run the same command again" in made.out
    assert (allowed.code, "m: captioned 6/10, 1 of them new" in allowed.out) == (0, True)
    *failed, last = lines(tmp_path / "runs/m/ungenerated.jsonl")
    assert [(line["index"], line["reason"]) for line in failed] == [
        (index, "is empty (0 bytes)") for index in INDEXES[6:9]
    ]
    assert "has no video sample_10" in last["reason"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name a model with --model"),
        (("--model", "gpt-4o-2024-08-06"), "no key: set OPENAI_API_KEY"),
        (("--model", "gemini-3.5-flash"), "no key: set GEMINI_API_KEY"),
        (("--model", "m", *GONE), "is the server running?"),
        (("--model", "gpt-4.1", "--gpus", "2"), "--gpus is for --serve"),
        (("--model", "gpt-4.1", "--shard", "3/2"), "--shard: '3/2' must be I/N"),
        (("--model", "gpt-4.1", "--prompts", "no.txt"), "no.txt: is neither a prompt set"),
        (("--model", "gpt-4.1", "--videos", "nowhere"), "nowhere: does not exist"),
        (("--model", "gpt-4.1", "--only", "sample_1"), 'no annotation has the index "sample_1"'),
        (("--model", "gpt-4.1", "--max-failed", "x"), "--max-failed: 'x' must be"),
        (("--model", "llava-vido-7b"), 'did you mean "llava-video-7b"?'),
        (("--model", "hf:nothing"), "must be hf:ORG/NAME"),
        (("--model", "pllava-7b"), "caption with its authors' code (magic-research/PLLaVA)"),
        (("--model", "internvl2-8b"), "vllm serve OpenGVLab/InternVL2-8B"),
        (("--model", "gemini-1.5-pro-002"), "retired"),
        (("--model", "qwen2-vl-7b-tuna", *GONE), "its preset runs only in this process"),
        (("--model", "./nothing"), "--model ./nothing: does not exist"),
        (("--model", "./ours"), "--model ./ours: has no config.json"),
        (("--model", "ours"), "the folder of that name is ./ours"),
        ((*GONE, "--device", "cpu"), "--device is for models in"),
        ((*GONE, "--batch-size", "4"), "use --max-concurrency"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("capeval.llm.client.PREFLIGHT_WAIT", 0.01)
    (tmp_path / "ours").mkdir()
    key = {} if said.startswith("no key") else {"OPENAI_API_KEY": "sk-x"}
    ended = typed(tmp_path, "generate", *arguments, "--quiet", env=environment(tmp_path, **key))
    assert said in ended.refusal
    assert not (tmp_path / "runs").exists()


async def test_a_server_of_other_models_says_which(tmp_path: Path) -> None:
    async with LoopbackServer(describe, models=["other-vlm", "third"]) as server:
        made = await here(tmp_path, "generate", "--model", "qwen2-vl-7b", "--base-url", server.url)
    assert "does not serve Qwen/Qwen2-VL-7B-Instruct or qwen2-vl-7b; it has other-vlm" in made.err
    assert made.code == 2


async def test_an_endpoint_gets_the_temperature_and_the_prompt_that_are_typed(
    tmp_path: Path,
) -> None:
    (tmp_path / "p.txt").write_text("Say <what> happens.\n")
    async with LoopbackServer(describe) as server:
        made = await here(
            tmp_path, "generate", "--model", "m", "--base-url", server.url, "--limit", "1",
            "--frames", "qwen-2fps", "--temperature", "0.7", "--prompts", "p.txt",
        )  # fmt: skip
    assert made.code == 0
    body = server.requests[-1]
    assert body["temperature"] == 0.7
    assert body["messages"][-1]["content"][-1] == {"type": "text", "text": "Say <what> happens."}
    # The first clip of the sample: 7 s.
    assert frames_of(server)[-1] == 14


async def test_what_it_will_cost_is_asked_before(tmp_path: Path) -> None:
    async with LoopbackServer(describe) as server:
        base = ("generate", "--model", "m", "--base-url", server.url, "--frames", "4")
        unpriced = json.loads((await here(tmp_path, *base, "--dry-run", "--json")).out)
        (tmp_path / "capeval.toml").write_text('[prices."m"]\ninput = 100\noutput = 100\n')
        dry = await here(tmp_path, *base, "--dry-run")
        refused = await here(tmp_path, *base)
        assert server.calls == 0
        capped = await here(tmp_path, *base, "--max-cost", "0.9", "--max-concurrency", "1")
        whole = await here(tmp_path, *base, "--yes")
    # 10 videos of 4 frames at 1,000 tokens each, the prompt's 430 characters, 300 tokens of answer.
    assert (unpriced["input_tokens"], unpriced["output_tokens"]) == (41_077, 3_000)
    assert unpriced["cost"] is None
    assert "about 4 frames each, 41,077 tokens in, 3,000 out" in dry.out
    assert "about $4.41; no call was made" in dry.out
    assert (dry.code, refused.code, capped.code, whole.code) == (0, 2, 3, 0)
    assert "add --yes or --max-cost" in refused.err
    assert "capeval: the cost cap of $0.90 leaves no room" in capped.err
    assert "captioned 2/10" in capped.out
    assert "Raise --max-cost and run the same command again to finish" in capped.out
    assert "8 of them new" in whole.out


@pytest.mark.parametrize("command", [("generate",), ANSWER])
async def test_a_server_that_distrusts_the_settings_of_videos_is_refused_before_the_run(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    own_folder(tmp_path)
    async with LoopbackServer(VLLM(trusts=False), models=["qwen2-vl-7b"]) as server:
        options = ("--model", "qwen2-vl-7b", "--base-url", server.url)
        made = await here(tmp_path, *command, *options)
    assert (made.code, server.calls, (tmp_path / "runs").exists()) == (2, 1, False)
    assert f"{server.url} refuses frames as a video; start vLLM (0.31 or later) with" in made.err
    assert DISTRUST[:60] in made.err


async def test_a_dry_run_needs_neither_a_server_nor_a_key(tmp_path: Path) -> None:
    gone = ("generate", "--model", "qwen2-vl-7b", "--base-url", "http://127.0.0.1:9/v1", "--limit")
    for name in ("Qwen/Qwen2-VL-7B-Instruct", "qwen2-vl-7b"):
        folder = tmp_path / name.replace("/", "-")
        folder.mkdir()
        dry = await here(folder, *gone, "2", "--dry-run")
        assert (dry.code, "qwen2-vl-7b: 2 videos to caption" in dry.out) == (0, True), dry.err
        assert "is not asked whether it serves Qwen/Qwen2-VL-7B-Instruct" in dry.err
        async with LoopbackServer(describe, models=[name]) as server:
            await here(folder, *gone[:4], server.url, "--limit", "1")
        assert server.requests[-1]["model"] == name
        (video, _) = server.requests[-1]["messages"][-1]["content"]
        assert video["type"] == "video_url"
        (line,) = lines(folder / "runs" / "qwen2-vl-7b" / "captions.jsonl")
        assert (line["model"], line["frames"]["policy"]) == ("qwen2-vl-7b", "qwen-2fps")
        # Of a run that is under way, too, whatever the server calls its model.
        dry = await here(folder, *gone, "2", "--dry-run")
        assert (dry.code, "qwen2-vl-7b: 1 video to caption" in dry.out) == (0, True), dry.err
    dry = await here(
        tmp_path, "generate", "--model", "gpt-4o-2024-08-06", "--limit", "1", "--dry-run"
    )
    assert (dry.code, "no call was made" in dry.out) == (0, True), dry.err


def test_models_lists_the_catalogue(tmp_path: Path) -> None:
    (tmp_path / "capeval.toml").write_text(
        '[models."ours"]\nhub = "./ours"\noptions = { template = { enable_thinking = false } }\n'
    )
    ours = typed(tmp_path, "models", "ours")
    assert 'options: {"template": {"enable_thinking": false}}' in ours.out
    listed = typed(tmp_path, "models").out
    packaged = read_catalogue()
    assert listed.startswith(f"{len(packaged) + 1} models: ")
    assert [name for name in packaged if name not in listed.replace("\n", " ")] == []
    assert {*typed(tmp_path, "models", "--json").json} == {*packaged, "ours"}
    wrong = typed(tmp_path, "models", "internvl2-9b")
    assert 'did you mean "internvl2-8b"?' in wrong.refusal


def test_a_tiny_model_captions_the_sample(tmp_path: Path, checkpoint: Checkpoint) -> None:
    shutil.copytree(checkpoint("llava-onevision"), tmp_path / "ours")
    (tmp_path / "capeval.toml").write_text(
        '[models."warm"]\nhub = "./ours"\ntemperature = 0.9\nmax_new_tokens = 6\n'
    )
    cpu = ("generate", "--device", "cpu", "--frames", "4")
    made = typed(
        tmp_path, *cpu, "--model", "./ours", "--max-new-tokens", "24", "--batch-size", "4",
        "--run", "tiny", "--limit", "4",
    )  # fmt: skip
    assert made.code == 0, made.err
    captions = lines(tmp_path / "runs" / "tiny" / "captions.jsonl")
    assert len({line["caption"] for line in captions}) == 4
    assert [len(line["frames"]["indices"]) for line in captions] == [4] * 4

    def written(run: str, *more: str) -> list[str]:
        # Random weights may end a caption before it begins.
        few = ("--model", "warm", "--run", run, "--limit", "2", "--max-failed", "1")
        assert typed(tmp_path, *cpu, *few, *more).code == 0
        return [line["caption"] for line in lines(tmp_path / "runs" / run / "captions.jsonl")]

    def settings(run: str) -> dict[str, Any]:
        manifest = json.loads((tmp_path / "runs" / run / "manifest.json").read_text("utf-8"))
        generation: dict[str, Any] = manifest["generation"]["generation"]
        return {"seed": generation.get("seed"), **generation["generation"]}

    drawn = written("drawn")
    assert written("again") == drawn
    assert written("other", "--seed", "1") != drawn
    # From the whole distribution: transformers would cut it off after 50 tokens.
    sampled = {"do_sample": True, "temperature": 0.9, "top_p": 1.0, "top_k": 0, "seed": 0}
    assert sampled.items() <= settings("drawn").items()
    written("greedy", "--temperature", "0", "--max-new-tokens", "7")
    assert {"do_sample": False, "max_new_tokens": 7}.items() <= settings("greedy").items()
