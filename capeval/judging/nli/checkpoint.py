"""A cross-encoder's checkpoint, checked before its weights are loaded."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

from capeval.errors import UsageError
from capeval.judging.nli.labels import read_labels
from capeval.llm.proxies import check_proxies
from capeval.local_models.checkpoint import Checkpoint, find_checkpoint
from capeval.local_models.devices import native_precision, one_device
from capeval.local_models.loading import check_complete, check_vocabulary, one_line_errors
from capeval.local_models.weights_identity import folder_hash, folder_state
from capeval.schema import Relation
from capeval.text import listed, one_line, shown

# Where neither the model nor its tokenizer says how much it reads: what BERT reads.
_UNDECLARED = 512
# A pair of shorter texts says nothing.
_LEAST = 16


@dataclass(frozen=True)
class OpenCheckpoint:
    """A checkpoint whose labels, tokenizer and device are known to fit.

    `limit` is how many tokens it reads at a time, `weights` identifies the weights (the commit of
    the hub, or the SHA-256 of a folder), and `called` is its name in results.
    """

    source: Checkpoint
    called: str
    weights: str
    labels: tuple[Relation, ...]
    tokenizer: Any
    limit: int
    device: torch.device
    dtype: torch.dtype
    state: Any

    @property
    def precision(self) -> str:
        """The precision of the weights, as `--dtype` names it."""
        return str(self.dtype).removeprefix("torch.")

    def load(self) -> Any:
        """Return the model on its device; raises `UsageError`."""
        source = self.source
        with one_line_errors(source.model):
            model, info = AutoModelForSequenceClassification.from_pretrained(
                source.model, **source.arguments, dtype=self.dtype, output_loading_info=True
            )
        check_complete(source.model, info)
        wrong = sorted(str(key[0]) for key in info.get("mismatched_keys") or ())
        if wrong:
            raise UsageError(f"{source.model}: {wrong[0]} has another shape than config.json says")
        if self.state is not None and folder_state(source.folder) != self.state:
            # Its hash may then be that of other weights.
            raise UsageError(f"{source.model}: was changed meanwhile; run the same command again")
        return model.to(self.device).eval()


def open_checkpoint(
    model: str,
    *,
    device: str,
    dtype: str,
    revision: str | None,
    on_notice: Callable[[str], None],
) -> OpenCheckpoint:
    """Return what is known of `model`, a hub id or a folder; raises `UsageError`."""
    transformers.logging.set_verbosity_error()
    if not sys.stderr.isatty():
        # An error is then one line.
        transformers.logging.disable_progress_bar()
    is_local = Path(model).expanduser().is_dir()
    if is_local:
        model = str(Path(model).expanduser())
        if revision is not None:
            raise UsageError(f"--revision is for models of the hub; {model} is a folder")
    elif model.startswith((".", "/", "~")) or model.count("/") != 1:
        raise UsageError(
            f"{shown(model)} is neither a folder here nor a model of the hub (nli:ORG/NAME)"
        )
    else:
        check_proxies()
    where = one_device(device)
    precise = native_precision(dtype, where)
    with one_line_errors(model):
        source = find_checkpoint(model, revision)
    state = folder_state(source.folder) if is_local else None
    _check_kind(source)
    labels = read_labels(model, source.published)
    with one_line_errors(model):
        config = AutoConfig.from_pretrained(model, **source.arguments)
        with torch.device("meta"):
            meta = AutoModelForSequenceClassification.from_config(config)
    tokenizer = _tokenizer(source)
    _check_tokenizer(model, tokenizer, config)
    identity = source.identity(on_notice)
    # A folder has a hash, and a model of the hub a commit, unless the hub is an imitation.
    weights = identity["sha256"] if isinstance(identity, Mapping) else source.revision
    weights = weights or folder_hash(source.folder)
    return OpenCheckpoint(
        source=source,
        called=one_line(Path(model).resolve().name if is_local else model),
        weights=weights,
        labels=labels,
        tokenizer=tokenizer,
        limit=_limit(model, config, tokenizer, meta),
        device=where,
        dtype=precise,
        state=state,
    )


def _check_kind(source: Checkpoint) -> None:
    model, published = source.model, source.published
    if source.is_local and source.file("adapter_config.json") is not None:
        # Whether it is applied depends on a package that may not be there.
        raise UsageError(f"{model}: has an adapter (adapter_config.json); merge it first")
    if published.get("quantization_config") is not None:
        raise UsageError(f"{model}: its weights are quantised; name the unquantised model")
    kinds = published.get("architectures")
    kinds = [str(kind) for kind in kinds] if isinstance(kinds, list) else []
    if not any(kind.endswith("ForSequenceClassification") for kind in kinds):
        raise UsageError(
            f"{model}: is not a sequence classifier, but {listed(map(shown, kinds)) or 'unknown'} "
            "(architectures in config.json)"
        )


def _tokenizer(source: Checkpoint) -> Any:
    try:
        with one_line_errors(source.model):
            tokenizer = AutoTokenizer.from_pretrained(source.model, **source.arguments)
        # A "[SEP]" in a caption is text: it must not end the premise.
        tokenizer.split_special_tokens = True
    except UsageError as error:
        if source.file("tokenizer.json") is not None:
            raise
        raise UsageError(
            f"{source.model}: has no tokenizer.json; to read its other tokenizer files, install "
            "sentencepiece and protobuf"
        ) from error
    return tokenizer


def _check_tokenizer(model: str, tokenizer: Any, config: Any) -> None:
    if not tokenizer.is_fast:
        raise UsageError(f"{model}: its tokenizer cannot split long texts (it has no fast version)")
    if tokenizer.pad_token_id is None:
        raise UsageError(f"{model}: its tokenizer has no padding token")
    between = [tokenizer.num_special_tokens_to_add(pair=pair) for pair in (False, True)]
    if between[1] <= between[0]:
        raise UsageError(f"{model}: its tokenizer puts nothing between premise and hypothesis")
    check_vocabulary(model, tokenizer)
    size, known = len(tokenizer), getattr(config, "vocab_size", None)
    if known is not None and max(tokenizer.get_vocab().values()) >= known:
        raise UsageError(
            f"{model}: its tokenizer has {size} tokens, and the model {known}: they are not of one "
            "model"
        )


def _limit(model: str, config: Any, tokenizer: Any, meta: Any) -> int:
    """Return how many tokens the model reads: the least that it or its tokenizer declares."""
    declared = [tokenizer.model_max_length]
    positions = getattr(config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        # Positions of RoBERTa and its like begin after the number of the padding token.
        skipped = [
            part.padding_idx + 1
            for name, part in meta.named_modules()
            if name.endswith("position_embeddings")
            and getattr(part, "padding_idx", None) is not None
        ]
        declared.append(positions - max(skipped, default=0))
    # Where it is not known, tokenizers have 10^30.
    known = [length for length in declared if 0 < length < 1_000_000]
    limit = int(min(known, default=_UNDECLARED))
    if limit < _LEAST + tokenizer.num_special_tokens_to_add(pair=True):
        raise UsageError(f"{model}: reads only {limit} tokens")
    return limit
