"""Tiny checkpoints in the layouts in which the models of the paper are published.

Names, shapes and the keys of config.json are the published ones; sizes are small.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tests.captioners import tiny

SENTENCEPIECE = Path(__file__).with_name("sentencepiece")
"""Models of sentencepiece 0.2.3, trained on a few sentences, and what it makes of some texts."""

_PIECES = 400

Tensors = dict[str, torch.Tensor]


def _write(folder: Path, config: Mapping[str, Any], tensors: Tensors) -> None:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def _random(shapes: Mapping[str, tuple[int, ...]]) -> Tensors:
    tensors = {}
    for name, shape in shapes.items():
        if "norm" in name and name.endswith("weight"):
            tensors[name] = 1 + 0.1 * torch.randn(shape)
        else:
            wide = len(shape) > 1 and "embed" not in name
            tensors[name] = torch.randn(shape) * (0.3 if wide else 0.5)
    return tensors


def _prefixed(prefix: str, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    return {f"{prefix}{name}": shape for name, shape in shapes.items()}


# --- language models


def language_config(architecture: str, **changed: Any) -> dict[str, Any]:
    kind = {"InternLM2ForCausalLM": "internlm2", "Qwen2ForCausalLM": "qwen2"}
    return {
        "architectures": [architecture],
        "model_type": kind.get(architecture, "llama"),
        "vocab_size": 420,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "hidden_act": "silu",
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-05,
        "rope_theta": 10000.0,
        "rope_scaling": None,
        "bias": False,
        "attn_implementation": "eager",
        "use_cache": True,
        "torch_dtype": "bfloat16",
        "bos_token_id": 1,
        "eos_token_id": 2,
        **changed,
    }


def language_shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the tensors of a causal language model by its own published names."""
    hidden, inner, words = (
        config[name] for name in ("hidden_size", "intermediate_size", "vocab_size")
    )
    head = hidden // config["num_attention_heads"]
    keys = head * config["num_key_value_heads"]
    shapes: dict[str, tuple[int, ...]] = {"model.norm.weight": (hidden,)}
    layers = [f"model.layers.{at}." for at in range(config["num_hidden_layers"])]
    if config["architectures"] == ["InternLM2ForCausalLM"]:
        shapes |= {"model.tok_embeddings.weight": (words, hidden), "output.weight": (words, hidden)}
        for at in layers:
            shapes |= {
                f"{at}attention.wqkv.weight": (hidden + 2 * keys, hidden),
                f"{at}attention.wo.weight": (hidden, hidden),
                f"{at}feed_forward.w1.weight": (inner, hidden),
                f"{at}feed_forward.w3.weight": (inner, hidden),
                f"{at}feed_forward.w2.weight": (hidden, inner),
                f"{at}attention_norm.weight": (hidden,),
                f"{at}ffn_norm.weight": (hidden,),
            }
        return shapes
    shapes |= {"model.embed_tokens.weight": (words, hidden), "lm_head.weight": (words, hidden)}
    for at in layers:
        shapes |= {
            f"{at}self_attn.q_proj.weight": (hidden, hidden),
            f"{at}self_attn.k_proj.weight": (keys, hidden),
            f"{at}self_attn.v_proj.weight": (keys, hidden),
            f"{at}self_attn.o_proj.weight": (hidden, hidden),
            f"{at}mlp.gate_proj.weight": (inner, hidden),
            f"{at}mlp.up_proj.weight": (inner, hidden),
            f"{at}mlp.down_proj.weight": (hidden, inner),
            f"{at}input_layernorm.weight": (hidden,),
            f"{at}post_attention_layernorm.weight": (hidden,),
        }
        if config["architectures"] == ["Qwen2ForCausalLM"]:
            shapes |= {
                f"{at}self_attn.q_proj.bias": (hidden,),
                f"{at}self_attn.k_proj.bias": (keys,),
                f"{at}self_attn.v_proj.bias": (keys,),
            }
    return shapes


# --- vision towers


def clip_shapes(hidden: int, inner: int, layers: int, positions: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.class_embedding": (hidden,),
        "embeddings.patch_embedding.weight": (hidden, 3, 14, 14),
        "embeddings.position_embedding.weight": (positions, hidden),
    }
    norms = ["pre_layrnorm", "post_layernorm"]
    for at in (f"encoder.layers.{layer}." for layer in range(layers)):
        norms += [f"{at}layer_norm1", f"{at}layer_norm2"]
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            shapes |= {f"{at}self_attn.{part}.weight": (hidden, hidden)}
            shapes |= {f"{at}self_attn.{part}.bias": (hidden,)}
        shapes |= {
            f"{at}mlp.fc1.weight": (inner, hidden),
            f"{at}mlp.fc1.bias": (inner,),
            f"{at}mlp.fc2.weight": (hidden, inner),
            f"{at}mlp.fc2.bias": (hidden,),
        }
    for norm in norms:
        shapes |= {f"{norm}.weight": (hidden,), f"{norm}.bias": (hidden,)}
    return shapes


def intern_vit_config(*, large: bool = False, **changed: Any) -> dict[str, Any]:
    """Return a vision_config as InternViT-300M's or, `large`, as InternViT-6B's."""
    return {
        "architectures": ["InternVisionModel"],
        "model_type": "intern_vit_6b",
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_channels": 3,
        "image_size": 56,
        "patch_size": 14,
        "hidden_act": "gelu",
        "norm_type": "rms_norm" if large else "layer_norm",
        "qkv_bias": not large,
        "qk_normalization": large,
        "layer_norm_eps": 1e-06,
        "dropout": 0.0,
        "attention_dropout": 0.0,
        "drop_path_rate": 0.1,
        "initializer_factor": 1.0,
        "use_flash_attn": True,
        **changed,
    }


def intern_vit_shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    positions = (config["image_size"] // config["patch_size"]) ** 2 + 1
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.class_embedding": (1, 1, hidden),
        "embeddings.position_embedding": (1, positions, hidden),
        "embeddings.patch_embedding.weight": (hidden, 3, 14, 14),
        "embeddings.patch_embedding.bias": (hidden,),
    }
    for at in (f"encoder.layers.{layer}." for layer in range(config["num_hidden_layers"])):
        shapes |= {
            f"{at}attn.qkv.weight": (3 * hidden, hidden),
            f"{at}attn.proj.weight": (hidden, hidden),
            f"{at}attn.proj.bias": (hidden,),
            f"{at}mlp.fc1.weight": (inner, hidden),
            f"{at}mlp.fc1.bias": (inner,),
            f"{at}mlp.fc2.weight": (hidden, inner),
            f"{at}mlp.fc2.bias": (hidden,),
            f"{at}ls1": (hidden,),
            f"{at}ls2": (hidden,),
        }
        norms = ["norm1", "norm2"]
        if config["qkv_bias"]:
            shapes[f"{at}attn.qkv.bias"] = (3 * hidden,)
        if config["qk_normalization"]:
            norms += ["attn.q_norm", "attn.k_norm"]
        for norm in norms:
            shapes[f"{at}{norm}.weight"] = (hidden,)
            if config["norm_type"] == "layer_norm":
                shapes[f"{at}{norm}.bias"] = (hidden,)
    return shapes


# --- InternVL2


def internvl2_config(
    language: str = "InternLM2ForCausalLM", *, large: bool = False, **changed: Any
) -> dict[str, Any]:
    return {
        "architectures": ["InternVLChatModel"],
        "auto_map": {"AutoModel": "modeling_internvl_chat.InternVLChatModel"},
        "model_type": "internvl_chat",
        "downsample_ratio": 0.5,
        "dynamic_image_size": True,
        "force_image_size": 56,
        "llm_config": language_config(language),
        "max_dynamic_patch": 12,
        "min_dynamic_patch": 1,
        "pad2square": False,
        "ps_version": "v2",
        "select_layer": -1,
        "template": "internlm2-chat",
        "torch_dtype": "bfloat16",
        "use_backbone_lora": 0,
        "use_llm_lora": 0,
        "use_thumbnail": True,
        "vision_config": intern_vit_config(large=large),
        **changed,
    }


def internvl2_tensors(config: Mapping[str, Any]) -> Tensors:
    vision, text = config["vision_config"], config["llm_config"]
    merged, hidden = 4 * vision["hidden_size"], text["hidden_size"]
    return _random(
        {
            **_prefixed("vision_model.", intern_vit_shapes(vision)),
            **_prefixed("language_model.", language_shapes(text)),
            "mlp1.0.weight": (merged,),
            "mlp1.0.bias": (merged,),
            "mlp1.1.weight": (hidden, merged),
            "mlp1.1.bias": (hidden,),
            "mlp1.3.weight": (hidden, hidden),
            "mlp1.3.bias": (hidden,),
        }
    )


def write_sentencepiece(folder: Path, name: str, *added: str, **options: Any) -> None:
    """Write a tokenizer as it is published without tokenizer.json."""
    shutil.copyfile(SENTENCEPIECE / f"{name}.model", folder / "tokenizer.model")
    tokens = {0: "<unk>", 1: "<s>", 2: "</s>"} | dict(enumerate(added, _PIECES))
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
    config = {
        "add_bos_token": True,
        "added_tokens_decoder": {
            str(at): {"content": content, "special": True, **flags}
            for at, content in tokens.items()
        },
        "bos_token": "<s>",
        "eos_token": "</s>",
        "pad_token": "</s>",
        "unk_token": "<unk>",
        "tokenizer_class": "InternLM2Tokenizer",
        "auto_map": {"AutoTokenizer": ["tokenization_internlm2.InternLM2Tokenizer", None]},
        **options,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")


def internvl2(folder: Path, language: str = "InternLM2ForCausalLM", *, large: bool = False) -> None:
    """Save InternVL2, by default as the 8B model is built."""
    config = internvl2_config(language, large=large)
    _write(folder, config, internvl2_tensors(config))
    added = ("<img>", "</img>", "<IMG_CONTEXT>", "<|im_start|>", "<|im_end|>")
    write_sentencepiece(folder, "plain", *added)
    generation = {"eos_token_id": [2], "_from_model_config": True}
    (folder / "generation_config.json").write_text(json.dumps(generation), encoding="utf-8")


# --- Tarsier


def tarsier_config(**changed: Any) -> dict[str, Any]:
    return {
        "architectures": ["TarsierForConditionalGeneration"],
        "model_type": "llava",
        "ignore_index": -100,
        "image_token_index": 400,
        "image_newline_idx": 401,
        "image_new_idx": 402,
        "pad_token_id": 403,
        "projector_hidden_act": "gelu",
        "text_config": language_config("LlamaForCausalLM", max_position_embeddings=64),
        "torch_dtype": "float16",
        "vision_config": {
            "model_type": "clip_vision_model",
            "hidden_size": 32,
            "image_size": 56,
            "intermediate_size": 64,
            "num_attention_heads": 2,
            "num_hidden_layers": 3,
            "patch_size": 14,
            "projection_dim": 32,
        },
        "vision_feature_layer": -2,
        "vision_feature_select_strategy": "default",
        **changed,
    }


def tarsier_tensors(config: Mapping[str, Any]) -> Tensors:
    vision, text = config["vision_config"], config["text_config"]
    tower, hidden = vision["hidden_size"], text["hidden_size"]
    positions = (vision["image_size"] // vision["patch_size"]) ** 2 + 1
    clip = clip_shapes(tower, vision["intermediate_size"], vision["num_hidden_layers"], positions)
    return _random(
        {
            **_prefixed("vision_tower.vision_model.", clip),
            **_prefixed("language_model.", language_shapes(text)),
            "multi_modal_projector.linear_1.weight": (hidden, tower),
            "multi_modal_projector.linear_1.bias": (hidden,),
            "multi_modal_projector.linear_2.weight": (hidden, hidden),
            "multi_modal_projector.linear_2.bias": (hidden,),
        }
    )


def tarsier(folder: Path) -> None:
    """Save Tarsier as the 7B model is built, on Vicuna."""
    config = tarsier_config()
    _write(folder, config, tarsier_tensors(config))
    added = ("<image>", "<newline>", "<new>", "<pad>")
    write_sentencepiece(folder, "prefixed", *added, tokenizer_class="LlamaTokenizer")
    processor = {
        "image_processor_type": "CLIPImageProcessor",
        "crop_size": {"height": 56, "width": 56},
        "size": {"shortest_edge": 56},
        "image_mean": [0.48145466, 0.4578275, 0.40821073],
        "image_std": [0.26862954, 0.26130258, 0.27577711],
        "resample": 3,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(processor), encoding="utf-8")


# --- PLLaVA

LORA_RANK = 8


def pllava_config(**changed: Any) -> dict[str, Any]:
    shared = ("image_newline_idx", "image_new_idx")
    return {
        **{k: v for k, v in tarsier_config().items() if k not in shared},
        "architectures": ["PllavaForConditionalGeneration"],
        "frame_shape": [24, 24],
        "num_frames": 16,
        "pooling_method": "avg",
        "pooling_shape": [16, 12, 12],
        "text_config": language_config("LlamaForCausalLM"),
        "use_pooling": True,
        **changed,
    }


def pllava_tensors(config: Mapping[str, Any]) -> Tensors:
    """Return tensors as peft 0.10 names them when adapters are on queries and values."""
    plain = tarsier_tensors(config)
    hidden = config["text_config"]["hidden_size"]
    tensors: Tensors = {}
    for name, tensor in plain.items():
        new = name.replace("language_model.", "language_model.base_model.model.", 1)
        if name.endswith(("q_proj.weight", "v_proj.weight")) and "language_model" in name:
            new = new.removesuffix("weight")
            tensors[f"{new}base_layer.weight"] = tensor
            tensors[f"{new}lora_A.default.weight"] = torch.randn(LORA_RANK, hidden) * 0.3
            tensors[f"{new}lora_B.default.weight"] = torch.randn(len(tensor), LORA_RANK) * 0.3
        else:
            tensors[new] = tensor
    return tensors


def pllava(folder: Path) -> None:
    """Save PLLaVA as the 7B model is built, with its adapters apart."""
    tarsier(folder)
    config = pllava_config()
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file(pllava_tensors(config), folder / "model.safetensors", {"format": "pt"})


# --- LongVA


def longva_config(**changed: Any) -> dict[str, Any]:
    return {
        **{k: v for k, v in tiny.published_config().items() if k not in _OF_LLAVA_VIDEO},
        "image_aspect_ratio": "anyres",
        "mm_hidden_size": 64,
        "mm_patch_merge_type": "unires",
        "mm_spatial_pool_mode": "average",
        "mm_vision_tower": "openai/clip-vit-large-patch14-336",
        "model_type": "llava_qwen",
        **changed,
    }


_OF_LLAVA_VIDEO = ("add_faster_video", "add_time_instruction", "mm_newline_position")


def longva_tensors(config: Mapping[str, Any]) -> Tensors:
    text = {**config, "architectures": ["Qwen2ForCausalLM"]}
    tower, hidden = config["mm_hidden_size"], config["hidden_size"]
    return _random(
        {
            **_prefixed(
                "model.vision_tower.vision_tower.vision_model.", clip_shapes(tower, 96, 3, 577)
            ),
            **language_shapes(text),
            "model.mm_projector.0.weight": (hidden, tower),
            "model.mm_projector.0.bias": (hidden,),
            "model.mm_projector.2.weight": (hidden, hidden),
            "model.mm_projector.2.bias": (hidden,),
        }
    )


def longva(folder: Path) -> None:
    """Save LongVA."""
    config = longva_config()
    _write(folder, config, longva_tensors(config))
    tokenizer = tiny.qwen2_tokenizer()
    tokenizer.save_pretrained(folder)
    # In two files, as Qwen2's is published too.
    trained = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.json").write_text(json.dumps(trained["vocab"]), encoding="utf-8")
    merges = "".join(" ".join(pair) + "\n" for pair in trained["merges"])
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}", encoding="utf-8")
