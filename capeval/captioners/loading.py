"""Load a model from the hub or from a folder with transformers' own classes."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from jinja2.exceptions import TemplateError
from transformers import (
    AutoConfig,
    AutoModelForImageTextToText,
    AutoProcessor,
    AutoTokenizer,
    GenerationConfig,
)

from capeval.captioners import llava_video
from capeval.captioners.catalogue import ModelEntry
from capeval.captioners.options import CaptionerOptions
from capeval.captioners.protocol import BatchMaker, CaptionRequest, LoadedModel
from capeval.errors import UsageError
from capeval.local_models import (
    Checkpoint,
    check_complete,
    check_spread,
    find_checkpoint,
    one_line_errors,
    place,
    quantisation,
)

_ATTENTION = "sdpa"
_DEFAULT_SYSTEM = "You are a helpful assistant."
# Removed once decoding is greedy, so that no record suggests that they were used.
_SAMPLING = (
    *("temperature", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff"),
    *("top_h", "max_length", "max_time"),
)
_UNRECORDED = ("_from_model_config", "transformers_version", "use_cache")


@dataclass(frozen=True)
class _Parts:
    """A model before its weights are loaded, and how its authors use it.

    `meta` is the model without weights; `arguments` are for `from_pretrained`; `dtype`
    is the precision unless the entry names one; `decoding` changes the checkpoint's.
    """

    kind: Any
    meta: Any
    config: Any
    tokenizer: Any
    inputs: BatchMaker
    settings: Mapping[str, Any]
    mixes_frame_counts: bool
    arguments: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = "auto"
    decoding: Mapping[str, Any] = field(default_factory=dict)
    penalises_prompt: bool = True


def load_model(entry: ModelEntry, options: CaptionerOptions) -> LoadedModel:
    """Load the model of an entry; options replace the entry's values. Raises `UsageError`."""
    model = entry.hub or entry.name
    written = options.max_new_tokens or entry.max_new_tokens
    with one_line_errors(model):
        source = find_checkpoint(model, entry.revision)
        is_llava_video = llava_video.ARCHITECTURE in (source.published.get("architectures") or ())
        parts = _llava_video(source, entry) if is_llava_video else _native(source, entry, written)
        placement = place(
            entry.name,
            source.size(parts.meta),
            device=options.device or "auto",
            dtype=entry.options.get("dtype") or parts.dtype,
            serve=entry.serve,
        )
        # Straight to the GPU, so that the weights need no main memory.
        spread: dict[str, Any] = {"device_map": {"": placement.device}}
        if room := dict(placement.room):
            spread = {"device_map": "auto", "max_memory": room}
        loaded, info = parts.kind.from_pretrained(
            model,
            config=parts.config,
            dtype=placement.dtype,
            attn_implementation=_ATTENTION,
            output_loading_info=True,
            **source.arguments,
            **spread,
            **parts.arguments,
        )
        check_complete(model, info)
        # Otherwise an incomplete model would be used.
        left = sorted(key for key in info.get("unexpected_keys") or () if ".layers." in key)
        if is_llava_video and left:
            raise UsageError(
                f"{model}: its checkpoint has more layers than its config.json states: {left[0]}"
            )
        check_spread(entry.name, placement, getattr(loaded, "hf_device_map", {}))
        decoding: dict[str, Any] = {**parts.decoding, "max_new_tokens": written}
        if temperature := entry.temperature if options.temperature is None else options.temperature:
            # From the whole distribution, like an endpoint that is given only a temperature.
            decoding |= {"do_sample": True, "temperature": temperature, "top_p": 1.0, "top_k": 0}
        weights = source.identity(options.on_notice)
    tokenizer = parts.tokenizer
    tokenizer.padding_side = "left"
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    loaded.eval()
    quantised = quantisation(loaded.config.to_dict())
    # Some kernels for packed weights work in another precision than requested.
    dtype = placement.dtype if quantised is None else loaded.dtype
    generation = _greedy(loaded, tokenizer, decoding)
    recorded = {
        name: value
        for name, value in _plain(generation.to_dict()).items()
        if value is not None and name not in _UNRECORDED
    }
    penalty = None
    if not parts.penalises_prompt:
        penalty, generation.repetition_penalty = generation.repetition_penalty, None
    # Defaults of every call come from here, so that nothing unrecorded takes effect.
    loaded.generation_config = generation
    return LoadedModel(
        model=loaded,
        tokenizer=tokenizer,
        inputs=parts.inputs,
        generation=generation,
        device=placement.device,
        placed=str(placement),
        dtype=dtype,
        revision=source.revision,
        context=_context_length(loaded.config.get_text_config()),
        penalty=penalty,
        mixes_frame_counts=parts.mixes_frame_counts,
        settings={
            "dtype": str(dtype).removeprefix("torch."),
            "attention": loaded.config._attn_implementation,  # noqa: SLF001 - has no public name
            "generation": recorded,
            **({"quantisation": _plain(quantised)} if quantised is not None else {}),
            # Not a folder's name, which may change.
            "weights": weights if isinstance(weights, str) else {"sha256": weights["sha256"]},
            **parts.settings,
        },
    )


def _llava_video(source: Checkpoint, entry: ModelEntry) -> _Parts:
    name, published = entry.name, source.published
    wanted = entry.options.get("preset") or "published"
    if wanted not in llava_video.PRESETS:
        known = ", ".join(llava_video.PRESETS)
        raise UsageError(f"{name}: preset {wanted!r}: must be one of {known}")
    if entry.options.get("template"):
        raise UsageError(f"{name}: it takes no template")
    preset = llava_video.PRESETS[wanted]
    config = llava_video.build_config(published, model=name, preset=preset)
    # The checkpoint's config.json says "llava", which is another model's name here.
    tokenizer: Any = AutoTokenizer.from_pretrained(
        source.model, config=config.text_config, **source.arguments
    )
    if len(tokenizer) > config.image_token_index:
        raise UsageError(f"{name}: its tokenizer uses the id that stands for the frames")
    with torch.device("meta"):
        meta = llava_video.LlavaVideoForConditionalGeneration(config)
    system = _DEFAULT_SYSTEM if entry.system is None else entry.system
    timed = bool(published.get("add_time_instruction", True))
    return _Parts(
        kind=llava_video.LlavaVideoForConditionalGeneration,
        meta=meta,
        config=config,
        tokenizer=tokenizer,
        inputs=llava_video.LlavaVideoInputs(
            tokenizer, config, system=system, wording=preset.wording, timed=timed
        ),
        settings={
            "system_prompt": system,
            "preset": wanted,
            "repetition_penalty_over": "written",
            "spatial_pool_mode": config.spatial_pool_mode,
            "time_instruction": timed,
        },
        mixes_frame_counts=True,
        arguments={"key_mapping": llava_video.KEY_MAP},
        dtype=preset.dtype,
        # Its authors' code generates from embeddings, so the penalty never sees the prompt.
        penalises_prompt=False,
    )


def _native(source: Checkpoint, entry: ModelEntry, written: int) -> _Parts:
    name, model = entry.name, source.model
    preset = entry.options.get("preset")
    if source.is_local and (source.folder / "adapter_config.json").is_file():
        # Whether it is applied depends on an optional package.
        raise UsageError(f"{model}: has an adapter (adapter_config.json); merge it first")
    config = AutoConfig.from_pretrained(model, **source.arguments)
    # The part that reads and writes text; omni models have others.
    config = getattr(config, "thinker_config", None) or config
    bounds = preset_bounds(config.model_type, preset, model=name)
    with torch.device("meta"):
        meta = AutoModelForImageTextToText.from_config(config)
    processor: Any = AutoProcessor.from_pretrained(model, **source.arguments)
    video = getattr(processor, "video_processor", None)
    if video is None:
        raise UsageError(f"{name}: it takes no video ({config.model_type} has no video processor)")
    if getattr(processor, "chat_template", None) is None:
        raise UsageError(f"{name}: its processor has no chat template")
    processing, settings = dict[str, Any](), dict[str, Any]()
    # The authors' code limits what a video may cost; without this transformers does not.
    if hasattr(video, "cap_pixels_per_frame"):
        processing["cap_pixels_per_frame"] = True
    recorded: dict[str, Any] = processing
    if bounds is not None:
        context = _context_length(config.get_text_config())
        video.max_video_tokens = bounds.video_tokens(context, written)
        processing["size"] = bounds.size(video.size.longest_edge)
        recorded = {**processing, "max_video_tokens": video.max_video_tokens}
        settings["preset"] = preset or "published"
    if template := dict(entry.options.get("template") or {}):
        settings["template"] = template
    return _Parts(
        kind=AutoModelForImageTextToText,
        meta=meta,
        config=config,
        tokenizer=processor.tokenizer,
        inputs=NativeInputs(
            processor, system_prompt=entry.system, options=processing, template=template
        ),
        settings={"system_prompt": entry.system, "processor": recorded, **settings},
        mixes_frame_counts=config.model_type in PACKED,
        decoding={} if bounds is None else bounds.decoding,
    )


def _greedy(loaded: Any, tokenizer: Any, overrides: Mapping[str, Any]) -> GenerationConfig:
    """Return the checkpoint's decoding, made greedy; a repetition penalty, say, is kept."""
    config: GenerationConfig = copy.deepcopy(loaded.generation_config)
    for name in _SAMPLING:
        if hasattr(config, name):
            setattr(config, name, None)
    ends = config.eos_token_id
    ends = [] if ends is None else [ends] if isinstance(ends, int) else list(ends)
    if tokenizer.eos_token_id is not None and tokenizer.eos_token_id not in ends:
        ends.append(tokenizer.eos_token_id)
    config.do_sample = False
    config.num_beams = 1
    config.num_return_sequences = 1
    config.eos_token_id = sorted(ends)
    config.pad_token_id = tokenizer.pad_token_id
    config.return_dict_in_generate = False
    for name, value in overrides.items():
        setattr(config, name, value)
    return config


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    plain = {}
    for name, value in sorted(values.items()):
        with suppress(TypeError):
            json.dumps(value)
            plain[name] = value
    return plain


def _context_length(config: Any) -> int | None:
    length = getattr(config, "max_position_embeddings", None)
    rope = getattr(config, "rope_parameters", None) or {}
    factor = rope.get("factor") if rope.get("rope_type", "default") != "default" else None
    return None if length is None else int(length * (factor or 1))


# ---- Batches made by a model's own processor -----------------------------------------------------

PACKED = frozenset(
    {
        *("qwen2_vl", "qwen2_5_vl", "qwen2_5_omni_thinker"),
        *("qwen3_vl", "qwen3_vl_moe", "qwen3_omni_moe_thinker", "qwen3_5", "qwen3_5_moe"),
        *("glm4v", "glm4v_moe", "gemma4", "gemma4_unified", "molmo2", "minicpmv4_6"),
        *("ernie4_5_vl_moe", "video_llama_3", "smolvlm"),
    }
)
"""Model types whose processors take videos with different numbers of frames in one batch.

Tested with a tiny model of each: captions are the same as for each video alone. Other classes get
videos with equal frame counts.
"""


class NativeInputs:
    """Turns requests into a left-padded batch with the model's own processor."""

    def __init__(
        self,
        processor: Any,
        *,
        system_prompt: str | None,
        options: Mapping[str, Any],
        template: Mapping[str, Any],
    ) -> None:
        self._processor, self._system_prompt = processor, system_prompt
        self._options, self._template = options, template

    def __call__(self, requests: Sequence[CaptionRequest]) -> Mapping[str, Any]:
        """Return the model's inputs; raises `ValueError` for a video that cannot be taken."""
        texts = [self._text(request) for request in requests]
        first = self._processor.tokenizer.bos_token
        # As transformers does where it renders the prompt and tokenizes it in one step.
        begun = {"add_special_tokens": False} if first and texts[0].startswith(first) else {}
        batch: dict[str, Any] = self._processor(
            text=texts,
            **self._videos(requests),
            padding=True,
            return_tensors="pt",
            **begun,
            **self._options,
        )
        if "video_second_per_grid" in batch:
            # The processors of omni models assume two frames a second.
            frames = self._processor.video_processor.temporal_patch_size
            batch["video_second_per_grid"] = torch.tensor(
                [frames * request.duration / len(request.frames) for request in requests]
            )
        return batch

    def _videos(self, requests: Sequence[CaptionRequest]) -> dict[str, Any]:
        shown = [bool(len(request.frames)) for request in requests]
        if not any(shown):
            return {}
        if not all(shown):
            raise ValueError("requests with and without frames cannot share a batch")
        return {
            "videos": [request.frames for request in requests],
            # Without these, some processors resample, or assume 24 frames a second.
            "do_sample_frames": False,
            "video_metadata": [
                {
                    **request.timing(),
                    "height": int(request.frames.shape[1]),
                    "width": int(request.frames.shape[2]),
                    "video_backend": None,
                }
                for request in requests
            ],
        }

    def _text(self, request: CaptionRequest) -> str:
        if request.system is None:
            return self._rendered(request.prompt, request, self._system_prompt)
        try:
            text = self._rendered(request.prompt, request, request.system)
        except TemplateError:
            text = ""
        if request.system in text:
            return text
        # Some templates refuse a system prompt, and others leave it out.
        return self._rendered(f"{request.system}\n\n{request.prompt}", request, None)

    def _rendered(self, prompt: str, request: CaptionRequest, system: str | None) -> str:
        first = [{"role": "system", "content": [{"type": "text", "text": system}]}]
        video = [{"type": "video"}] if len(request.frames) else []
        user = {"role": "user", "content": [*video, {"type": "text", "text": prompt}]}
        text: str = self._processor.apply_chat_template(
            [*(first if system is not None else []), user],
            tokenize=False,
            add_generation_prompt=True,
            **self._template,
        )
        return text


# ---- The size at which Qwen2-VL, Qwen2.5-VL and Qwen2.5-Omni see frames --------------------------

# By their authors' qwen-vl-utils: both sides are multiples of 28 pixels, a frame has from 128 to
# 768 such squares, and a video as many as 0.9 x 128,000 tokens hold. Two frames make one layer of
# tokens, a token for each square. transformers' processor does the same with these bounds; a
# checkpoint's own bounds are for images, which let a few seconds of 1080p fill the context.

_SQUARE = 28 * 28
_OMNI = "qwen2_5_omni_thinker"
_FAMILIES = ("qwen2_vl", "qwen2_5_vl", _OMNI)
# The processor uses this share of the tokens that it is given.
_USED = 0.9
_VIDEO_TOKENS = 128_000
# Context tokens that are reserved for a prompt; a longer one may need fewer frames.
_PROMPT = 512


@dataclass(frozen=True)
class PixelBounds:
    """A preset: the fewest pixels of a frame, and changes to the decoding.

    With `fits_context`, the frames of a long video are made smaller until they fit.
    """

    least: int = 128 * _SQUARE
    fits_context: bool = True
    decoding: Mapping[str, Any] = field(default_factory=dict)

    def size(self, longest_edge: int) -> dict[str, int]:
        """Return the processor's `size`; `longest_edge` is the checkpoint's, in pixels."""
        return {
            "shortest_edge": min(self.least, longest_edge),
            "longest_edge": min(768 * _SQUARE, longest_edge),
        }

    def video_tokens(self, context: int | None, max_new_tokens: int) -> int:
        """Return the processor's `max_video_tokens` for a model that reads `context` tokens."""
        if context is None or not self.fits_context:
            return _VIDEO_TOKENS
        return min(_VIDEO_TOKENS, int(max(1, context - max_new_tokens - _PROMPT) / _USED))


PIXEL_BOUNDS: Mapping[str, PixelBounds] = {
    "published": PixelBounds(),
    # The TUNA benchmark's configuration of Qwen2-VL: its lower bound is above the utilities' upper
    # one, so that every frame has 1,280 to 1,344 squares. Nothing is made smaller to fit.
    "tuna": PixelBounds(1280 * _SQUARE, fits_context=False, decoding={"repetition_penalty": 1.0}),
}


def preset_bounds(model_type: str, preset: str | None, *, model: str) -> PixelBounds | None:
    """Return the bounds of a family of models; None for all other families."""
    if model_type not in _FAMILIES:
        if preset is not None:
            raise UsageError(f"{model}: it has no preset {preset!r}")
        return None
    # The benchmark's code has no omni model.
    known = ["published"] if model_type == _OMNI else [*PIXEL_BOUNDS]
    if (wanted := preset or "published") not in known:
        raise UsageError(f"{model}: preset {wanted!r}: must be one of {', '.join(known)}")
    return PIXEL_BOUNDS[wanted]
