"""How many pairs of text and element the judge `nli` classifies, with random weights.

The model has the shape of DeBERTa-v3-xsmall: its speed does not depend on what it has learnt. It is
saved and loaded as a user's model is. The pairs of one call are those of one caption.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.judging import Row
from tests.torchvision_operators import DefinedBeforeImport

__all__ = ["measure"]

_PAIRS_A_MINUTE = 2000
_TOKENS = 64
# Elements of a video in TUNA.
_ELEMENTS = 17
_CAPTIONS = 8
_ROUNDS = 5
_VOCABULARY = 128_100


def measure(folder: Path) -> Iterator[Row]:
    """Yield the rows one by one; `folder` is for scratch files."""
    sys.meta_path.insert(0, DefinedBeforeImport())
    import torch

    model = _model(folder / "deberta-v3-xsmall")
    for dtype, target in (("float32", _PAIRS_A_MINUTE), ("bfloat16", None)):
        rate = _rate(model, dtype)
        yield Row(
            f"nli judge, a model of the shape of DeBERTa-v3-xsmall, pairs of {_TOKENS} tokens, "
            f"{_ELEMENTS} a caption, {dtype}, {torch.get_num_threads()} threads (median of "
            f"{_ROUNDS})",
            f"{rate:,.0f} pairs a minute",
            f">= {target:,}" if target else "",
            target is None or rate >= target,
        )


def _rate(model: Path, dtype: str) -> float:
    from capeval.judging.nli.cross_encoder import CrossEncoder

    encoder = CrossEncoder(str(model), device="cpu", dtype=dtype)
    draw = random.Random(0)
    pair: dict[str, Any] = {"attention_mask": [1] * _TOKENS}
    captions = [
        [
            {**pair, "input_ids": [draw.randrange(7, _VOCABULARY) for _ in range(_TOKENS)]}
            for _ in range(_ELEMENTS)
        ]
        for _ in range(_CAPTIONS)
    ]
    encoder.logits(captions[0])
    times = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        for caption in captions:
            encoder.logits(caption)
        times.append(time.perf_counter() - began)
    return 60 * _CAPTIONS * _ELEMENTS / statistics.median(times)


def _model(folder: Path) -> Path:
    import torch
    from transformers import DebertaV2Config, DebertaV2ForSequenceClassification

    from tests.judging.nli.tiny_nli import DEBERTA_ORDER, tokenizer

    config = DebertaV2Config(
        vocab_size=_VOCABULARY,
        hidden_size=384,
        num_hidden_layers=12,
        num_attention_heads=6,
        intermediate_size=1536,
        max_position_embeddings=512,
        relative_attention=True,
        position_buckets=256,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type=["p2c", "c2p"],
        max_relative_positions=-1,
        position_biased_input=False,
        type_vocab_size=0,
        pooler_hidden_size=384,
        id2label=dict(enumerate(DEBERTA_ORDER)),
    )
    torch.manual_seed(0)
    DebertaV2ForSequenceClassification(config).save_pretrained(folder)
    tokenizer(512).save_pretrained(folder)
    return folder
