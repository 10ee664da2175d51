"""Load a model from the hub or from a folder with transformers' own classes."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

import torch
import transformers
from huggingface_hub.errors import StrictDataclassError
from transformers import (
    AutoConfig,
    AutoModelForImageTextToText,
    AutoProcessor,
    AutoTokenizer,
    GenerationConfig,
)

from capeval.captioners import llava_video
from capeval.captioners.checkpoint import Checkpoint, find_checkpoint
from capeval.captioners.checkpoint_size import CheckpointSize, quantisation
from capeval.captioners.device_maps import spread
from capeval.captioners.devices import Placement, does_not_fit, free_memory, place
from capeval.captioners.mixed_batches import JOINED, join, mixes_frame_counts
from capeval.captioners.protocol import BatchMaker, CaptionRequest, LoadedModel
from capeval.captioners.published import Family, find_family
from capeval.captioners.published.checkpoint import has_architecture
from capeval.captioners.published.tokenizers import load_tokenizer
from capeval.errors import CapevalError, UsageError
from capeval.llm.transport import check_proxies
from capeval.text import describe, one_line

_ATTENTION = "sdpa"
_DEFAULT_MAX_NEW_TOKENS = 1024
_DEFAULT_SYSTEM = "You are a helpful assistant."
# Removed once decoding is greedy, so that no record suggests that they were used.
_SAMPLING = (
    *("temperature", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff"),
    *("top_h", "max_length", "max_time"),
)
_UNRECORDED = ("_from_model_config", "transformers_version", "use_cache")


class LoadOptions(TypedDict, total=False):
    """How a model is loaded and used; absent options have the checkpoint's values.

    - `revision`: a commit, tag or branch of the hub
    - `device`: auto, cuda, mps, cpu, or one of several ("cuda:1")
    - `dtype`: auto (bfloat16, or float32 on a CPU), bfloat16, float16 or float32
    - `max_new_tokens`: tokens a caption may have; 1,024 by default, 2,048 in the preset tuna
    - `system_prompt`: replaces the chat template's own
    - `preset`: for LLaVA-Video, published (the default) or tuna
    - `generation`: changes to the checkpoint's decoding, such as `{"repetition_penalty": 1.0}`
    - `processor_options`: arguments of the processor, such as the size that it scales frames to
    - `serve`: the command that starts a server of it, named where it does not fit
    - `on_notice`: called with messages about what takes long
    """

    revision: str | None
    device: str
    dtype: str
    max_new_tokens: int | None
    system_prompt: str | None
    preset: str | None
    generation: Mapping[str, Any] | None
    processor_options: Mapping[str, Any] | None
    serve: str | None
    on_notice: Callable[[str], None]


def load_model(model: str, *, name: str, **options: Unpack[LoadOptions]) -> LoadedModel:
    """Load `model`, a hub id or a folder, that the run calls `name`; raises `UsageError`."""
    transformers.logging.set_verbosity_error()
    if not Path(model).is_dir():
        check_proxies()
    with _one_line_errors(model):
        source = find_checkpoint(model, options.get("revision"))
    family = find_family(source.published)
    if family is not None:
        return _load_published(source, family, name, options)
    if has_architecture(source.published, llava_video.ARCHITECTURE):
        return _load_llava_video(source, name, options)
    if options.get("preset") is not None:
        raise UsageError(f"{name}: it has no preset {options['preset']!r}")
    system_prompt = options.get("system_prompt")
    processing = dict(options.get("processor_options") or {})
    with _one_line_errors(model):
        config = AutoConfig.from_pretrained(model, **source.arguments)
        with torch.device("meta"):
            meta = AutoModelForImageTextToText.from_config(config)
        processor: Any = AutoProcessor.from_pretrained(model, **source.arguments)
    if getattr(processor, "video_processor", None) is None:
        raise UsageError(f"{name}: it takes no video ({config.model_type} has no video processor)")
    if getattr(processor, "chat_template", None) is None:
        raise UsageError(f"{name}: its processor has no chat template")
    # Qwen2-VL's own code limits what a video may cost; without this transformers does not.
    if hasattr(processor.video_processor, "cap_pixels_per_frame"):
        processing.setdefault("cap_pixels_per_frame", True)
    placement, loading = _place(name, source.size(meta), meta, options)
    weights = source.identity(options.get("on_notice"))
    with _one_line_errors(model):
        loaded, info = AutoModelForImageTextToText.from_pretrained(
            model, **source.arguments, **loading
        )
    _check_complete(model, info)
    _prepare_tokenizer(processor.tokenizer)
    return _finish(
        loaded,
        processor.tokenizer,
        _NativeInputs(
            processor,
            system_prompt=system_prompt,
            options=processing,
            is_joined=config.model_type in JOINED,
        ),
        placement=placement,
        revision=source.revision,
        max_new_tokens=options.get("max_new_tokens") or _DEFAULT_MAX_NEW_TOKENS,
        generation=options.get("generation"),
        mixes_frame_counts=mixes_frame_counts(config.model_type),
        settings={
            "weights": weights,
            "system_prompt": system_prompt,
            "processor": processing,
        },
    )


def _place(
    name: str, size: CheckpointSize, meta: Any, options: LoadOptions
) -> tuple[Placement, dict[str, Any]]:
    """Return where a model goes, and the arguments that load it there."""
    serve = options.get("serve")
    placement = place(
        name,
        size,
        device=options.get("device", "auto"),
        dtype=options.get("dtype", "auto"),
        serve=serve,
    )
    loading: dict[str, Any] = {
        "dtype": placement.dtype,
        "attn_implementation": _ATTENTION,
        "output_loading_info": True,
    }
    if placement.room and size.quantisation is not None:
        # Only transformers' own quantisers know how large each packed layer is.
        loading |= {"device_map": "auto", "max_memory": dict(placement.room)}
    elif placement.room:
        parts = spread(meta, placement.room, placement.dtype)
        if parts is None:
            free = sum(free_memory(device) or 0 for device in placement.devices)
            where = f"{len(placement.room)} GPUs together"
            raise does_not_fit(name, size, placement.dtype, where, free, serve)
        loading["device_map"] = parts
    elif placement.device.type == "cuda" or size.quantisation is not None:
        # Straight to the GPU: a detour through main memory needs as much of that. Packed weights
        # cannot be moved later.
        loading["device_map"] = {"": placement.device}
    return placement, loading


def _load_llava_video(source: Checkpoint, name: str, options: LoadOptions) -> LoadedModel:
    model, published = source.model, source.published
    wanted = options.get("preset") or "published"
    if wanted not in llava_video.PRESETS:
        raise UsageError(
            f"{name}: preset {wanted!r}: must be one of {', '.join(llava_video.PRESETS)}"
        )
    if options.get("processor_options"):
        raise UsageError(f"{name}: it takes no processor options")
    chosen = llava_video.PRESETS[wanted]
    config = llava_video.build_config(published, model=name, preset=chosen, folder=source.folder)
    with torch.device("meta"):
        meta = llava_video.LlavaVideoForConditionalGeneration(config)
    placement, loading = _place(name, source.size(meta), meta, options)
    weights = source.identity(options.get("on_notice"))
    with _one_line_errors(model):
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
    _check_complete(model, info)
    _prepare_tokenizer(tokenizer)
    if len(tokenizer) > config.image_token_index:
        raise UsageError(f"{name}: its tokenizer leaves no id for the frames")
    system_prompt = options.get("system_prompt")
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
        revision=source.revision,
        max_new_tokens=options.get("max_new_tokens") or chosen.max_new_tokens,
        generation=options.get("generation"),
        # Its authors' code generates from embeddings, so the penalty never sees the prompt.
        penalise_prompt=False,
        # Whether a frame is slow depends on its place in its own video.
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


def _load_published(
    source: Checkpoint, family: Family, name: str, options: LoadOptions
) -> LoadedModel:
    """Load a model whose published weights transformers has under other names."""
    model = source.model
    if options.get("preset") is not None:
        raise UsageError(f"{name}: it has no preset {options['preset']!r}")
    if options.get("processor_options"):
        raise UsageError(f"{name}: it takes no processor options")
    with _config_errors(name):
        found = family.describe(source.published, name, source.file)
        with torch.device("meta"):
            meta = found.model_class(found.config)
    with _one_line_errors(model):
        tokenizer: Any = load_tokenizer(
            model, source.file, revision=source.revision, text_config=found.config.text_config
        )
    _prepare_tokenizer(tokenizer)
    asked = options.get("system_prompt")
    system = found.system if asked is None else asked
    inputs = found.inputs(tokenizer, system)
    placement, loading = _place(name, source.size(meta), meta, options)
    weights = source.identity(options.get("on_notice"))
    with _one_line_errors(model), _conversion_errors(model):
        loaded, info = found.model_class.from_pretrained(
            model,
            revision=source.revision,
            config=found.config,
            key_mapping=dict(found.key_map),
            # Refused below, with the tensor's name.
            ignore_mismatched_sizes=True,
            **loading,
        )
    _check_known(model, info)
    _check_complete(model, info)
    overrides = dict(options.get("generation") or {})
    if found.ends is not None:
        overrides.setdefault("eos_token_id", tokenizer.convert_tokens_to_ids(list(found.ends)))
    made = _finish(
        loaded,
        tokenizer,
        inputs,
        placement=placement,
        revision=source.revision,
        max_new_tokens=options.get("max_new_tokens") or _DEFAULT_MAX_NEW_TOKENS,
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


def _check_known(model: str, info: Mapping[str, Any]) -> None:
    # Weights that nothing reads mean that the checkpoint is another model's.
    unknown = sorted(info.get("unexpected_keys") or ())
    if unknown:
        raise UsageError(
            f"{model}: its checkpoint has {len(unknown)} unknown tensors, such as {unknown[0]}"
        )
    wrong = sorted(str(key[0]) for key in info.get("mismatched_keys") or ())
    if wrong:
        raise UsageError(
            f"{model}: its checkpoint has {len(wrong)} tensors of another shape than its "
            f"config.json states, such as {wrong[0]}"
        )


def _slow_and_fast(config: llava_video.LlavaVideoConfig) -> dict[str, Any]:
    # Absent where all frames are alike, so that earlier runs of such models can be continued.
    every = config.faster_token_stride
    return {"faster_token_stride": every} if every else {}


def _finish(
    loaded: Any,
    tokenizer: Any,
    inputs: BatchMaker,
    *,
    placement: Placement,
    revision: str | None,
    max_new_tokens: int,
    generation: Mapping[str, Any] | None,
    settings: Mapping[str, Any],
    penalise_prompt: bool = True,
    mixes_frame_counts: bool = False,
) -> LoadedModel:
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
        context=_context(loaded.config.get_text_config()),
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


def _prepare_tokenizer(tokenizer: Any) -> None:
    tokenizer.padding_side = "left"
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token


def _context(config: Any) -> int | None:
    length = getattr(config, "max_position_embeddings", None)
    rope = getattr(config, "rope_parameters", None) or {}
    factor = rope.get("factor") if rope.get("rope_type", "default") != "default" else None
    return None if length is None else int(length * (factor or 1))


def _check_complete(model: str, info: Mapping[str, Any]) -> None:
    # Missing weights would be initialised at random, with only a warning.
    missing = sorted(info.get("missing_keys") or ())
    if missing:
        raise UsageError(
            f"{model}: its checkpoint lacks {len(missing)} tensors, such as {missing[0]}"
        )


@contextmanager
def _one_line_errors(model: str) -> Iterator[None]:
    """Turn transformers' multi-line errors into one line."""
    try:
        yield
    except (OSError, ValueError, KeyError, ImportError, StrictDataclassError) as error:
        raise UsageError(f"{model}: cannot be loaded: {one_line(str(error), 220)}") from error


class _NativeInputs:
    """Turns requests into a left-padded batch with the model's own processor."""

    def __init__(
        self,
        processor: Any,
        *,
        system_prompt: str | None,
        options: Mapping[str, Any],
        is_joined: bool = False,
    ) -> None:
        self._processor, self._system_prompt = processor, system_prompt
        self._options, self._is_joined = options, is_joined

    def __call__(self, requests: Sequence[CaptionRequest]) -> Mapping[str, Any]:
        if self._is_joined and len({len(request.frames) for request in requests}) > 1:
            padding = int(self._processor.tokenizer.pad_token_id)
            return join([self._batch([request]) for request in requests], padding=padding)
        return self._batch(requests)

    def _batch(self, requests: Sequence[CaptionRequest]) -> Mapping[str, Any]:
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
