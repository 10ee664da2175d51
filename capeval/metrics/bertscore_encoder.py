"""The model behind BERTScore: its first layers, its tokens, and its embeddings of texts."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch.nn import Embedding
from transformers import AutoConfig, AutoModel, AutoTokenizer

from capeval.errors import UsageError
from capeval.local_models.checkpoint import (
    Checkpoint,
    check_complete,
    check_vocabulary,
    one_line_errors,
)
from capeval.local_models.devices import place
from capeval.text import storable

# Position embeddings are of learned positions; those beyond the last do not exist.
_POSITIONS = ("position_embeddings", "embed_positions")
# For models and tokenizers that state no length: what nearly all encoders were trained with.
_USUAL_LENGTH = 512
# transformers' mark of a tokenizer that states none is 1e30.
_NO_LENGTH = 1_000_000_000
# bert-score puts a space before the text for these, so that the first word is like any other.
# transformers 5 has one class for several tokenizers, therefore their names are read from files.
_SPACED_TOKENIZERS = frozenset({"RobertaTokenizer", "GPT2Tokenizer"})
_SPACED_MODELS = frozenset({"roberta", "roberta-prelayernorm", "data2vec-text", "ibert", "gpt2"})
# Padded tokens of one call. A processor is busy with few, and more would only pad more: with 8,192
# it took half as long again. A GPU needs many; large models then take about 1 GiB.
_TOKENS_PER_CALL, _TOKENS_PER_GPU_CALL = 1024, 16_384


@dataclass(frozen=True)
class Tokens:
    """A text as tokens, with those that begin and end every text.

    Attributes
    ----------
    is_cut : whether it was longer than what the model reads
    content : how many tokens there are besides those that begin and end every text
    """

    ids: tuple[int, ...]
    is_cut: bool
    content: int


class Encoder:
    """A model that embeds texts.

    Parameters
    ----------
    source : the checkpoint
    layer : how many of its layers are loaded
    device : as `capeval.local_models.devices.place` takes it
    leading_space : whether a space is put before texts
    """

    def __init__(
        self, source: Checkpoint, layer: int, *, device: str = "auto", leading_space: bool = False
    ) -> None:
        model = source.model
        transformers.logging.set_verbosity_error()
        if not sys.stderr.isatty():
            transformers.logging.disable_progress_bar()
        if source.is_local and source.file("adapter_config.json") is not None:
            # Whether it is applied depends on a package that may not be there.
            raise UsageError(f"{model}: has an adapter (adapter_config.json); merge it first")
        with one_line_errors(model):
            tokenizer: Any = AutoTokenizer.from_pretrained(model, **source.arguments)
            check_vocabulary(model, tokenizer)
            config = AutoConfig.from_pretrained(model, **source.arguments)
            if layer > config.num_hidden_layers:
                raise UsageError(
                    f"{model}: it has {config.num_hidden_layers} layers; layer in "
                    f"[metrics.bertscore] is {layer}"
                )
            # What the model applies after its last layer stays.
            config.num_hidden_layers = layer
            with torch.device("meta"):
                meta = AutoModel.from_config(config)
        self.device = place(model, source.size(meta), device=device, dtype="float32").device
        with one_line_errors(model):
            # Half-precision weights are loaded as float32 too, as bert-score did when it was made.
            loaded, info = AutoModel.from_pretrained(
                model,
                config=config,
                dtype=torch.float32,
                output_loading_info=True,
                **source.arguments,
            )
        is_pair = hasattr(loaded, "decoder") and hasattr(loaded, "encoder")
        encoder = loaded.encoder if is_pair else loaded
        # Of a pair the decoder may be missing, and a pooler reads what BERTScore does not use.
        used = {f"encoder.{name}" if is_pair else name for name, _ in encoder.named_parameters()}
        missing = [name for name in used & {*info["missing_keys"]} if "pooler" not in name]
        check_complete(model, {"missing_keys": missing})
        self._model = encoder.eval().to(self.device)
        self._tokenizer = tokenizer
        self.length = _length(tokenizer, encoder)
        self._space = leading_space
        with one_line_errors(f"{model} with {layer} layers"):
            frame = tokenizer.encode("", add_special_tokens=True)
            self._frame = len(frame)
            # Some architectures fail with so few layers, and others need more than tokens.
            self._embed([tuple(frame or tokenizer.encode("a"))])

    @property
    def delimiters(self) -> frozenset[int]:
        """The tokens [CLS] and [SEP], as far as the tokenizer has them."""
        found = (self._tokenizer.cls_token_id, self._tokenizer.sep_token_id)
        return frozenset(token for token in found if token is not None)

    def tokens(self, text: str) -> Tokens:
        """Return the tokens of a text; one that is too long is cut at the model's length."""
        stripped = storable(text).strip()
        if self._space and stripped:
            stripped = f" {stripped}"
        given = {"add_special_tokens": True, "verbose": False}
        ids = self._tokenizer.encode(stripped, **given)
        is_cut = len(ids) > self.length
        if is_cut:
            ids = self._tokenizer.encode(stripped, max_length=self.length, truncation=True, **given)
        return Tokens(tuple(ids), is_cut, len(ids) - self._frame)

    def embed(self, texts: Sequence[tuple[int, ...]]) -> list[torch.Tensor]:
        """Return each text's embeddings, tokens x dimensions, of length 1, on the CPU or GPU.

        Texts are taken by length, so that little is padded; which are computed together changes
        float32 values by less than 1e-5.
        """
        limit = _TOKENS_PER_CALL if self.device.type == "cpu" else _TOKENS_PER_GPU_CALL
        order = sorted(range(len(texts)), key=lambda n: len(texts[n]))
        found: dict[int, torch.Tensor] = {}
        while order:
            # The last is the longest.
            together = max(1, limit // max(1, len(texts[order[-1]])))
            batch, order = order[-together:], order[:-together]
            found |= zip(batch, self._embed([texts[n] for n in batch]), strict=True)
        return [found[n] for n in range(len(texts))]

    @torch.inference_mode()
    def _embed(self, texts: Sequence[tuple[int, ...]]) -> list[torch.Tensor]:
        width = max(map(len, texts))
        padding = self._tokenizer.pad_token_id or 0
        ids = torch.full((len(texts), width), padding)
        mask = torch.zeros((len(texts), width), dtype=torch.long)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = torch.tensor(text)
            mask[row, : len(text)] = 1
        output = self._model(ids.to(self.device), attention_mask=mask.to(self.device))[0]
        output = output / output.norm(dim=-1, keepdim=True)
        return [output[row, : len(text)] for row, text in enumerate(texts)]


def _length(tokenizer: Any, encoder: Any) -> int:
    """Return how many tokens a text may have, those that begin and end it among them."""
    limits = []
    if 0 < tokenizer.model_max_length < _NO_LENGTH:
        limits.append(int(tokenizer.model_max_length))
    for name, module in encoder.named_modules():
        if name.rpartition(".")[2] in _POSITIONS and isinstance(module, Embedding):
            # RoBERTa and BART count from behind their padding's number.
            first = getattr(module, "offset", None)
            if first is None:
                first = 0 if module.padding_idx is None else module.padding_idx + 1
            limits.append(module.num_embeddings - int(first))
    stated = getattr(encoder.config, "max_position_embeddings", None) or _USUAL_LENGTH
    return min(limits, default=stated)


def begins_with_space(source: Checkpoint) -> bool:
    """Return whether bert-score puts a space before texts for the tokenizer of a checkpoint."""
    with one_line_errors(source.model):
        file = source.file("tokenizer_config.json")
        named = None if file is None else json.loads(file.read_text("utf-8")).get("tokenizer_class")
    if isinstance(named, str):
        return named.removesuffix("Fast") in _SPACED_TOKENIZERS
    return source.published.get("model_type") in _SPACED_MODELS
