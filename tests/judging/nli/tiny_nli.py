"""Tiny cross-encoders, saved as their families' checkpoints are published.

A word is a token. With `rules` the tests decide what such a model says: a bag-of-words model whose
logits are sums over the words of premise and hypothesis.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
    ModernBertConfig,
    ModernBertForSequenceClassification,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForSequenceClassification,
)

# The orders that are published: of cross-encoder's DeBERTa, and of tasksource's ModernBERT.
DEBERTA_ORDER = ("contradiction", "entailment", "neutral")
MODERNBERT_ORDER = ("entailment", "neutral", "contradiction")

_WORDS = (
    *("a", "an", "the", "man", "woman", "boy", "girl", "dog", "cat", "bear", "rabbit", "in", "red"),
    *("blue", "green", "yellow", "jacket", "shirt", "walks", "runs", "sits", "stands", "jumps"),
    *("along", "street", "forest", "river", "house", "camera", "pans", "left", "right", "zooms"),
    *("is", "are", "his", "her", "and", "then", "to", "of", "on", "it", "with", "up", "down"),
    *("looks", "away", "hat", "apple", "tree", "ball", ".", ",", "-", "'"),
)
WORDS = [word for word in _WORDS if word.isalpha()]
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "yes", "no", "maybe")
SIZE = 96


def tokenizer(limit: int = 64) -> PreTrainedTokenizerFast:
    """Return a tokenizer that takes a word for a token."""
    every = [*_SPECIAL, *_WORDS]
    raw = Tokenizer(
        models.WordLevel({word: at for at, word in enumerate(every)}, unk_token="[UNK]")
    )
    raw.normalizer = normalizers.Lowercase()
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    raw.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        pad_token="[PAD]",
        model_max_length=limit,
    )


_SHAPE: Mapping[str, Any] = {
    "vocab_size": SIZE,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 32,
    "pad_token_id": 0,
}


def deberta(folder: Path, order: Sequence[str] = DEBERTA_ORDER, limit: int = 64) -> Path:
    """Save a DeBERTa-v3 with random weights, in the published layout."""
    config = DebertaV2Config(
        **_SHAPE,
        max_position_embeddings=limit,
        relative_attention=True,
        position_buckets=16,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type=["p2c", "c2p"],
        max_relative_positions=-1,
        position_biased_input=False,
        type_vocab_size=0,
        id2label=dict(enumerate(order)),
    )
    return _saved(DebertaV2ForSequenceClassification, config, folder, limit)


def modernbert(folder: Path, order: Sequence[str] = MODERNBERT_ORDER, limit: int = 64) -> Path:
    """Save a ModernBERT with random weights and a mean over all tokens, as it is published."""
    config = ModernBertConfig(
        **_SHAPE,
        max_position_embeddings=limit,
        local_attention=8,
        classifier_pooling="mean",
        id2label=dict(enumerate(order)),
        cls_token_id=2,
        sep_token_id=3,
        bos_token_id=2,
        eos_token_id=3,
    )
    return _saved(ModernBertForSequenceClassification, config, folder, limit)


def roberta(folder: Path, positions: int = 66) -> Path:
    """Save a RoBERTa, whose positions begin after the number of its padding token."""
    config = RobertaConfig(
        **_SHAPE, max_position_embeddings=positions, id2label=dict(enumerate(DEBERTA_ORDER))
    )
    return _saved(RobertaForSequenceClassification, config, folder, 10**30)


def _saved(kind: Any, config: Any, folder: Path, limit: int) -> Path:
    torch.manual_seed(7)
    model = kind(config)
    with torch.no_grad():
        # At the usual scale, random models give every pair the same label.
        for name, value in model.named_parameters():
            if value.ndim > 1:
                value.mul_(8.0)
            elif "classifier" in name:
                value.zero_()
    model.save_pretrained(folder)
    tokenizer(limit).save_pretrained(folder)
    return folder


YES_NO = {"yes": (9.0, 0.0, 0.0), "no": (0.0, 0.0, 9.0)}
"""With a little bias to neutral: what says neither is lacking."""
LEAN_TO_NEUTRAL = (0.0, 1.0, 0.0)


def ruled(
    folder: Path,
    rules: Mapping[str, Sequence[float]] = YES_NO,
    order: Sequence[str] = DEBERTA_ORDER,
    *,
    bias: Sequence[float] = LEAN_TO_NEUTRAL,
) -> Path:
    """Save a BERT whose largest logit is decided by one word.

    `rules` gives each of yes, no and maybe its weights of entailment, neutral and contradiction:
    the first of these words of an input has the say, and without any the `bias` has. It attends
    from [CLS] to exactly these words.
    """
    config = BertConfig(
        vocab_size=SIZE,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
        max_position_embeddings=64,
        pad_token_id=0,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        id2label=dict(enumerate(order)),
    )
    model = BertForSequenceClassification(config)
    state = {name: torch.zeros_like(value) for name, value in model.state_dict().items()}
    for name, value in state.items():
        if name.endswith("LayerNorm.weight"):
            value.fill_(1.0)
    # Each word of the rules has a dimension of its own; all others have the last one.
    embeddings = state["bert.embeddings.word_embeddings.weight"]
    embeddings[:, 7] = 1.0
    for at, word in enumerate(rules):
        embeddings[_SPECIAL.index(word)] = 0.0
        embeddings[_SPECIAL.index(word), at] = 1.0
    layer = "bert.encoder.layer.0.attention"
    # Every query is alike; the keys of the rules' words are large, so that nothing else counts.
    state[f"{layer}.self.query.bias"][0] = 30.0
    for at in range(len(rules)):
        state[f"{layer}.self.key.weight"][0, at] = 30.0
        state[f"{layer}.self.value.weight"][at, at] = 1.0
        state[f"{layer}.output.dense.weight"][at, at] = 4.0
    state["bert.pooler.dense.weight"][:] = torch.eye(8)
    places = [order.index(name) for name in ("entailment", "neutral", "contradiction")]
    for at, weights in enumerate(rules.values()):
        for place, weight in zip(places, weights, strict=True):
            state["classifier.weight"][place, at] = weight
    for place, weight in zip(places, bias, strict=True):
        state["classifier.bias"][place] = weight
    model.load_state_dict(state)
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def edit_config(folder: Path, **changes: Any) -> Path:
    """Change fields of config.json; None removes one."""
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    for name, value in changes.items():
        config.pop(name, None)
        if value is not None:
            config[name] = value
    path.write_text(json.dumps(config), encoding="utf-8")
    return folder
