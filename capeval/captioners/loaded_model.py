"""What loading every kind of model has in common: its place and its decoding."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

from transformers import GenerationConfig

from capeval.captioners.load_options import LoadOptions
from capeval.captioners.protocol import BatchMaker, LoadedModel
from capeval.errors import UsageError
from capeval.local_models.checkpoint import Checkpoint, quantisation
from capeval.local_models.devices import Placement, check_spread, place
from capeval.local_models.loading import one_line_errors

_ATTENTION = "sdpa"
# Removed once decoding is greedy, so that no record suggests that they were used.
_SAMPLING = (
    *("temperature", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff"),
    *("top_h", "max_length", "max_time"),
)
_UNRECORDED = ("_from_model_config", "transformers_version", "use_cache")


def placed(
    name: str, source: Checkpoint, meta: Any, options: LoadOptions
) -> tuple[Placement, dict[str, Any]]:
    """Return where a model goes, and the arguments that load it there; raises `UsageError`.

    `meta` is the model without its weights.
    """
    with one_line_errors(source.model):
        size = source.size(meta)
    placement = place(
        name,
        size,
        device=options.get("device", "auto"),
        dtype=options.get("dtype", "auto"),
        serve=options.get("serve"),
    )
    loading: dict[str, Any] = {
        "dtype": placement.dtype,
        "attn_implementation": options.get("attention") or _ATTENTION,
        "output_loading_info": True,
    }
    if room := dict(placement.room):
        # "auto" gives each GPU an even share, which the smallest may have no room for.
        is_even = min(room.values()) * len(room) >= size.bytes(placement.dtype)
        loading |= {"device_map": "auto" if is_even else "sequential", "max_memory": room}
    elif placement.device.type == "cuda" or size.quantisation is not None:
        # Straight to the GPU: a detour through main memory needs as much of that. Packed weights
        # cannot be moved later.
        loading["device_map"] = {"": placement.device}
    return placement, loading


def recorded_weights(source: Checkpoint, options: LoadOptions) -> dict[str, str] | str:
    """Return what a run records of the weights; not a folder's name, which may change."""
    found = source.identity(options.get("on_notice"))
    return found if isinstance(found, str) else {"sha256": found["sha256"]}


def finished(
    loaded: Any,
    tokenizer: Any,
    inputs: BatchMaker,
    *,
    name: str,
    placement: Placement,
    revision: str | None,
    max_new_tokens: int,
    generation: Mapping[str, Any] | None,
    settings: Mapping[str, Any],
    penalise_prompt: bool = True,
    mixes_frame_counts: bool = False,
) -> LoadedModel:
    """Return a model with its decoding, which is greedy unless `generation` says otherwise."""
    check_spread(name, placement, getattr(loaded, "hf_device_map", {}))
    quantised = quantisation(loaded.config.to_dict())
    if placement.device.type != "cuda" and quantised is None:
        # On a GPU it has been put there already.
        loaded.to(placement.device)
    loaded.eval()
    # Some kernels for packed weights work in another precision than was asked for.
    dtype = placement.dtype if quantised is None else loaded.dtype
    decoding = _greedy(loaded, tokenizer, max_new_tokens, generation or {})
    recorded = _recorded(decoding)
    penalty = None
    if not penalise_prompt:
        penalty, decoding.repetition_penalty = decoding.repetition_penalty, None
    # Defaults of every call come from here, so that nothing unrecorded takes effect.
    loaded.generation_config = decoding
    return LoadedModel(
        model=loaded,
        tokenizer=tokenizer,
        inputs=inputs,
        generation=decoding,
        device=placement.device,
        devices=placement.devices if placement.room else (),
        dtype=dtype,
        revision=revision,
        context=context_length(loaded.config.get_text_config()),
        penalty=penalty,
        mixes_frame_counts=mixes_frame_counts,
        settings={
            "dtype": str(dtype).removeprefix("torch."),
            "attention": loaded.config._attn_implementation,  # noqa: SLF001 - has no public name
            "generation": recorded,
            **({"quantisation": _plain(quantised)} if quantised is not None else {}),
            **settings,
        },
    )


def _greedy(
    loaded: Any, tokenizer: Any, max_new_tokens: int, overrides: Mapping[str, Any]
) -> GenerationConfig:
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
    config.max_new_tokens = max_new_tokens
    config.eos_token_id = sorted(ends)
    config.pad_token_id = tokenizer.pad_token_id
    config.return_dict_in_generate = False
    for name, value in overrides.items():
        if not hasattr(config, name):
            raise UsageError(f"generation setting {name}: transformers knows none of that name")
        setattr(config, name, value)
    return config


def _recorded(config: GenerationConfig) -> dict[str, Any]:
    values: dict[str, Any] = config.to_dict()
    return {
        name: value
        for name, value in sorted(values.items())
        if value is not None and name not in _UNRECORDED and _is_json(value)
    }


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True


def _plain(quantised: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in sorted(quantised.items()) if _is_json(value)}


def prepare_tokenizer(tokenizer: Any) -> None:
    """Let a tokenizer pad on the left, before the text that is written."""
    tokenizer.padding_side = "left"
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token


def context_length(config: Any) -> int | None:
    """Return how many tokens a language model reads, or None if its config does not say."""
    length = getattr(config, "max_position_embeddings", None)
    rope = getattr(config, "rope_parameters", None) or {}
    factor = rope.get("factor") if rope.get("rope_type", "default") != "default" else None
    return None if length is None else int(length * (factor or 1))
