"""Load checkpoints whose weights are published in their authors' layout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from transformers import AutoTokenizer

from capeval.captioners import llava_video
from capeval.captioners.load_options import DEFAULT_MAX_NEW_TOKENS, LoadOptions
from capeval.captioners.loaded_model import (
    finished,
    placed,
    prepare_tokenizer,
)
from capeval.captioners.protocol import LoadedModel
from capeval.captioners.published import Family
from capeval.captioners.published.tokenizers import load_tokenizer
from capeval.errors import CapevalError, UsageError
from capeval.local_models.checkpoint import Checkpoint
from capeval.local_models.loading import check_complete, check_known, one_line_errors
from capeval.text import describe, one_line

_DEFAULT_SYSTEM = "You are a helpful assistant."


def load_llava_video(source: Checkpoint, name: str, options: LoadOptions) -> LoadedModel:
    """Load a LLaVA-Video checkpoint; raises `UsageError`."""
    model, published = source.model, source.published
    wanted = options.get("preset") or "published"
    if wanted not in llava_video.PRESETS:
        raise UsageError(
            f"{name}: preset {wanted!r}: must be one of {', '.join(llava_video.PRESETS)}"
        )
    _refuse_options(name, options)
    chosen = llava_video.PRESETS[wanted]
    config = llava_video.build_config(published, model=name, preset=chosen, folder=source.folder)
    with torch.device("meta"):
        meta = llava_video.LlavaVideoForConditionalGeneration(config)
    # A preset has the precision of the code that it follows, unless another is asked for.
    placement, loading = placed(name, source.size(meta), meta, {"dtype": chosen.dtype, **options})
    weights = source.identity(options.get("on_notice"))
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
        placement=placement,
        revision=source.revision,
        max_new_tokens=options.get("max_new_tokens") or chosen.max_new_tokens,
        generation=options.get("generation"),
        # Its authors' code generates from embeddings, so the penalty never sees the prompt.
        penalise_prompt=False,
        mixes_frame_counts=not config.faster_token_stride,
        settings={
            "weights": weights,
            "system_prompt": system,
            "preset": wanted,
            "repetition_penalty_over": "written",
            "spatial_pool_mode": config.spatial_pool_mode,
            **_slow_and_fast(config),
            "time_instruction": timed,
        },
    )


def _refuse_options(name: str, options: LoadOptions) -> None:
    # These models have neither a processor nor a template of transformers.
    for option, called in (("processor_options", "processor options"), ("template", "template")):
        if options.get(option):
            raise UsageError(f"{name}: it takes no {called}")


def _slow_and_fast(config: llava_video.LlavaVideoConfig) -> dict[str, Any]:
    # Absent where all frames are alike, so that earlier runs of such models can be continued.
    every = config.faster_token_stride
    return {"faster_token_stride": every} if every else {}


def load_family(source: Checkpoint, family: Family, name: str, options: LoadOptions) -> LoadedModel:
    """Load a checkpoint of a family of `capeval.captioners.published`; raises `UsageError`."""
    model = source.model
    if options.get("preset") is not None:
        raise UsageError(f"{name}: it has no preset {options['preset']!r}")
    _refuse_options(name, options)
    with _config_errors(name):
        found = family.describe(source.published, name, source.file)
        with torch.device("meta"):
            meta = found.model_class(found.config)
    with one_line_errors(model):
        tokenizer: Any = load_tokenizer(
            model,
            source.file,
            revision=source.revision,
            text_config=found.config.text_config,
        )
    prepare_tokenizer(tokenizer)
    asked = options.get("system_prompt")
    system = found.system if asked is None else asked
    inputs = found.inputs(tokenizer, system)
    placement, loading = placed(name, source.size(meta), meta, options)
    weights = source.identity(options.get("on_notice"))
    with one_line_errors(model), _conversion_errors(model):
        loaded, info = found.model_class.from_pretrained(
            model,
            revision=source.revision,
            config=found.config,
            key_mapping=dict(found.key_map),
            # Refused below, with the tensor's name.
            ignore_mismatched_sizes=True,
            **loading,
        )
    check_known(model, info)
    check_complete(model, info)
    overrides = dict(options.get("generation") or {})
    if found.ends is not None:
        overrides.setdefault("eos_token_id", tokenizer.convert_tokens_to_ids(list(found.ends)))
    made = finished(
        loaded,
        tokenizer,
        inputs,
        placement=placement,
        revision=source.revision,
        max_new_tokens=options.get("max_new_tokens") or DEFAULT_MAX_NEW_TOKENS,
        generation=overrides,
        penalise_prompt=found.penalise_prompt,
        # Each frame is embedded on its own, and those of all videos are in a row.
        mixes_frame_counts=True,
        settings={
            "weights": weights,
            "system_prompt": system,
            "published": family.name,
            **({} if found.penalise_prompt else {"repetition_penalty_over": "written"}),
            **found.settings,
        },
    )
    return made if found.enforces_context else replace(made, context=None)


@contextmanager
def _config_errors(name: str) -> Iterator[None]:
    try:
        yield
    except CapevalError:
        raise
    except Exception as error:
        # transformers reports a malformed field by an exception of any kind.
        raise UsageError(
            f"{name}: its config.json cannot be used: {one_line(describe(error), 220)}"
        ) from error


@contextmanager
def _conversion_errors(model: str) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if "conversion of the weights" not in str(error):
            raise  # memory, for example
        raise UsageError(
            f"{model}: a part of its attention weights is missing, or has another shape than its "
            "config.json states"
        ) from error
