import base64
import io
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from capeval.captioners.endpoint import EndpointCaptioner, ImageForm
from capeval.captioners.protocol import Captioned, CaptionRequest, Uncaptioned
from capeval.llm.asker import Asker
from capeval.llm.cache import ReplyCache
from capeval.llm.client import OpenAIChatClient
from capeval.llm.money import Meter
from tests.server import LoopbackServer, completion, failure

FRAMES = np.arange(3 * 20 * 30 * 3, dtype=np.uint32).astype(np.uint8).reshape(3, 20, 30, 3)


def request(index: str = "V1", frames: Any = FRAMES) -> CaptionRequest:
    n = len(frames)
    return CaptionRequest(index, "Describe it.", frames, tuple(range(n)), (0.0,) * n, 24.0, n, 1.0)


class Endpoint:
    def __init__(self, tmp_path: Path) -> None:
        self.cache = ReplyCache(tmp_path / "replies.sqlite")
        self.meter = Meter()

    async def ask(
        self, responder: Any, *requests: CaptionRequest, **more: Any
    ) -> list[Captioned | Uncaptioned]:
        form = more.pop("form", ImageForm())
        timeout = more.pop("timeout", 30.0)
        async with LoopbackServer(responder) as self.server:
            # Always the same address in the cache's eyes, whatever port the server got.
            client = OpenAIChatClient(
                self.server.url, "sk-key", attempts=1, patience=5, timeout=timeout
            )
            async with client:
                asker = Asker(client, self.cache, base_url="http://vlm/v1", meter=self.meter)
                captioner = EndpointCaptioner(asker, "my-vlm", "served-vlm", form, **more)
                return await captioner.caption(list(requests))

    @property
    def content(self) -> list[dict[str, Any]]:
        content: list[dict[str, Any]] = self.server.requests[-1]["messages"][-1]["content"]
        return content


@pytest.fixture
def endpoint(tmp_path: Path) -> Any:
    made = Endpoint(tmp_path)
    yield made
    made.cache.close()


def says(text: str | None, **more: Any) -> Callable[[Any], Any]:
    return lambda _: completion(text, **more)


def pixels(url: str, kind: str) -> np.ndarray[Any, Any]:
    head, _, data = url.partition(",")
    assert head == f"data:image/{kind};base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))


async def test_every_frame_is_an_image_and_the_prompt_comes_last(endpoint: Endpoint) -> None:
    (outcome,) = await endpoint.ask(says("A dog runs."), request(), system="Be exact.")
    *images, text = endpoint.content
    assert text == {"type": "text", "text": "Describe it."}
    assert [pixels(i["image_url"]["url"], "jpeg").shape for i in images] == [(20, 30, 3)] * 3
    body = endpoint.server.requests[-1]
    assert body["messages"][0] == {"role": "system", "content": "Be exact."}
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("served-vlm", 0.0, 1024)
    assert isinstance(outcome, Captioned)
    assert (outcome.text, outcome.model, outcome.revision) == (
        "A dog runs.",
        "my-vlm",
        "snapshot-1",
    )
    assert outcome.details["image"]["width"] == 30
    assert outcome.details["image"]["bytes"] > 0
    assert outcome.warnings == ()


DISTRUST = (
    "Per-request media_io_kwargs are disabled by default because they can change multimodal media "
    "loading resource usage. Start the server with --trust-request-mm-kwargs only when clients are "
    "trusted. (parameter=media_io_kwargs)"
)


class VLLM:
    """A responder that reads `data:video/jpeg` as vLLM does, and keeps what its model would see.

    `served` are the server's own `--media-io-kwargs`; without `trusts` (its option
    `--trust-request-mm-kwargs`) it refuses those of a request, in the words of version 0.32; `most`
    is a limit that no request can raise.
    """

    def __init__(
        self, served: dict[str, Any] | None = None, *, trusts: bool = True, most: int | None = None
    ) -> None:
        self.served, self.trusts, self.most = served or {}, trusts, most
        self.sizes: list[tuple[int, int]] = []
        self.times: list[float] = []

    def __call__(self, body: Any) -> Any:
        if body.get("media_io_kwargs") and not self.trusts:
            return failure(400, DISTRUST, kind="BadRequestError", param="media_io_kwargs")
        if isinstance(body["messages"][-1]["content"], str):
            return '{"ok": true}'
        settings = {**self.served, **body.get("media_io_kwargs", {}).get("video", {})}
        kept = settings.get("num_frames", 32)
        kept = kept if self.most is None else min(kept, self.most)
        (part,) = (p for p in body["messages"][-1]["content"] if p["type"] == "video_url")
        head, *frames = part["video_url"]["url"].split(",")
        assert head == "data:video/jpeg;base64"
        frames = frames[:kept] if kept > 0 else frames
        indices = settings.get("frames_indices", list(range(len(frames))))
        if len(indices) != len(frames):
            return failure(400, f"{len(indices)} frames_indices for {len(frames)} frames")
        if settings.get("total_num_frames", len(frames)) < len(frames):
            return failure(400, "total_num_frames is below the number of frames")
        self.sizes = [Image.open(io.BytesIO(base64.b64decode(frame))).size for frame in frames]
        self.times = [index / settings.get("fps", 1.0) for index in indices]
        return completion(f"{len(frames)} frames.")


VIDEO = ImageForm("video")


def clip(count: int, step: int = 12, times: tuple[float, ...] | None = None) -> CaptionRequest:
    """Frames of a clip of 24 frames a second, one for each `step` frames."""
    pixels = np.zeros((count, 20, 30, 3), np.uint8)
    pixels[:, 0, 0, 0] = np.arange(count)
    indices = tuple(n * step for n in range(count))
    shown = times or tuple(index / 24 for index in indices)
    total = indices[-1] + 1
    return CaptionRequest("V1", "Describe it.", pixels, indices, shown, 24.0, total, shown[-1] + 1)


@pytest.mark.parametrize("server", [VLLM(), VLLM({"num_frames": -1}), VLLM({"fps": 2})])
async def test_every_frame_of_a_long_clip_arrives_with_its_time(
    server: VLLM, endpoint: Endpoint
) -> None:
    (outcome,) = await endpoint.ask(server, clip(50), form=VIDEO)
    assert isinstance(outcome, Captioned)
    assert outcome.text == "50 frames."
    assert server.sizes == [(30, 20)] * 50
    assert server.times == [n / 2 for n in range(50)]
    assert outcome.details["left_off"] == []


async def test_times_of_a_variable_rate_and_of_repeated_frames_arrive(endpoint: Endpoint) -> None:
    server = VLLM()
    await endpoint.ask(server, clip(4, times=(0.0, 0.5, 2.25, 9.0)), form=VIDEO)
    assert server.times == [0.0, 0.5, 2.25, 9.0]
    short = CaptionRequest(
        "V1", "?", np.zeros((4, 20, 30, 3), np.uint8), (0, 0, 1, 1), (0, 0, 0.5, 0.5), 2, 2, 1.0
    )
    await endpoint.ask(server, short, form=VIDEO)
    assert server.times == [0, 0, 0.5, 0.5]


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        (VLLM(trusts=False), DISTRUST),
        (VLLM(most=32), "50 frames_indices for 32 frames"),
    ],
)
async def test_a_server_that_would_drop_frames_writes_no_caption(
    server: VLLM, reason: str, endpoint: Endpoint
) -> None:
    (outcome,) = await endpoint.ask(server, clip(50), form=VIDEO)
    assert isinstance(outcome, Uncaptioned)
    assert reason in outcome.reason
    assert server.sizes == []
    # Fewer frames would arrive, but without their times.
    (few,) = await endpoint.ask(server, clip(32), form=VIDEO)
    assert isinstance(few, Captioned) is server.trusts


async def test_frames_shrink_only_when_asked(endpoint: Endpoint) -> None:
    (outcome,) = await endpoint.ask(says("A dog."), request(), form=ImageForm("png", max_side=15))
    assert pixels(endpoint.content[0]["image_url"]["url"], "png").shape == (10, 15, 3)
    assert isinstance(outcome, Captioned)
    assert (outcome.details["image"]["width"], outcome.details["image"]["height"]) == (15, 10)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (says("I cannot help with that.", finish_reason="content_filter"), "declined"),
        (says(""), "the reply is empty"),
        (lambda _: failure(500, "it broke"), "1 attempt"),
    ],
)
async def test_what_brings_no_caption_says_why(
    answer: Any, reason: str, endpoint: Endpoint
) -> None:
    (outcome,) = await endpoint.ask(answer, request())
    assert isinstance(outcome, Uncaptioned)
    assert reason in outcome.reason


async def test_a_caption_that_is_cut_off_is_kept_with_a_warning(endpoint: Endpoint) -> None:
    cut = says("A dog runs and", finish_reason="length", completion_tokens=1024)
    (outcome,) = await endpoint.ask(cut, request())
    assert isinstance(outcome, Captioned)
    assert (outcome.text, outcome.warnings) == ("A dog runs and", ("cut off at 1024 tokens",))
    assert endpoint.server.calls == 1


async def test_the_same_frames_are_paid_for_once(endpoint: Endpoint) -> None:
    first = await endpoint.ask(says("A dog runs."), request())
    again = await endpoint.ask(says("Something else."), request("another index"))
    assert endpoint.server.calls == 0
    assert isinstance(first[0], Captioned)
    assert isinstance(again[0], Captioned)
    assert again[0].text == first[0].text
    assert (endpoint.meter.calls, endpoint.meter.cached_calls) == (1, 1)
    assert again[0].usage == first[0].usage


async def test_no_image_is_stored_in_the_cache(endpoint: Endpoint, tmp_path: Path) -> None:
    big = np.random.default_rng(0).integers(0, 255, (8, 300, 400, 3), np.uint8)
    await endpoint.ask(says("A dog."), request(frames=big))
    # More than a megabyte goes out in pieces, its length told in advance.
    assert int(endpoint.server.headers[0]["Content-Length"]) > 1 << 20
    assert "Transfer-Encoding" not in endpoint.server.headers[0]
    assert len(endpoint.content) == 9
    endpoint.cache.close()
    with sqlite3.connect(tmp_path / "replies.sqlite") as db:
        (stored,) = db.execute("SELECT request FROM replies").fetchone()
    db.close()
    assert "sha256" in stored
    assert len(stored) < 5_000
    assert (tmp_path / "replies.sqlite").stat().st_size < 100_000
