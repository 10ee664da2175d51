"""Tiny text encoders with random weights, saved as their families' checkpoints are published."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertTokenizer,
    DebertaV2Config,
    DebertaV2Model,
    DebertaV2Tokenizer,
    RobertaConfig,
    RobertaModel,
    T5Config,
    T5Model,
    T5Tokenizer,
)

TEXTS = (
    "A man in a red hat walks into a kitchen and opens the fridge.",
    "The camera pans left, then a dog runs across the street quickly.",
    "Two women are talking at a table; one of them smiles and waves.",
)
WORDS = sorted({word.strip(".,;").lower() for text in TEXTS for word in text.split()})
LENGTH = 64
LAYERS = 4
# Weights are large, so that layers and words differ clearly.
_SPREAD = 0.3


def _sizes(**more: Any) -> dict[str, Any]:
    return {
        "hidden_size": 32,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "initializer_range": _SPREAD,
        **more,
    }


def _wordpieces(folder: Path, **settings: Any) -> int:
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz.,;"]
    pieces += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    pieces += [word for word in WORDS if len(word) > 1]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    BertTokenizer(vocab=vocabulary, **settings).save_pretrained(folder)
    return len(pieces)


def _bytes(folder: Path, **settings: Any) -> int:
    """Write vocab.json and merges.txt, as RoBERTa's authors published them."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        show_progress=False,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]), encoding="utf-8")
    merges = "\n".join(" ".join(pair) for pair in model["merges"])
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return len(model["vocab"])


def _unigrams() -> list[tuple[str, float]]:
    letters = "abcdefghijklmnopqrstuvwxyzAT.,;"
    words = [(f"▁{word}", -5.0) for word in WORDS]
    return [("▁", -3.0), *((letter, -8.0) for letter in letters), *words]


def bert(folder: Path, **tokenizer: Any) -> None:
    """A masked language model, as published: without a pooler."""
    size = _wordpieces(folder, **{"model_max_length": LENGTH, **tokenizer})
    BertForMaskedLM(
        BertConfig(vocab_size=size, max_position_embeddings=LENGTH, **_sizes())
    ).save_pretrained(folder)


def roberta(folder: Path, **tokenizer: Any) -> None:
    """Positions count from behind the padding's number, so there are two more."""
    size = _bytes(folder, **{"model_max_length": LENGTH, **tokenizer})
    ids = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    RobertaModel(
        RobertaConfig(vocab_size=size, max_position_embeddings=LENGTH + 2, **ids, **_sizes())
    ).save_pretrained(folder)


def deberta(folder: Path, **tokenizer: Any) -> None:
    """Relative positions alone, and a tokenizer without a length, as DeBERTa-v3 is published."""
    special = [(name, 0.0) for name in ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]")]
    vocabulary = [*special, *_unigrams()]
    DebertaV2Tokenizer(vocab=vocabulary, unk_id=3, **tokenizer).save_pretrained(folder)
    DebertaV2Model(
        DebertaV2Config(
            vocab_size=len(vocabulary),
            max_position_embeddings=LENGTH,
            relative_attention=True,
            position_biased_input=False,
            pos_att_type="p2c|c2p",
            position_buckets=16,
            norm_rel_ebd="layer_norm",
            share_att_key=True,
            **_sizes(),
        )
    ).save_pretrained(folder)


def t5(folder: Path, **tokenizer: Any) -> None:
    """An encoder with a decoder; it has no [CLS], and one last normalisation after its layers."""
    vocabulary = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *_unigrams()]
    given = {"model_max_length": LENGTH, "extra_ids": 0, **tokenizer}
    T5Tokenizer(vocab=vocabulary, **given).save_pretrained(folder)
    T5Model(
        T5Config(
            vocab_size=len(vocabulary),
            d_model=32,
            d_kv=8,
            d_ff=64,
            num_layers=LAYERS,
            num_heads=4,
            decoder_start_token_id=0,
        )
    ).save_pretrained(folder)


FAMILIES: dict[str, Callable[..., None]] = {
    one.__name__: one for one in (bert, roberta, deberta, t5)
}


def save(family: str, folder: Path, **tokenizer: Any) -> Path:
    """Save a tiny model of a family under `folder`, always the same; return its folder."""
    torch.manual_seed(0)
    # bert-score decides by the name how T5 is loaded.
    target = folder / f"tiny-{family}"
    FAMILIES[family](target, **tokenizer)
    return target
