"""Load a model from the hub or from a folder with transformers' own classes."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from transformers import (
    AutoConfig,
    AutoModelForImageTextToText,
    AutoProcessor,
    AutoTokenizer,
    GenerationConfig,
)

from capeval.captioners import llava_video
from capeval.captioners.catalogue import ModelEntry
from capeval.captioners.native_inputs import JOINED, PACKED, NativeInputs
from capeval.captioners.options import CaptionerOptions
from capeval.captioners.pixel_bounds import preset_bounds
from capeval.captioners.protocol import BatchMaker, LoadedModel
from capeval.errors import UsageError
from capeval.local_models.checkpoint import (
    Checkpoint,
    check_complete,
    find_checkpoint,
    one_line_errors,
    quantisation,
)
from capeval.local_models.devices import Placement, check_spread, place

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
    """A model before its weights are loaded; `arguments` are further ones of `from_pretrained`.

    `dtype` is used where none is asked for.
    """

    kind: Any
    meta: Any
    config: Any
    tokenizer: Any
    inputs: BatchMaker
    decoding: Mapping[str, Any]
    settings: Mapping[str, Any]
    mixes_frame_counts: bool
    arguments: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = "auto"
    penalises_prompt: bool = True


def load_model(
    entry: ModelEntry,
    options: CaptionerOptions,
    on_notice: Callable[[str], None] = lambda _: None,
) -> LoadedModel:
    """Load the model of an entry, as it says unless an option does; raises `UsageError`.

    `on_notice` is called with messages about what takes long.
    """
    transformers.logging.set_verbosity_error()
    if not sys.stderr.isatty():
        # An error is then one line.
        transformers.logging.disable_progress_bar()
    model = entry.hub or entry.name
    with one_line_errors(model):
        source = find_checkpoint(model, entry.revision)
        is_llava_video = llava_video.ARCHITECTURE in (source.published.get("architectures") or ())
        parts = (_llava_video if is_llava_video else _native)(source, entry, options)
        placement, loading = _placed(source, parts, entry, options)
        loaded, info = parts.kind.from_pretrained(
            model, config=parts.config, **source.arguments, **loading, **parts.arguments
        )
        check_complete(model, info)
        # Otherwise a part of a model would write captions.
        left = sorted(key for key in info.get("unexpected_keys") or () if ".layers." in key)
        if is_llava_video and left:
            raise UsageError(
                f"{model}: its checkpoint has more layers than its config.json states: {left[0]}"
            )
        check_spread(entry.name, placement, getattr(loaded, "hf_device_map", {}))
        return _finished(source, parts, loaded, placement, source.identity(on_notice))


def _llava_video(source: Checkpoint, entry: ModelEntry, options: CaptionerOptions) -> _Parts:
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
        decoding=_decoding(entry, options),
        settings={
            "system_prompt": system,
            "preset": wanted,
            "repetition_penalty_over": "written",
            "spatial_pool_mode": config.spatial_pool_mode,
            "time_instruction": timed,
        },
        mixes_frame_counts=True,
        arguments={"key_mapping": llava_video.KEY_MAP},
        # A preset has the precision of the code that it follows.
        dtype=preset.dtype,
        # Its authors' code generates from embeddings, so the penalty never sees the prompt.
        penalises_prompt=False,
    )


def _native(source: Checkpoint, entry: ModelEntry, options: CaptionerOptions) -> _Parts:
    name, model = entry.name, source.model
    preset = entry.options.get("preset")
    if source.is_local and (source.folder / "adapter_config.json").is_file():
        # Whether it is applied depends on a package that may not be there.
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
    decoding, processing, settings = _decoding(entry, options), dict[str, Any](), dict[str, Any]()
    # The authors' code limits what a video may cost; without this transformers does not.
    if hasattr(video, "cap_pixels_per_frame"):
        processing["cap_pixels_per_frame"] = True
    recorded: dict[str, Any] = processing
    if bounds is not None:
        decoding = {**(bounds.generation or {}), **decoding}
        context = _context_length(config.get_text_config())
        video.max_video_tokens = bounds.video_tokens(context, decoding["max_new_tokens"])
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
            processor,
            system_prompt=entry.system,
            options=processing,
            template=template,
            is_joined=config.model_type in JOINED,
        ),
        decoding=decoding,
        settings={"system_prompt": entry.system, "processor": recorded, **settings},
        mixes_frame_counts=config.model_type in PACKED | JOINED,
    )


def _decoding(entry: ModelEntry, options: CaptionerOptions) -> dict[str, Any]:
    """Return how captions are written where that differs from greedy decoding."""
    decoding: dict[str, Any] = {"max_new_tokens": options.max_new_tokens or entry.max_new_tokens}
    temperature = entry.temperature if options.temperature is None else options.temperature
    if temperature:
        # From the whole distribution, as an endpoint does that is given only a temperature.
        decoding |= {"do_sample": True, "temperature": temperature, "top_p": 1.0, "top_k": 0}
    return decoding


def _placed(
    source: Checkpoint, parts: _Parts, entry: ModelEntry, options: CaptionerOptions
) -> tuple[Placement, dict[str, Any]]:
    """Return where a model goes, and the arguments that load it there; raises `UsageError`."""
    size = source.size(parts.meta)
    placement = place(
        entry.name,
        size,
        device=options.device or "auto",
        dtype=entry.options.get("dtype") or parts.dtype,
        serve=entry.serve,
    )
    # Straight to the GPU: a detour through main memory needs as much of that.
    spread: dict[str, Any] = {"device_map": {"": placement.device}}
    if room := dict(placement.room):
        spread = {"device_map": "auto", "max_memory": room}
    precision = {"dtype": placement.dtype, "attn_implementation": _ATTENTION}
    return placement, {**precision, **spread, "output_loading_info": True}


def _finished(
    source: Checkpoint, parts: _Parts, loaded: Any, placement: Placement, found: Any
) -> LoadedModel:
    """Return a model with its decoding, which is greedy unless `parts` say otherwise.

    `found` identifies its weights.
    """
    tokenizer = parts.tokenizer
    tokenizer.padding_side = "left"
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    loaded.eval()
    quantised = quantisation(loaded.config.to_dict())
    # Some kernels for packed weights work in another precision than was asked for.
    dtype = placement.dtype if quantised is None else loaded.dtype
    generation = _greedy(loaded, tokenizer, parts.decoding)
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
            "weights": found if isinstance(found, str) else {"sha256": found["sha256"]},
            **parts.settings,
        },
    )


def _greedy(loaded: Any, tokenizer: Any, overrides: Mapping[str, Any]) -> GenerationConfig:
    """Return the checkpoint's own decoding made greedy; a repetition penalty, say, stays."""
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
    """Return what are JSON values, by name."""
    plain = {}
    for name, value in sorted(values.items()):
        with suppress(TypeError):
            json.dumps(value)
            plain[name] = value
    return plain


def _context_length(config: Any) -> int | None:
    """Return how many tokens a language model reads, or None if its config does not say."""
    length = getattr(config, "max_position_embeddings", None)
    rope = getattr(config, "rope_parameters", None) or {}
    factor = rope.get("factor") if rope.get("rope_type", "default") != "default" else None
    return None if length is None else int(length * (factor or 1))
