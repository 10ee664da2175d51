"""Brings a model of the hub, or of a folder, into memory with transformers' own classes."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
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
from transformers.utils import cached_file

from capeval.captioners import llava_video
from capeval.captioners.devices import SMALL_MODELS, Placement, place
from capeval.captioners.protocol import CaptionRequest, Inputs, LoadedModel
from capeval.errors import UsageError
from capeval.text import one_line

_ATTENTION = "sdpa"
_DEFAULT_MAX_NEW_TOKENS = 1024
_DEFAULT_SYSTEM = "You are a helpful assistant."
# What is left of sampling once decoding is greedy: nothing that could be mistaken for in use.
_SAMPLING = (
    *("temperature", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff"),
    *("top_h", "max_length", "max_time"),
)
_UNRECORDED = ("_from_model_config", "transformers_version", "use_cache")


def load_model(
    model: str,
    *,
    name: str,
    revision: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
    max_new_tokens: int | None = None,
    system_prompt: str | None = None,
    preset: str | None = None,
    generation: Mapping[str, Any] | None = None,
    processor_options: Mapping[str, Any] | None = None,
    alternatives: Mapping[str, int] = SMALL_MODELS,
) -> LoadedModel:
    """Load `model`, a hub id or a folder, as `TransformersCaptioner.load` describes.

    Raises
    ------
    UsageError
        It is not to be had, has code of its own, takes no video, or does not fit the device.
    """
    transformers.logging.set_verbosity_error()
    with _told(model):
        published = _config_file(model, revision)
    if llava_video.ARCHITECTURE in (published.get("architectures") or ()):
        return _load_llava_video(
            model,
            published,
            name=name,
            revision=revision,
            device=device,
            dtype=dtype,
            max_new_tokens=max_new_tokens,
            system_prompt=system_prompt,
            preset=preset,
            generation=generation,
            processor_options=processor_options,
            alternatives=alternatives,
        )
    if preset is not None:
        raise UsageError(f"{name}: it has no preset {preset!r}")
    options = dict(processor_options or {})
    with _told(model):
        config = AutoConfig.from_pretrained(model, revision=revision, trust_remote_code=False)
        with torch.device("meta"):
            parameters = _count(AutoModelForImageTextToText.from_config(config))
        processor: Any = AutoProcessor.from_pretrained(
            model, revision=revision, trust_remote_code=False
        )
    if getattr(processor, "video_processor", None) is None:
        raise UsageError(f"{name}: it takes no video ({config.model_type} has no video processor)")
    if getattr(processor, "chat_template", None) is None:
        raise UsageError(f"{name}: its processor has no chat template")
    # Qwen2-VL's own code bounds what a video may cost; without this transformers does not.
    if hasattr(processor.video_processor, "cap_pixels_per_frame"):
        options.setdefault("cap_pixels_per_frame", True)
    placement = place(name, parameters, device=device, dtype=dtype, alternatives=alternatives)
    with _told(model):
        loaded, info = AutoModelForImageTextToText.from_pretrained(
            model, revision=revision, trust_remote_code=False, **_loading(placement)
        )
    _check_complete(model, info)
    _prepare_tokenizer(processor.tokenizer)
    return _finish(
        loaded,
        processor.tokenizer,
        _NativeInputs(processor, system_prompt=system_prompt, options=options),
        placement=placement,
        max_new_tokens=max_new_tokens or _DEFAULT_MAX_NEW_TOKENS,
        generation=generation,
        settings={
            "weights": _weights(model),
            "system_prompt": system_prompt,
            "processor": options,
        },
    )


def _load_llava_video(
    model: str,
    published: Mapping[str, Any],
    *,
    name: str,
    revision: str | None,
    device: str,
    dtype: str,
    max_new_tokens: int | None,
    system_prompt: str | None,
    preset: str | None,
    generation: Mapping[str, Any] | None,
    processor_options: Mapping[str, Any] | None,
    alternatives: Mapping[str, int],
) -> LoadedModel:
    wanted = preset or "published"
    if wanted not in llava_video.PRESETS:
        raise UsageError(
            f"{name}: preset {preset!r}: must be one of {', '.join(llava_video.PRESETS)}"
        )
    if processor_options:
        raise UsageError(f"{name}: it takes no processor options")
    chosen = llava_video.PRESETS[wanted]
    folder = Path(model) if Path(model).is_dir() else None
    config = llava_video.build_config(published, model=name, preset=chosen, folder=folder)
    with torch.device("meta"):
        parameters = _count(llava_video.LlavaVideoForConditionalGeneration(config))
    placement = place(name, parameters, device=device, dtype=dtype, alternatives=alternatives)
    with _told(model):
        # The checkpoint's config.json says "llava", which stands for another model here.
        tokenizer: Any = AutoTokenizer.from_pretrained(
            model, revision=revision, config=config.text_config, trust_remote_code=False
        )
        loaded, info = llava_video.LlavaVideoForConditionalGeneration.from_pretrained(
            model,
            revision=revision,
            config=config,
            key_mapping=llava_video.KEY_MAP,
            **_loading(placement),
        )
    _check_complete(model, info)
    _prepare_tokenizer(tokenizer)
    if len(tokenizer) > config.image_token_index:
        raise UsageError(f"{name}: its tokenizer leaves no id for the frames")
    system = _DEFAULT_SYSTEM if system_prompt is None else system_prompt
    timed = bool(published.get("add_time_instruction", True))
    inputs = llava_video.LlavaVideoInputs(
        tokenizer, config, system=system, gap=chosen.gap, timed=timed
    )
    return _finish(
        loaded,
        tokenizer,
        inputs,
        placement=placement,
        max_new_tokens=max_new_tokens or chosen.max_new_tokens,
        generation=generation,
        # Its authors' code generates from embeddings, so the penalty never sees the prompt.
        penalise_prompt=False,
        settings={
            "weights": _weights(model),
            "system_prompt": system,
            "preset": wanted,
            "repetition_penalty_over": "written",
            "spatial_pool_mode": config.spatial_pool_mode,
            "time_instruction": timed,
        },
    )


def _finish(
    loaded: Any,
    tokenizer: Any,
    inputs: Inputs,
    *,
    placement: Placement,
    max_new_tokens: int,
    generation: Mapping[str, Any] | None,
    settings: Mapping[str, Any],
    penalise_prompt: bool = True,
) -> LoadedModel:
    if placement.device.type != "cuda":
        # On a GPU it has been put there already.
        loaded.to(placement.device)
    loaded.eval()
    decoding = _greedy(loaded, tokenizer, max_new_tokens, generation or {})
    recorded = _recorded(decoding)
    penalty = None
    if not penalise_prompt:
        penalty, decoding.repetition_penalty = decoding.repetition_penalty, None
    # What is not set in a call is taken from here: so nothing unrecorded can slip in.
    loaded.generation_config = decoding
    return LoadedModel(
        model=loaded,
        tokenizer=tokenizer,
        inputs=inputs,
        generation=decoding,
        device=placement.device,
        dtype=placement.dtype,
        revision=getattr(loaded.config, "_commit_hash", None),
        context=_context(loaded.config.get_text_config()),
        penalty=penalty,
        settings={
            "dtype": str(placement.dtype).removeprefix("torch."),
            "attention": loaded.config._attn_implementation,  # noqa: SLF001 - has no public name
            "generation": recorded,
            **settings,
        },
    )


def _greedy(
    loaded: Any, tokenizer: Any, max_new_tokens: int, overrides: Mapping[str, Any]
) -> GenerationConfig:
    """Return the checkpoint's own decoding, made greedy.

    What the checkpoint sets beside sampling, such as a repetition penalty, stays: the published
    results were made with it.
    """
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


def _loading(placement: Placement) -> dict[str, Any]:
    options: dict[str, Any] = {
        "dtype": placement.dtype,
        "attn_implementation": _ATTENTION,
        "output_loading_info": True,
    }
    if placement.device.type == "cuda":
        # Straight to the GPU: a detour through main memory needs as much of that.
        options["device_map"] = {"": placement.device}
    return options


def _prepare_tokenizer(tokenizer: Any) -> None:
    tokenizer.padding_side = "left"
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token


def _weights(model: str) -> str:
    # Where a folder lies says nothing about what is in it.
    return Path(model).resolve().name if Path(model).is_dir() else model


def _context(config: Any) -> int | None:
    length = getattr(config, "max_position_embeddings", None)
    rope = getattr(config, "rope_parameters", None) or {}
    factor = rope.get("factor") if rope.get("rope_type", "default") != "default" else None
    return None if length is None else int(length * (factor or 1))


def _count(model: Any) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _check_complete(model: str, info: Mapping[str, Any]) -> None:
    # Weights that a checkpoint lacks would be drawn at random, with no more than a warning.
    missing = sorted(info.get("missing_keys") or ())
    if missing:
        raise UsageError(
            f"{model}: its checkpoint lacks {len(missing)} tensors, such as {missing[0]}"
        )


def _config_file(model: str, revision: str | None) -> dict[str, Any]:
    if Path(model).is_dir():
        file: str | Path | None = Path(model) / "config.json"
    else:
        file = cached_file(model, "config.json", revision=revision)
    if file is None:
        raise OSError("it has no config.json")
    loaded = json.loads(Path(file).read_text(encoding="utf-8"))
    if not isinstance(loaded, dict):
        raise OSError("its config.json is no object")
    return loaded


@contextmanager
def _told(model: str) -> Iterator[None]:
    """Tell in one line what transformers says in many."""
    try:
        yield
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise UsageError(f"{model}: cannot be loaded: {one_line(str(error), 220)}") from error


class _NativeInputs:
    """Turns requests into a left-padded batch with the model's own processor."""

    def __init__(
        self, processor: Any, *, system_prompt: str | None, options: Mapping[str, Any]
    ) -> None:
        self._processor = processor
        self._system_prompt = system_prompt
        self._options = options

    def __call__(self, requests: Sequence[CaptionRequest]) -> Mapping[str, Any]:
        texts = [
            self._processor.apply_chat_template(
                self._messages(request), tokenize=False, add_generation_prompt=True
            )
            for request in requests
        ]
        batch: Mapping[str, Any] = self._processor(
            text=texts,
            videos=[request.frames for request in requests],
            # Without these some processors sample again, or believe the video has 24 frames a
            # second.
            do_sample_frames=False,
            video_metadata=[_metadata(request) for request in requests],
            padding=True,
            return_tensors="pt",
            **self._options,
        )
        return batch

    def _messages(self, request: CaptionRequest) -> list[dict[str, Any]]:
        system = [{"role": "system", "content": [{"type": "text", "text": self._system_prompt}]}]
        user = {
            "role": "user",
            "content": [{"type": "video"}, {"type": "text", "text": request.prompt}],
        }
        return [*(system if self._system_prompt is not None else []), user]


def _metadata(request: CaptionRequest) -> dict[str, Any]:
    return {
        "total_num_frames": request.total_frames,
        "fps": request.fps,
        "duration": request.duration,
        "frames_indices": list(request.indices),
        "height": int(request.frames.shape[1]),
        "width": int(request.frames.shape[2]),
        "video_backend": None,
    }
