"""InternVL2 from its published checkpoints, on transformers' InternVL.

The checkpoints (OpenGVLab/InternVL2-*, architecture `InternVLChatModel`) are an InternViT tower, a
projector and a language model: InternLM2 (2B, 8B, 26B), Qwen2 (1B) or Llama (40B, Llama3-76B).
InternLM2 is Llama with other names and with queries, keys and values in one matrix: for each
key-value head the queries of its group, then its key, then its value. transformers' own class is
published with converted weights for InternVL3 only, and no converter comes with it.

A frame of a video is one tile: it is scaled to a square, and becomes 256 tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from PIL import Image
from transformers import (
    InternVLConfig,
    InternVLForConditionalGeneration,
    InternVLVisionConfig,
    LlamaConfig,
    Qwen2Config,
)
from transformers.conversion_mapping import register_checkpoint_conversion_mapping
from transformers.core_model_loading import Chunk, ConversionOps, WeightConverter

from capeval.captioners.mixed_batches import left_padded
from capeval.captioners.protocol import CaptionRequest
from capeval.captioners.published.checkpoint import (
    Family,
    Files,
    Pixels,
    PublishedCheckpoint,
    has_architecture,
    refuse_placeholder,
    require,
    rope,
    text_fields,
)
from capeval.errors import UsageError

ARCHITECTURE = "InternVLChatModel"

_TOWER = "model.vision_tower."
_LAYER = r"^vision_model\.encoder\.layers\.(\d+)\."
_TEXT = "model.language_model."
_TEXT_LAYER = r"^language_model\.model\.layers\.(\d+)\."

KEY_MAP = {
    r"^vision_model\.embeddings\.class_embedding$": f"{_TOWER}embeddings.cls_token",
    r"^vision_model\.embeddings\.position_embedding$": f"{_TOWER}embeddings.position_embeddings",
    r"^vision_model\.embeddings\.patch_embedding\.": (
        f"{_TOWER}embeddings.patch_embeddings.projection."
    ),
    rf"{_LAYER}norm1\.": rf"{_TOWER}encoder.layer.\1.layernorm_before.",
    rf"{_LAYER}norm2\.": rf"{_TOWER}encoder.layer.\1.layernorm_after.",
    rf"{_LAYER}ls(?=1)": rf"{_TOWER}encoder.layer.\1.lambda_",
    rf"{_LAYER}ls(?=2)": rf"{_TOWER}encoder.layer.\1.lambda_",
    rf"{_LAYER}mlp\.": rf"{_TOWER}encoder.layer.\1.mlp.",
    rf"{_LAYER}attn\.proj\.": rf"{_TOWER}encoder.layer.\1.attention.projection_layer.",
    rf"{_LAYER}attn\.(?=qkv|[qk]_norm)": rf"{_TOWER}encoder.layer.\1.attention.",
    r"^mlp1\.0\.": "model.multi_modal_projector.layer_norm.",
    r"^mlp1\.1\.": "model.multi_modal_projector.linear_1.",
    r"^mlp1\.3\.": "model.multi_modal_projector.linear_2.",
    # InternLM2's own names.
    r"^language_model\.model\.tok_embeddings\.": f"{_TEXT}embed_tokens.",
    r"^language_model\.output\.": "lm_head.",
    rf"{_TEXT_LAYER}attention_norm\.": rf"{_TEXT}layers.\1.input_layernorm.",
    rf"{_TEXT_LAYER}ffn_norm\.": rf"{_TEXT}layers.\1.post_attention_layernorm.",
    rf"{_TEXT_LAYER}attention\.wqkv\.": rf"{_TEXT}layers.\1.self_attn.wqkv.",
    rf"{_TEXT_LAYER}attention\.wo\.": rf"{_TEXT}layers.\1.self_attn.o_proj.",
    rf"{_TEXT_LAYER}feed_forward\.w1\.": rf"{_TEXT}layers.\1.mlp.gate_proj.",
    rf"{_TEXT_LAYER}feed_forward\.w3\.": rf"{_TEXT}layers.\1.mlp.up_proj.",
    rf"{_TEXT_LAYER}feed_forward\.w2\.": rf"{_TEXT}layers.\1.mlp.down_proj.",
    # Those of Llama and Qwen2.
    r"^language_model\.lm_head\.": "lm_head.",
    r"^language_model\.model\.(embed_tokens|layers|norm)\.": rf"{_TEXT}\1.",
}
"""Names in the published checkpoints, and what transformers calls them; applied in this order."""

SYSTEM = (
    "你是由上海人工智能实验室联合商汤科技开发的书生多模态大模型，英文名叫InternVL, "
    "是一个有用无害的人工智能助手。"
)
"""The system prompt of both chat templates of the models."""

_TEMPLATES = ("internlm2-chat", "Hermes-2")
_END = "<|im_end|>"
_FRAME = "<IMG_CONTEXT>"
# ImageNet's.
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# What transformers' norms of queries and keys use whatever the configuration says.
_NORM_EPS = 1e-6


class SplitPackedAttention(ConversionOps):  # type: ignore[misc, unused-ignore]
    """Splits InternLM2's `wqkv` into the queries, the keys and the values of all heads."""

    def convert(  # noqa: D102 - transformers' interface
        self,
        input_dict: dict[str, Any],
        source_patterns: list[str],  # noqa: ARG002
        target_patterns: list[str],
        **kwargs: Any,
    ) -> dict[str, torch.Tensor]:
        (packed,) = (t[0] if isinstance(t, list) else t for t in input_dict.values())
        text = kwargs["config"].get_text_config()
        three = split_packed(packed, text.num_attention_heads, text.num_key_value_heads)
        return dict(zip(target_patterns, three, strict=True))


def split_packed(
    packed: torch.Tensor, heads: int, key_value_heads: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return queries, keys and values of a packed weight or bias, in the order of the heads.

    >>> split_packed(torch.arange(8), heads=4, key_value_heads=2)
    (tensor([0, 1, 4, 5]), tensor([2, 6]), tensor([3, 7]))
    """
    grouped = packed.unflatten(0, (key_value_heads, heads // key_value_heads + 2, -1))
    queries, keys, values = grouped[:, :-2], grouped[:, -2:-1], grouped[:, -1:]
    return queries.flatten(0, 2), keys.flatten(0, 2), values.flatten(0, 2)


class InternVL2ForConditionalGeneration(InternVLForConditionalGeneration):
    """transformers' InternVL, whose name selects the converters of the published tensors."""


def _three(module: str, parameter: str) -> list[str]:
    return [f"{module}.{one}_proj.{parameter}" for one in "qkv"]


register_checkpoint_conversion_mapping(
    InternVL2ForConditionalGeneration.__name__,
    [
        converter
        for parameter in ("weight", "bias")
        for converter in (
            WeightConverter(
                f"attention.qkv.{parameter}", _three("attention", parameter), [Chunk(dim=0)]
            ),
            WeightConverter(
                f"self_attn.wqkv.{parameter}",
                _three("self_attn", parameter),
                [SplitPackedAttention()],
            ),
        )
    ],
    overwrite=True,
)


def describe(published: Mapping[str, Any], model: str, files: Files) -> PublishedCheckpoint:
    """Return the checkpoint that a config.json describes; raises `UsageError`."""
    del files
    config = build_config(published, model)
    template = published["template"]
    side = int(config.vision_config.image_size[0])
    language = published["llm_config"]["architectures"][0]

    def inputs(tokenizer: Any, system: str | None) -> InternVL2Inputs:
        made = InternVL2Inputs(
            tokenizer,
            tokens=config.image_seq_length,
            side=side,
            system=system or "",
            model=model,
        )
        # The model is made after this, with the tokenizer's id.
        config.image_token_id = made.image_token_id
        return made

    return PublishedCheckpoint(
        config=config,
        model_class=InternVL2ForConditionalGeneration,
        key_map=KEY_MAP,
        inputs=inputs,
        system=SYSTEM,
        # Its authors' code passes this one alone.
        ends=(_END,),
        # 32 frames are 8,192 tokens: at least as many as the Llama models' positions.
        enforces_context=language != "LlamaForCausalLM",
        settings={"template": template},
    )


def build_config(published: Mapping[str, Any], model: str) -> InternVLConfig:
    """Return transformers' configuration; raises `UsageError` for a model built otherwise."""
    require(model, published, select_layer=(-1,), ps_version=("v2",), template=_TEMPLATES)
    vision, text = (_table(published, name, model) for name in ("vision_config", "llm_config"))
    require(
        model, vision, "vision_config.", norm_type=("layer_norm", "rms_norm"), hidden_act=("gelu",)
    )
    eps = float(vision.get("layer_norm_eps", _NORM_EPS))
    if vision.get("qk_normalization") and eps != _NORM_EPS:
        raise UsageError(
            f"{model}: config.json: vision_config.layer_norm_eps: {eps} is not supported; "
            f"must be {_NORM_EPS}"
        )
    side = int(published.get("force_image_size") or vision["image_size"])
    # The positions are learned for the tower's own size; another would interpolate them.
    require(model, vision, "vision_config.", image_size=(side,))
    patch, ratio = int(vision["patch_size"]), float(published.get("downsample_ratio", 0.5))
    tower = InternVLVisionConfig(
        **{
            name: vision[name]
            for name in ("hidden_size", "num_hidden_layers", "num_attention_heads")
        },
        intermediate_size=vision["intermediate_size"],
        attention_bias=bool(vision.get("qkv_bias")),
        use_qk_norm=bool(vision.get("qk_normalization")),
        norm_type=vision["norm_type"],
        layer_norm_eps=eps,
        hidden_act="gelu",
        image_size=[side, side],
        patch_size=[patch, patch],
        use_absolute_position_embeddings=True,
        use_mean_pooling=True,
    )
    return InternVLConfig(
        vision_config=tower,
        text_config=_text_config(text, model),
        # Replaced by the tokenizer's once that is loaded.
        image_token_id=int(text["vocab_size"]) - 1,
        image_seq_length=int((side // patch) ** 2 * ratio**2),
        downsample_ratio=ratio,
        projector_hidden_act="gelu",
        vision_feature_layer=-1,
        vision_feature_select_strategy="default",
        tie_word_embeddings=False,
    )


def _table(published: Mapping[str, Any], name: str, model: str) -> Mapping[str, Any]:
    found = published.get(name)
    if not isinstance(found, Mapping):
        raise UsageError(f"{model}: config.json: {name}: must be an object")
    return found


def _text_config(text: Mapping[str, Any], model: str) -> Any:
    architecture = (text.get("architectures") or ["none"])[0]
    fields = text_fields(text)
    match architecture:
        case "InternLM2ForCausalLM":
            bias = bool(text.get("bias", True))
            return LlamaConfig(
                **fields,
                rope_parameters=rope(text, 10_000.0),
                attention_bias=bias,
                tie_word_embeddings=False,
            )
        case "LlamaForCausalLM":
            return LlamaConfig(
                **fields,
                rope_parameters=rope(text, 10_000.0),
                attention_bias=bool(text.get("attention_bias", False)),
                tie_word_embeddings=False,
            )
        case "Qwen2ForCausalLM":
            names = ("sliding_window", "use_sliding_window", "max_window_layers")
            return Qwen2Config(
                **fields,
                **text_fields({name: text.get(name) for name in names}, *names),
                rope_parameters=rope(text, 1e6),
                tie_word_embeddings=False,
            )
    raise UsageError(
        f"{model}: config.json: llm_config.architectures: {architecture!r} is not supported; must "
        "be InternLM2ForCausalLM, LlamaForCausalLM or Qwen2ForCausalLM"
    )


def chat_prompt(prompt: str, *, frames: int, tokens: int, system: str) -> str:
    """Return the whole text, with `tokens` placeholders for each frame.

    >>> text = chat_prompt("What happens?", frames=2, tokens=1, system="S")
    >>> print(text.replace("<|im_end|>", "|"))
    <|im_start|>system
    S|<|im_start|>user
    Frame1: <img><IMG_CONTEXT></img>
    Frame2: <img><IMG_CONTEXT></img>
    What happens?|<|im_start|>assistant
    <BLANKLINE>
    """
    image = f"<img>{_FRAME * tokens}</img>"
    shown = "".join(f"Frame{at + 1}: {image}\n" for at in range(frames))
    return (
        f"<|im_start|>system\n{system}{_END}<|im_start|>user\n{shown}{prompt}{_END}"
        "<|im_start|>assistant\n"
    )


class InternVL2Inputs:
    """Turns requests into a left-padded batch of token ids and one tile per frame."""

    def __init__(self, tokenizer: Any, *, tokens: int, side: int, system: str, model: str) -> None:
        self._tokenizer, self._tokens, self._system = tokenizer, tokens, system
        self._pixels = Pixels(_squashed(side), _MEAN, _STD)
        known = tokenizer.get_vocab()
        for token in (_FRAME, "<img>", "</img>", _END):
            if token not in known:
                raise UsageError(f"{model}: its tokenizer has no token {token}")
        if _FRAME in system:
            raise UsageError(
                f"{model}: its system prompt contains {_FRAME}, which stands for a frame"
            )
        self.image_token_id: int = known[_FRAME]

    def __call__(self, requests: Sequence[CaptionRequest]) -> Mapping[str, torch.Tensor]:
        """Return `input_ids`, `attention_mask` and `pixel_values`; raises `ValueError`."""
        rows = [self._tokenizer(self._text(request))["input_ids"] for request in requests]
        return {
            **left_padded(rows, self._tokenizer.pad_token_id),
            **self._pixels(requests),
        }

    def _text(self, request: CaptionRequest) -> str:
        refuse_placeholder(request, _FRAME)
        frames = len(request.frames)
        system = self._system if request.system is None else request.system
        return chat_prompt(request.prompt, frames=frames, tokens=self._tokens, system=system)


def _squashed(side: int) -> Callable[[Image.Image], Image.Image]:
    return lambda image: image.resize((side, side), Image.Resampling.BICUBIC)


FAMILY = Family(
    name="internvl2",
    matches=lambda published: has_architecture(published, ARCHITECTURE),
    describe=describe,
)
