"""What `benchmarks.generation` measures; imports torch."""

from __future__ import annotations

import asyncio
import gc
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import GenerationConfig

from benchmarks.judging import Row
from capeval.captioners import Captioned, CaptionRequest, Uncaptioned
from capeval.captioners.llava_video import (
    PRESETS,
    LlavaVideoForConditionalGeneration,
    LlavaVideoInputs,
    build_config,
)
from capeval.captioners.pipeline import Job, caption_videos
from capeval.captioners.protocol import LoadedModel
from capeval.captioners.transformers_backend import TransformersCaptioner
from capeval.video import FrameSet
from tests.captioners import tiny

__all__ = ["device", "runs"]

_FULL_SIZE: dict[str, Any] = {
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "mm_hidden_size": 1152,
    "vocab_size": 152064,
}
_FRAMES = 32
_PATCHES = 27 * 27

# Dense bfloat16 FLOP/s and bytes/s, from the makers' data sheets.
_DATA_SHEETS = {
    "H200": (989e12, 4.8e12),
    "H100": (989e12, 3.35e12),
    "A100": (312e12, 2.04e12),
}


@dataclass(frozen=True)
class _Run:
    """Some videos captioned at one batch size."""

    batch: int
    seconds: float
    """For one batch, the median."""
    prompt: int
    written: int
    """Tokens of one video."""

    @property
    def videos_a_second(self) -> float:
        return self.batch / self.seconds

    @property
    def tokens_a_second(self) -> float:
        return self.videos_a_second * self.written


@dataclass(frozen=True)
class _Ceilings:
    """What the chip does at most: as measured in this run, and by its data sheet."""

    flops: float
    bandwidth: float
    sheet: tuple[float, float] | None

    def of_flops(self, rate: float) -> str:
        return self._share(rate, self.flops, None if self.sheet is None else self.sheet[0])

    def of_bandwidth(self, rate: float) -> str:
        return self._share(rate, self.bandwidth, None if self.sheet is None else self.sheet[1])

    def _share(self, rate: float, measured: float, sheet: float | None) -> str:
        said = f"{rate / measured:.0%} of what this chip did in this run"
        return said if sheet is None else f"{said}, {rate / sheet:.0%} of its data sheet"


def runs(
    folder: Path, *, batch: int | None = None, new_tokens: int = 256, rounds: int = 3
) -> Iterator[Row]:
    """Yield the figures; the full-size model where there is a GPU, else the tiny one."""
    if torch.cuda.is_available():
        yield from _full_size(batch or 16, new_tokens, rounds)
    else:
        yield from _tiny(folder, batch or 8, min(new_tokens, 64), rounds)


def device() -> str:
    """Return the accelerator and torch in words."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    return f"{gpu}, torch {torch.__version__}"


def _tiny(folder: Path, batch: int, new_tokens: int, rounds: int) -> Iterator[Row]:
    loaded = tiny.load(tiny.make("llava-video", folder), "tiny", max_new_tokens=new_tokens)
    loaded.generation.min_new_tokens = new_tokens
    requests = [tiny.request(f"V{at}", seed=at) for at in range(batch)]
    alone = _captions(loaded, requests[:1], rounds)
    together = _captions(loaded, requests, rounds)
    yield Row(
        "captions: NO GPU HERE, so a tiny random model of LLaVA-Video's kind on the processor; "
        f"4 frames, {new_tokens} tokens, batches of {batch} against one at a time",
        _against(together, alone),
        "",
        True,
    )
    # Its frames have few tokens, so that the steps of writing, which a batch shares, count.
    qwen = tiny.load(tiny.make("qwen2-vl", folder), "tiny", max_new_tokens=new_tokens)
    qwen.generation.min_new_tokens = new_tokens
    yield _mixed_row(qwen, batch, "a tiny model of Qwen2-VL's kind on the processor", 16)


def _mixed_row(loaded: LoadedModel, batch: int, what: str, most_frames: int) -> Row:
    """Return what padding gains for videos that differ in their numbers of frames."""
    generator = np.random.default_rng(0)
    counts = [int(n) for n in generator.integers(4, most_frames, 4 * batch, endpoint=True)]
    padded = _pipeline(loaded, batch, counts)
    equal = _pipeline(replace(loaded, mixes_frame_counts=False), batch, counts)
    return Row(
        f"captions: {what}, {len(counts)} videos of 4 to {most_frames} frames, batches of up to "
        f"{batch}, padded against equal numbers of frames only",
        f"{padded[0]:.1f} videos a batch and {len(counts) / padded[1]:.2f} videos/s against "
        f"{equal[0]:.1f} and {len(counts) / equal[1]:.2f}: {equal[1] / padded[1]:.1f} x",
        "",
        True,
    )


def _pipeline(loaded: LoadedModel, batch: int, counts: Sequence[int]) -> tuple[float, float]:
    """Return the mean number of videos in a batch, and the seconds for all of them."""
    requests = {f"V{at}": tiny.request(f"V{at}", frames=n) for at, n in enumerate(counts)}
    jobs = [Job(index, Path(index), request.prompt) for index, request in requests.items()]
    batches: list[int] = []

    class InMemory:
        policy, decoder = "2fps", "memory"

        def read(self, path: Path, *, cancel: threading.Event | None = None) -> FrameSet:
            del cancel
            one = requests[path.name]
            return FrameSet(
                one.frames, one.indices, one.times, one.total_frames, one.fps, one.duration
            )

    def record(job: Job, outcome: Captioned | Uncaptioned, frames: Mapping[str, Any]) -> None:
        del job, frames
        assert isinstance(outcome, Captioned), outcome
        batches.append(outcome.details["batch"])

    captioner = TransformersCaptioner(loaded, name="bench", batch_size=batch)
    began = time.perf_counter()
    asyncio.run(caption_videos(jobs, InMemory(), captioner, record))
    # Each video names its batch: the mean over batches, not over videos.
    return len(batches) / sum(1 / size for size in batches), time.perf_counter() - began


def _full_size(batch: int, new_tokens: int, rounds: int) -> Iterator[Row]:
    ceilings = _ceilings()
    loaded = _random_seven_billion(new_tokens)
    device = loaded.device
    requests = [_clip(at) for at in range(batch)]
    what = f"LLaVA-Video-7B, random weights, bfloat16, {_FRAMES} frames, {new_tokens} tokens"

    prepared = _median(lambda: loaded.inputs(requests[:1]), rounds)
    yield Row(f"{what}: frames of 1580 x 892 made ready", f"{prepared:.3f} s a video", "", True)

    alone = _captions(loaded, requests[:1], rounds)
    torch.cuda.reset_peak_memory_stats(device)
    together = _captions(loaded, requests, rounds)
    peak = torch.cuda.max_memory_allocated(device) / 2**30
    yield Row(
        f"{what}: batches of {batch} against one at a time", _against(together, alone), "", True
    )
    weights = sum(p.numel() * p.element_size() for p in loaded.model.parameters()) / 2**30
    yield Row(
        f"{what}: memory in a batch of {batch}",
        f"{peak:.1f} GiB at the peak, {weights:.1f} GiB of it weights",
        "",
        True,
    )
    yield Row(
        "the chip itself in this run: matrix product in bfloat16, copy",
        f"{ceilings.flops / 1e12:.0f} TFLOP/s, {ceilings.bandwidth / 1e12:.2f} TB/s",
        "",
        True,
    )
    for run, some in ((alone, requests[:1]), (together, requests)):
        yield from _phases(loaded, run, some, ceilings, what, rounds)

    yield _mixed_row(loaded, batch, what, _FRAMES)
    grown = TransformersCaptioner(loaded, name="full", batch_size="auto")
    asyncio.run(grown.caption(requests))
    yield Row(f"{what}: --batch-size auto has grown to", str(grown.batch_size), "", True)


def _phases(
    loaded: LoadedModel,
    run: _Run,
    requests: Sequence[CaptionRequest],
    ceilings: _Ceilings,
    what: str,
    rounds: int,
) -> Iterator[Row]:
    """Yield what reading and writing make of the chip."""
    batch = {
        name: value.to(loaded.device, dtype=loaded.dtype if "pixel" in name else None)
        for name, value in loaded.inputs(requests).items()
    }
    first = _exactly(loaded.generation, 1)

    def read() -> None:
        with torch.inference_mode():
            loaded.model.generate(**batch, generation_config=first)
        torch.cuda.synchronize()

    def whole() -> None:
        with torch.inference_mode():
            loaded.model.generate(**batch, generation_config=loaded.generation)
        torch.cuda.synchronize()

    reading = _median(read, rounds)
    step = (_median(whole, rounds) - reading) / (run.written - 1)
    model = loaded.model.model
    prompt = int(batch["input_ids"].shape[1])
    text, vision = loaded.model.config.text_config, loaded.model.config.vision_config
    language = _size(model.language_model.layers)
    videos = len(requests)
    # Two operations for each weight and token; attention over the prompt is causal, so half.
    flops = videos * (
        2 * language * prompt
        + 2 * prompt**2 * text.hidden_size * text.num_hidden_layers
        + 2 * _size(model.vision_tower.encoder) * _FRAMES * _PATCHES
        + 4 * _FRAMES * _PATCHES**2 * vision.hidden_size * vision.num_hidden_layers
    )
    kept = 2 * text.num_hidden_layers * text.num_key_value_heads * 128 * 2
    moved = 2 * (language + _size(loaded.model.lm_head)) + videos * kept * (
        prompt + run.written / 2
    )
    at = f"{what}, batch {videos}"
    yield Row(
        f"{at}: reading (vision and prompt of {prompt} tokens)",
        f"{reading / videos:.3f} s a video, {flops / reading / 1e12:.0f} TFLOP/s: "
        f"{ceilings.of_flops(flops / reading)}",
        "",
        True,
    )
    yield Row(
        f"{at}: writing",
        f"{1000 * step:.1f} ms a step, {moved / step / 1e12:.2f} TB/s: "
        f"{ceilings.of_bandwidth(moved / step)}",
        "",
        True,
    )


def _exactly(generation: GenerationConfig, tokens: int) -> GenerationConfig:
    """Return the decoding that writes exactly so many tokens."""
    changed = GenerationConfig.from_dict(generation.to_dict())
    changed.max_new_tokens = changed.min_new_tokens = tokens
    return changed


def _size(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _random_seven_billion(new_tokens: int) -> LoadedModel:
    published = tiny.published_config(**_FULL_SIZE)
    preset = PRESETS["published"]
    config = build_config(published, model="llava-video-7b", preset=preset)
    config._attn_implementation = "sdpa"  # noqa: SLF001 - has no public name
    device = torch.device("cuda")
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with device:
            model = LlavaVideoForConditionalGeneration(config).eval()
    finally:
        torch.set_default_dtype(before)
    tokenizer = tiny.qwen2_tokenizer()
    model.generation_config = GenerationConfig(
        do_sample=False,
        max_new_tokens=new_tokens,
        min_new_tokens=new_tokens,
        eos_token_id=[tokenizer.eos_token_id],
        pad_token_id=tokenizer.pad_token_id,
    )
    inputs = LlavaVideoInputs(
        tokenizer, config, system="You are a helpful assistant.", wording=preset.wording, timed=True
    )
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        inputs=inputs,
        generation=model.generation_config,
        device=device,
        dtype=torch.bfloat16,
        revision=None,
        mixes_frame_counts=True,
        settings={},
    )


def _clip(seed: int) -> CaptionRequest:
    small = tiny.request(f"V{seed}", seed=seed, frames=_FRAMES)
    generator = np.random.default_rng(seed)
    frames = generator.integers(0, 256, (_FRAMES, 892, 1580, 3), dtype=np.uint8)
    # Videos differ in length, so the times in their prompts differ in digits. Without that nothing
    # would be padded, and attention would take a faster path than with real batches.
    longer = 1 + seed / 2
    return replace(
        small,
        frames=frames,
        times=tuple(longer * time for time in small.times),
        duration=longer * small.duration,
    )


def _captions(loaded: LoadedModel, requests: Sequence[CaptionRequest], rounds: int) -> _Run:
    captioner = TransformersCaptioner(loaded, name="bench", batch_size=len(requests))
    outcomes: list[Any] = []

    def once() -> None:
        outcomes[:] = asyncio.run(captioner.caption(requests))

    seconds = _median(once, rounds)
    if not all(isinstance(outcome, Captioned) for outcome in outcomes):
        raise SystemExit(f"not every video was captioned: {outcomes}")
    used = outcomes[0].usage
    return _Run(len(requests), seconds, used.input_tokens, used.output_tokens)


def _against(together: _Run, alone: _Run) -> str:
    speedup = together.videos_a_second / alone.videos_a_second
    return (
        f"{together.videos_a_second:.2f} videos/s and {together.tokens_a_second:.0f} tokens/s "
        f"against {alone.videos_a_second:.2f} and {alone.tokens_a_second:.0f}: {speedup:.1f} x"
    )


def _median(work: Callable[[], Any], rounds: int) -> float:
    work()
    times = []
    for _ in range(rounds):
        gc.collect()
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _ceilings() -> _Ceilings:
    side, length = 8192, 2**30

    def timed(work: Callable[[], object], times: int = 20) -> float:
        work()
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(times):
            work()
        torch.cuda.synchronize()
        return (time.perf_counter() - began) / times

    left = torch.randn(side, side, device="cuda", dtype=torch.bfloat16)
    out = torch.empty_like(left)
    product = timed(lambda: torch.mm(left, left, out=out))
    source = torch.zeros(length, device="cuda", dtype=torch.bfloat16)
    target = torch.empty_like(source)
    copy = timed(lambda: target.copy_(source))
    name = torch.cuda.get_device_name()
    sheet = next((values for chip, values in _DATA_SHEETS.items() if chip in name), None)
    # A copy reads every byte and writes it.
    return _Ceilings(2 * side**3 / product, 4 * length / copy, sheet)
