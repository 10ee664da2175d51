"""Tiny checkpoints of the classes of transformers 5, made as those of `tiny` are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from PIL import ImageFont
from tokenizers import processors

from tests.captioners.tiny import (
    _MROPE,
    _QWEN,
    _QWEN_TEMPLATE,
    _TURNS,
    _qwen_ids,
    _save,
    _text,
    _tokenizer,
    qwen2_tokenizer,
)

_PATCH_14 = {"shortest_edge": 56 * 56, "longest_edge": 64 * 112 * 112}
_PATCH_16 = {"shortest_edge": 64 * 64, "longest_edge": 64 * 128 * 128}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
_QWEN3_VISION = {
    "depth": 2,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_heads": 2,
    "out_hidden_size": 64,
    "num_position_embeddings": 64,
}
# Every other layer is a recurrent one, whose state must not see the padding.
_DELTA_NET = {
    "head_dim": 16,
    "rope_parameters": {**_MROPE, "partial_rotary_factor": 0.5, "mrope_section": [2, 1, 1]},
    "layer_types": ["linear_attention", "full_attention"],
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}


def make(family: str, folder: Path) -> Path:
    """Save a tiny checkpoint of `family` under `folder`."""
    torch.manual_seed(7)
    target = folder / family
    _MAKERS[family](target)
    return target


def _qwen3_processor(tokenizer: Any, template: str = _QWEN_TEMPLATE) -> Any:
    return hf.Qwen3VLProcessor(
        image_processor=hf.Qwen2VLImageProcessor(size=_PATCH_16, patch_size=16),
        tokenizer=tokenizer,
        video_processor=hf.Qwen3VLVideoProcessor(size=_PATCH_16),
        chat_template=template,
    )


def _qwen3_vl_moe(folder: Path) -> None:
    tokenizer = _tokenizer(*_QWEN)
    config = hf.Qwen3VLMoeConfig(
        text_config=_text(
            model_type="qwen3_vl_moe_text", rope_parameters=_MROPE, head_dim=16, **_EXPERTS
        ),
        vision_config={**_QWEN3_VISION, "deepstack_visual_indexes": [0]},
        **_qwen_ids(tokenizer),
    )
    _save(hf.Qwen3VLMoeForConditionalGeneration(config), _qwen3_processor(tokenizer), folder)


def _qwen3_5_tokenizer() -> Any:
    # transformers rebuilds this family's tokenizer as a byte-level one, whatever was saved.
    tokenizer = qwen2_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": [*_QWEN]})
    return tokenizer


def _qwen3_5(folder: Path) -> None:
    tokenizer = _qwen3_5_tokenizer()
    config = hf.Qwen3_5Config(
        text_config=_text(model_type="qwen3_5_text", **_DELTA_NET),
        vision_config=_QWEN3_VISION,
        **_qwen_ids(tokenizer),
    )
    _save(hf.Qwen3_5ForConditionalGeneration(config), _qwen3_processor(tokenizer), folder)


def _qwen3_5_moe(folder: Path) -> None:
    tokenizer = _qwen3_5_tokenizer()
    config = hf.Qwen3_5MoeConfig(
        text_config=_text(
            model_type="qwen3_5_moe_text",
            shared_expert_intermediate_size=32,
            **_EXPERTS,
            **_DELTA_NET,
        ),
        vision_config=_QWEN3_VISION,
        **_qwen_ids(tokenizer),
    )
    _save(hf.Qwen3_5MoeForConditionalGeneration(config), _qwen3_processor(tokenizer), folder)


_GLM = (
    *("<|begin_of_image|>", "<|end_of_image|>", "<|begin_of_video|>", "<|end_of_video|>"),
    *("<|image|>", "<|video|>"),
)
_GLM_TEMPLATE = _TURNS.replace("VIDEO", "<|begin_of_video|><|video|><|end_of_video|>")
_GLM_ROPE = {**_MROPE, "partial_rotary_factor": 0.5, "mrope_section": [1, 1, 2]}
_GLM_VISION = {
    "depth": 2,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_heads": 2,
    "out_hidden_size": 64,
    "image_size": 112,
}


def _glm_ids(tokenizer: Any) -> dict[str, int]:
    names = (
        *("image_start_token_id", "image_end_token_id"),
        *("video_start_token_id", "video_end_token_id", "image_token_id", "video_token_id"),
    )
    return dict(zip(names, tokenizer.convert_tokens_to_ids(_GLM), strict=True))


def _glm4v_processor(tokenizer: Any) -> Any:
    return hf.Glm4vProcessor(
        image_processor=hf.Glm4vImageProcessor(size=_PATCH_14),
        tokenizer=tokenizer,
        video_processor=hf.Glm4vVideoProcessor(size=_PATCH_14),
        chat_template=_GLM_TEMPLATE,
    )


def _glm46v_processor(tokenizer: Any) -> Any:
    return hf.Glm46VProcessor(
        image_processor=hf.Glm46VImageProcessor(size=_PATCH_14),
        tokenizer=tokenizer,
        video_processor=hf.Glm46VVideoProcessor(size=_PATCH_14),
        chat_template=_GLM_TEMPLATE,
    )


def _glm4v(folder: Path, processor: Callable[[Any], Any] = _glm4v_processor) -> None:
    tokenizer = _tokenizer(*_GLM)
    config = hf.Glm4vConfig(
        text_config=_text(model_type="glm4v_text", rope_parameters=_GLM_ROPE),
        vision_config=_GLM_VISION,
        **_glm_ids(tokenizer),
    )
    _save(hf.Glm4vForConditionalGeneration(config), processor(tokenizer), folder)


def _glm4v_moe(folder: Path, processor: Callable[[Any], Any] = _glm4v_processor) -> None:
    tokenizer = _tokenizer(*_GLM)
    config = hf.Glm4vMoeConfig(
        text_config=_text(
            model_type="glm4v_moe_text",
            rope_parameters=_GLM_ROPE,
            n_routed_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=32,
            first_k_dense_replace=1,
        ),
        vision_config=_GLM_VISION,
        **_glm_ids(tokenizer),
    )
    _save(hf.Glm4vMoeForConditionalGeneration(config), processor(tokenizer), folder)


_GEMMA = {
    "image_token": "<|image|>",
    "boi_token": "<|image>",
    "eoi_token": "<image|>",
    "audio_token": "<|audio|>",
    "boa_token": "<|audio>",
    "eoa_token": "<audio|>",
}


# As the published template and tokenizer do, both of these put the first token in front.
_GEMMA_TEMPLATE = "<bos>" + _TURNS.replace("VIDEO", "<|video|>")


def _gemma4_tokenizer() -> Any:
    tokenizer = _tokenizer("<bos>", "<|video|>", *_GEMMA.values(), **_GEMMA)
    tokenizer.bos_token = "<bos>"
    first = ("<bos>", tokenizer.convert_tokens_to_ids("<bos>"))
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", special_tokens=[first]
    )
    return tokenizer


def _gemma4_ids(tokenizer: Any) -> dict[str, int]:
    ids = tokenizer.convert_tokens_to_ids
    return {
        "image_token_id": ids("<|image|>"),
        "video_token_id": ids("<|video|>"),
        "audio_token_id": ids("<|audio|>"),
        "boi_token_id": ids("<|image>"),
        "eoi_token_id": ids("<image|>"),
    }


def _gemma4_text(model_type: str, **changed: Any) -> dict[str, Any]:
    return {
        **_text(model_type=model_type, tie_word_embeddings=True, rope_parameters=None),
        "head_dim": 16,
        "global_head_dim": 16,
        "sliding_window": 64,
        "layer_types": ["sliding_attention", "full_attention"],
        **changed,
    }


def _save_sharpened(model: Any, processor: Any, folder: Path) -> None:
    # Gemma's queries and keys are normalised: without this, attention would hardly see the frames.
    for name, parameter in model.named_parameters():
        if name.endswith(("q_norm.weight", "k_norm.weight")):
            torch.nn.init.constant_(parameter, 4.0)
    _save(model, processor, folder)


def _gemma4(folder: Path, **text: Any) -> None:
    tokenizer = _gemma4_tokenizer()
    vision = {"patch_size": 4, "pooling_kernel_size": 3}
    processor = hf.Gemma4Processor(
        feature_extractor=hf.Gemma4AudioFeatureExtractor(),
        image_processor=hf.Gemma4ImageProcessor(**vision),
        tokenizer=tokenizer,
        video_processor=hf.Gemma4VideoProcessor(**vision),
        chat_template=_GEMMA_TEMPLATE,
    )
    config = hf.Gemma4Config(
        text_config=_gemma4_text("gemma4_text", **text),
        vision_config={
            **vision,
            "head_dim": 16,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "position_embedding_size": 64,
        },
        audio_config=None,
        **_gemma4_ids(tokenizer),
    )
    _save_sharpened(hf.Gemma4ForConditionalGeneration(config), processor, folder)


def _gemma4_small(folder: Path) -> None:
    _gemma4(folder, hidden_size_per_layer_input=8, vocab_size_per_layer_input=384)


def _gemma4_moe(folder: Path) -> None:
    _gemma4(
        folder,
        hidden_size_per_layer_input=0,
        use_bidirectional_attention="vision",
        enable_moe_block=True,
        num_experts=4,
        top_k_experts=2,
        moe_intermediate_size=32,
    )


def _gemma4_unified(folder: Path) -> None:
    tokenizer = _gemma4_tokenizer()
    vision = {"patch_size": 4, "pooling_kernel_size": 3}
    processor = hf.Gemma4UnifiedProcessor(
        feature_extractor=hf.Gemma4UnifiedAudioFeatureExtractor(),
        image_processor=hf.Gemma4UnifiedImageProcessor(**vision),
        tokenizer=tokenizer,
        video_processor=hf.Gemma4UnifiedVideoProcessor(**vision),
        chat_template=_GEMMA_TEMPLATE,
    )
    config = hf.Gemma4UnifiedConfig(
        text_config=_gemma4_text("gemma4_unified_text"),
        vision_config={
            **vision,
            "mm_embed_dim": 32,
            "mm_posemb_size": 64,
            "output_proj_dims": 32,
        },
        audio_config=None,
        **_gemma4_ids(tokenizer),
    )
    _save_sharpened(hf.Gemma4UnifiedForConditionalGeneration(config), processor, folder)


_MOLMO = (
    *("<im_patch>", "<im_col>", "<im_start>", "<low_res_im_start>", "<frame_start>"),
    *("<im_end>", "<frame_end>", "<im_low>", "<|image|>", "<|video|>"),
)


def _molmo2(folder: Path) -> None:
    tokenizer = _tokenizer(*_MOLMO)
    size = {"height": 56, "width": 56}
    processor = hf.Molmo2Processor(
        image_processor=hf.Molmo2ImageProcessor(size=size),
        video_processor=hf.Molmo2VideoProcessor(size=size, pooling_size=[2, 2]),
        tokenizer=tokenizer,
        chat_template=_TURNS.replace("VIDEO", "<|video|>"),
    )
    ids = tokenizer.convert_tokens_to_ids
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16, "hidden_size": 32}
    config = hf.Molmo2Config(
        text_config={**_text(model_type="molmo2_text"), "head_dim": 16, "additional_vocab_size": 8},
        vision_config={
            **heads,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "image_size": [56, 56],
        },
        adapter_config={
            **heads,
            "vision_feature_layer": [1, 0],
            "intermediate_size": 64,
            "text_hidden_size": 64,
        },
        image_start_token_id=ids("<im_start>"),
        low_res_image_start_token_id=ids("<low_res_im_start>"),
        image_end_token_id=ids("<im_end>"),
        image_patch_id=ids("<im_patch>"),
        frame_start_token_id=ids("<frame_start>"),
        frame_end_token_id=ids("<frame_end>"),
    )
    _save(hf.Molmo2ForConditionalGeneration(config), processor, folder)


def _minicpm_v_4_6(folder: Path) -> None:
    special = {
        "image_token": "<|image_pad|>",
        "video_token": "<|video_pad|>",
        "image_start_token": "<image>",
        "image_end_token": "</image>",
        "slice_start_token": "<slice>",
        "slice_end_token": "</slice>",
        "image_id_start_token": "<image_id>",
        "image_id_end_token": "</image_id>",
    }
    tokenizer = _tokenizer(*special.values(), **special)
    slicing = {"scale_resolution": 112, "max_slice_nums": 1}
    processor = hf.MiniCPMV4_6Processor(
        image_processor=hf.MiniCPMV4_6ImageProcessor(**slicing),
        video_processor=hf.MiniCPMV4_6VideoProcessor(**slicing),
        tokenizer=tokenizer,
        chat_template=_TURNS.replace("VIDEO", "<|video_pad|>"),
    )
    config = hf.MiniCPMV4_6Config(
        text_config=_text(model_type="qwen3_5_text", **_DELTA_NET),
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 112,
            "patch_size": 14,
        },
        insert_layer_id=0,
        image_size=112,
        image_token_id=tokenizer.convert_tokens_to_ids("<|image_pad|>"),
        video_token_id=tokenizer.convert_tokens_to_ids("<|video_pad|>"),
    )
    _save(hf.MiniCPMV4_6ForConditionalGeneration(config), processor, folder)


def _kimi_k2_5(folder: Path) -> None:
    special = {"image_token": "<|media_pad|>", "video_token": "<|kimi_k25_video_placeholder|>"}
    begin, content, end = "<|media_begin|>", "<|media_content|>", "<|media_end|>"
    tokenizer = _tokenizer(*special.values(), begin, content, end, **special)
    processor = hf.Kimi_K25Processor(
        image_processor=hf.Kimi_K25ImageProcessor(),
        tokenizer=tokenizer,
        video_processor=hf.Kimi_K25VideoProcessor(size={"max_height": 4, "max_width": 4}),
        chat_template=_TURNS.replace("VIDEO", special["video_token"]),
    )
    ids = tokenizer.convert_tokens_to_ids
    config = hf.Kimi_K25Config(
        text_config=_text(
            model_type="deepseek_v3",
            num_key_value_heads=4,
            n_routed_experts=4,
            num_experts_per_tok=2,
            n_group=1,
            topk_group=1,
            first_k_dense_replace=1,
            moe_intermediate_size=32,
            q_lora_rank=16,
            kv_lora_rank=16,
            qk_nope_head_dim=8,
            qk_rope_head_dim=8,
            v_head_dim=16,
        ),
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "pos_emb_height": 8,
            "pos_emb_width": 8,
        },
        projection_hidden_size=32,
        tie_word_embeddings=False,
        image_token_id=ids(special["image_token"]),
        video_token_id=ids(special["video_token"]),
        vision_start_token_id=ids(begin),
        vision_end_token_id=ids(end),
    )
    _save(hf.Kimi_K25ForConditionalGeneration(config), processor, folder)


def _ernie_4_5_vl(folder: Path) -> None:
    special = {
        "image_token": "<|IMAGE_PLACEHOLDER|>",
        "image_start_token": "<|IMAGE_START|>",
        "image_end_token": "<|IMAGE_END|>",
        "video_token": "<|VIDEO_PLACEHOLDER|>",
        "video_start_token": "<|VIDEO_START|>",
        "video_end_token": "<|VIDEO_END|>",
    }
    tokenizer = _tokenizer(*special.values(), **special)
    # The times are written into the frames, with a font that the checkpoint carries.
    folder.mkdir(parents=True)
    font = folder / "font.ttf"
    font.write_bytes(ImageFont.load_default(10).font_bytes)  # type: ignore[union-attr]
    processor = hf.Ernie4_5_VLMoeProcessor(
        image_processor=hf.Ernie4_5_VLMoeImageProcessor(size=_PATCH_14),
        tokenizer=tokenizer,
        video_processor=hf.Ernie4_5_VLMoeVideoProcessor(size=_PATCH_14, font=str(font)),
        chat_template=_TURNS.replace("VIDEO", "<|VIDEO_START|><|VIDEO_PLACEHOLDER|><|VIDEO_END|>"),
    )
    config = hf.Ernie4_5_VLMoeConfig(
        text_config=_text(
            model_type="ernie4_5_vl_moe_text",
            rope_parameters={**_MROPE, "mrope_section": [3, 3, 2]},
            moe_num_experts=4,
            moe_k=2,
            moe_num_shared_experts=1,
            moe_intermediate_size=[32, 16],
        ),
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
        },
        tie_word_embeddings=False,
        **{f"{name}_id": tokenizer.convert_tokens_to_ids(token) for name, token in special.items()},
    )
    _save(hf.Ernie4_5_VLMoeForConditionalGeneration(config), processor, folder)


def _perception_lm(folder: Path) -> None:
    special = {"image_token": "<|image|>", "video_token": "<|video|>"}
    tokenizer = _tokenizer(*special.values(), **special)
    processor = hf.PerceptionLMProcessor(
        video_processor=hf.PerceptionLMVideoProcessor(size={"height": 56, "width": 56}),
        image_processor=hf.PerceptionLMImageProcessor(tile_size=56),
        tokenizer=tokenizer,
        patch_size=14,
        pooling_ratio=2,
        chat_template=_TURNS.replace("VIDEO", "<|video|>"),
    )
    config = hf.PerceptionLMConfig(
        vision_config={
            "model_type": "timm_wrapper",
            "architecture": "vit_pe_core_large_patch14_336",
            "do_pooling": False,
            "model_args": {
                "embed_dim": 32,
                "num_heads": 2,
                "img_size": [56, 56],
                "depth": 2,
                "global_pool": "",
                "use_post_transformer_norm": False,
                "init_values": 0.1,
                "ref_feat_shape": [4, 4],
            },
        },
        text_config=_text(model_type="llama"),
        vision_use_cls_token=True,
        projector_pooling_ratio=2,
        image_token_id=tokenizer.convert_tokens_to_ids("<|image|>"),
        video_token_id=tokenizer.convert_tokens_to_ids("<|video|>"),
        tie_word_embeddings=False,
    )
    _save(hf.PerceptionLMForConditionalGeneration(config), processor, folder)


_OMNI = {
    "image_token": "<|IMAGE|>",
    "audio_token": "<|AUDIO|>",
    "video_token": "<|VIDEO|>",
    "vision_bos_token": "<|vision_bos|>",
    "vision_eos_token": "<|vision_eos|>",
    "audio_bos_token": "<|audio_bos|>",
    "audio_eos_token": "<|audio_eos|>",
}
_OMNI_TEMPLATE = _TURNS.replace("VIDEO", "<|vision_bos|><|VIDEO|><|vision_eos|>")
_OMNI_AUDIO = {
    "num_mel_bins": 8,
    "encoder_layers": 1,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "d_model": 16,
    "max_source_positions": 100,
    "output_dim": 64,
}


def _qwen2_5_omni(folder: Path) -> None:
    tokenizer = _tokenizer(*_OMNI.values(), **_OMNI)
    processor = hf.Qwen2_5OmniProcessor(
        image_processor=hf.Qwen2VLImageProcessor(size=_PATCH_14),
        video_processor=hf.Qwen2VLVideoProcessor(size=_PATCH_14),
        feature_extractor=hf.WhisperFeatureExtractor(feature_size=8),
        tokenizer=tokenizer,
        chat_template=_OMNI_TEMPLATE,
    )
    ids = tokenizer.convert_tokens_to_ids
    config = hf.Qwen2_5OmniConfig(
        thinker_config={
            "audio_config": _OMNI_AUDIO,
            "vision_config": {
                "depth": 2,
                "hidden_size": 32,
                "intermediate_size": 64,
                "num_heads": 2,
                "out_hidden_size": 64,
                "window_size": 56,
                "fullatt_block_indexes": [1],
            },
            "text_config": _text(model_type="qwen2_5_omni_text", rope_parameters=_MROPE),
            "audio_token_index": ids("<|AUDIO|>"),
            "image_token_index": ids("<|IMAGE|>"),
            "video_token_index": ids("<|VIDEO|>"),
            "vision_start_token_id": ids("<|vision_bos|>"),
            "vision_end_token_id": ids("<|vision_eos|>"),
            "audio_start_token_id": ids("<|audio_bos|>"),
            "audio_end_token_id": ids("<|audio_eos|>"),
        },
        enable_audio_output=False,
    )
    _save(hf.Qwen2_5OmniForConditionalGeneration(config), processor, folder)


def _qwen3_omni(folder: Path) -> None:
    tokenizer = _tokenizer(*_OMNI.values(), **_OMNI)
    processor = hf.Qwen3OmniMoeProcessor(
        image_processor=hf.Qwen2VLImageProcessor(size=_PATCH_16, patch_size=16),
        video_processor=hf.Qwen2VLVideoProcessor(size=_PATCH_16, patch_size=16),
        feature_extractor=hf.WhisperFeatureExtractor(feature_size=8),
        tokenizer=tokenizer,
        chat_template=_OMNI_TEMPLATE,
    )
    ids = tokenizer.convert_tokens_to_ids
    config = hf.Qwen3OmniMoeConfig(
        thinker_config={
            "audio_config": {**_OMNI_AUDIO, "downsample_hidden_size": 8},
            "vision_config": {**_QWEN3_VISION, "deepstack_visual_indexes": [0]},
            "text_config": _text(
                model_type="qwen3_omni_moe_text", rope_parameters=_MROPE, head_dim=16, **_EXPERTS
            ),
            "audio_token_id": ids("<|AUDIO|>"),
            "image_token_id": ids("<|IMAGE|>"),
            "video_token_id": ids("<|VIDEO|>"),
            "vision_start_token_id": ids("<|vision_bos|>"),
            "vision_end_token_id": ids("<|vision_eos|>"),
            "audio_start_token_id": ids("<|audio_bos|>"),
            "audio_end_token_id": ids("<|audio_eos|>"),
        },
        enable_audio_output=False,
    )
    _save(hf.Qwen3OmniMoeForConditionalGeneration(config), processor, folder)


_MAKERS: Mapping[str, Callable[[Path], None]] = {
    "qwen3-vl-moe": _qwen3_vl_moe,
    "qwen3.5": _qwen3_5,
    "qwen3.5-moe": _qwen3_5_moe,
    "glm-4.1v": _glm4v,
    "glm-4.5v": _glm4v_moe,
    # The published checkpoints have the classes of the former models and a newer processor.
    "glm-4.6v-flash": partial(_glm4v, processor=_glm46v_processor),
    "glm-4.6v": partial(_glm4v_moe, processor=_glm46v_processor),
    "gemma-4": _gemma4_small,
    "gemma-4-moe": _gemma4_moe,
    "gemma-4-unified": _gemma4_unified,
    "molmo2": _molmo2,
    "minicpm-v-4.6": _minicpm_v_4_6,
    "kimi-k2.5": _kimi_k2_5,
    "ernie-4.5-vl": _ernie_4_5_vl,
    "perception-lm": _perception_lm,
    "qwen2.5-omni": _qwen2_5_omni,
    "qwen3-omni": _qwen3_omni,
}
FAMILIES = tuple(_MAKERS)
