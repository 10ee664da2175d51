"""Load a model from the hub or from a folder with transformers' own classes."""

from __future__ import annotations

import sys
from typing import Any, Unpack

import torch
import transformers
from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor, AutoTokenizer

from capeval.captioners import llava_video
from capeval.captioners.load_options import DEFAULT_MAX_NEW_TOKENS, LoadOptions
from capeval.captioners.loaded_model import (
    context_length,
    finished,
    placed,
    prepare_tokenizer,
    recorded_weights,
)
from capeval.captioners.mixed_batches import JOINED, mixes_frame_counts
from capeval.captioners.native_inputs import NativeInputs
from capeval.captioners.pixel_bounds import preset_bounds
from capeval.captioners.protocol import LoadedModel
from capeval.errors import UsageError
from capeval.local_models.checkpoint import Checkpoint, find_checkpoint
from capeval.local_models.loading import check_complete, one_line_errors
from capeval.local_models.weights_identity import folder_state

_DEFAULT_SYSTEM = "You are a helpful assistant."


def load_model(model: str, *, name: str, **options: Unpack[LoadOptions]) -> LoadedModel:
    """Load `model`, a hub id or a folder, that the run calls `name`; raises `UsageError`."""
    transformers.logging.set_verbosity_error()
    if not sys.stderr.isatty():
        # An error is then one line.
        transformers.logging.disable_progress_bar()
    with one_line_errors(model):
        source = find_checkpoint(model, options.get("revision"))
    before = folder_state(source.folder) if source.is_local else None
    with one_line_errors(model):
        loaded = _load(source, name, options)
    if before is not None and folder_state(source.folder) != before:
        # Its hash may then be that of other weights.
        raise UsageError(f"{model}: was changed while it was loaded; run the same command again")
    return loaded


def _load(source: Checkpoint, name: str, options: LoadOptions) -> LoadedModel:
    if llava_video.ARCHITECTURE in (source.published.get("architectures") or ()):
        return _load_llava_video(source, name, options)
    return _load_native(source, name, options)


def _load_llava_video(source: Checkpoint, name: str, options: LoadOptions) -> LoadedModel:
    model, published = source.model, source.published
    wanted = options.get("preset") or "published"
    if wanted not in llava_video.PRESETS:
        raise UsageError(
            f"{name}: preset {wanted!r}: must be one of {', '.join(llava_video.PRESETS)}"
        )
    if options.get("template"):
        raise UsageError(f"{name}: it takes no template")
    chosen = llava_video.PRESETS[wanted]
    config = llava_video.build_config(published, model=name, preset=chosen)
    with torch.device("meta"):
        meta = llava_video.LlavaVideoForConditionalGeneration(config)
    # A preset has the precision of the code that it follows, unless another is asked for.
    placement, loading = placed(name, source, meta, {"dtype": chosen.dtype, **options})
    weights = recorded_weights(source, options)
    with one_line_errors(model):
        # The checkpoint's config.json says "llava", which is another model's name here.
        tokenizer: Any = AutoTokenizer.from_pretrained(
            model, config=config.text_config, **source.arguments
        )
        loaded, info = llava_video.LlavaVideoForConditionalGeneration.from_pretrained(
            model,
            revision=source.revision,
            config=config,
            key_mapping=llava_video.KEY_MAP,
            **loading,
        )
    check_complete(model, info)
    # Otherwise a part of a model would write captions.
    if left := sorted(key for key in info.get("unexpected_keys") or () if ".layers." in key):
        raise UsageError(
            f"{model}: its checkpoint has more layers than its config.json states: {left[0]}"
        )
    prepare_tokenizer(tokenizer)
    if len(tokenizer) > config.image_token_index:
        raise UsageError(f"{name}: its tokenizer leaves no id for the frames")
    system_prompt = options.get("system_prompt")
    system = _DEFAULT_SYSTEM if system_prompt is None else system_prompt
    timed = bool(published.get("add_time_instruction", True))
    inputs = llava_video.LlavaVideoInputs(
        tokenizer, config, system=system, wording=chosen.wording, timed=timed
    )
    return finished(
        loaded,
        tokenizer,
        inputs,
        name=name,
        placement=placement,
        revision=source.revision,
        max_new_tokens=options.get("max_new_tokens") or chosen.max_new_tokens,
        generation=options.get("generation"),
        # Its authors' code generates from embeddings, so the penalty never sees the prompt.
        penalise_prompt=False,
        mixes_frame_counts=True,
        settings={
            "weights": weights,
            "system_prompt": system,
            "preset": wanted,
            "repetition_penalty_over": "written",
            "spatial_pool_mode": config.spatial_pool_mode,
            "time_instruction": timed,
        },
    )


def _load_native(source: Checkpoint, name: str, options: LoadOptions) -> LoadedModel:
    model = source.model
    if source.is_local and source.file("adapter_config.json") is not None:
        # Whether it is applied depends on a package that may not be there.
        raise UsageError(f"{model}: has an adapter (adapter_config.json); merge it first")
    system_prompt = options.get("system_prompt")
    processing: dict[str, Any] = {}
    template = dict(options.get("template") or {})
    with one_line_errors(model):
        config = _text_part(AutoConfig.from_pretrained(model, **source.arguments))
    bounds = preset_bounds(config.model_type, options.get("preset"), model=name)
    with one_line_errors(model):
        with torch.device("meta"):
            meta = AutoModelForImageTextToText.from_config(config)
        processor: Any = AutoProcessor.from_pretrained(model, **source.arguments)
    if getattr(processor, "video_processor", None) is None:
        raise UsageError(f"{name}: it takes no video ({config.model_type} has no video processor)")
    if getattr(processor, "chat_template", None) is None:
        raise UsageError(f"{name}: its processor has no chat template")
    generation, max_new_tokens = options.get("generation"), options.get("max_new_tokens")
    if bounds is not None:
        generation = {**(bounds.generation or {}), **(generation or {})}
        max_new_tokens = max_new_tokens or bounds.max_new_tokens or DEFAULT_MAX_NEW_TOKENS
        bounds = bounds.within(context_length(config.get_text_config()), max_new_tokens)
    # The authors' code limits what a video may cost; without this transformers does not.
    if hasattr(processor.video_processor, "cap_pixels_per_frame"):
        processing["cap_pixels_per_frame"] = bounds is None
    placement, loading = placed(name, source, meta, options)
    weights = recorded_weights(source, options)
    with one_line_errors(model):
        loaded, info = AutoModelForImageTextToText.from_pretrained(
            model, config=config, **source.arguments, **loading
        )
    check_complete(model, info)
    prepare_tokenizer(processor.tokenizer)
    sized = {} if bounds is None else bounds.settings()
    return finished(
        loaded,
        processor.tokenizer,
        NativeInputs(
            processor,
            system_prompt=system_prompt,
            options=processing,
            template=template,
            bounds=bounds,
            is_joined=config.model_type in JOINED,
        ),
        name=name,
        placement=placement,
        revision=source.revision,
        max_new_tokens=max_new_tokens or DEFAULT_MAX_NEW_TOKENS,
        generation=generation,
        mixes_frame_counts=mixes_frame_counts(config.model_type),
        settings={
            "weights": weights,
            "system_prompt": system_prompt,
            "processor": processing | sized,
            **({"template": template} if template else {}),
            **({} if bounds is None else {"preset": options.get("preset") or "published"}),
        },
    )


def _text_part(config: Any) -> Any:
    """Return the config of the part that reads and writes text; omni models have others."""
    thinker = getattr(config, "thinker_config", None)
    return config if thinker is None else thinker
