"""Load a model from the hub or from a folder with transformers' own classes."""

from __future__ import annotations

import sys
from typing import Any, Unpack

import torch
import transformers
from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor

from capeval.captioners import llava_video
from capeval.captioners.load_options import DEFAULT_MAX_NEW_TOKENS, LoadOptions
from capeval.captioners.loaded_model import (
    context_length,
    finished,
    placed,
    prepare_tokenizer,
)
from capeval.captioners.loading_published import load_family, load_llava_video
from capeval.captioners.mixed_batches import JOINED, mixes_frame_counts
from capeval.captioners.native_inputs import NativeInputs
from capeval.captioners.pixel_bounds import preset_bounds
from capeval.captioners.protocol import LoadedModel
from capeval.captioners.published import find_family
from capeval.captioners.published.checkpoint import has_architecture
from capeval.errors import UsageError
from capeval.local_models.checkpoint import Checkpoint, find_checkpoint
from capeval.local_models.loading import check_complete, one_line_errors
from capeval.local_models.weights_identity import folder_state


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
    family = find_family(source.published)
    if family is not None:
        return load_family(source, family, name, options)
    if has_architecture(source.published, llava_video.ARCHITECTURE):
        return load_llava_video(source, name, options)
    return _load_native(source, name, options)


def _load_native(source: Checkpoint, name: str, options: LoadOptions) -> LoadedModel:
    model = source.model
    if source.is_local and source.file("adapter_config.json") is not None:
        # Whether it is applied depends on a package that may not be there.
        raise UsageError(f"{model}: has an adapter (adapter_config.json); merge it first")
    system_prompt = options.get("system_prompt")
    processing = dict(options.get("processor_options") or {})
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
        processing.setdefault("cap_pixels_per_frame", bounds is None)
    placement, loading = placed(name, source.size(meta), meta, options)
    weights = source.identity(options.get("on_notice"))
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
