"""A cross-encoder of the hub or in a folder: what its logits mean, and the logits of pairs."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

from capeval.errors import JudgeError, UsageError
from capeval.local_models.checkpoint import (
    check_complete,
    check_vocabulary,
    find_checkpoint,
    one_line_errors,
)
from capeval.local_models.devices import is_out_of_memory, native_precision, one_device, release
from capeval.local_models.weights_identity import folder_hash
from capeval.schema import Relation
from capeval.text import listed, one_line, shown

Encoded = Mapping[str, Sequence[int]]
"""The tokens of a pair of texts, and what comes with them."""

_RELATIONS: Mapping[str, Relation] = {
    "entailment": "entailment",
    "neutral": "lack",
    "contradiction": "contradiction",
}
# Where neither the model nor its tokenizer says how much it reads: what BERT reads.
_UNDECLARED = 512
# Of a batch, padding included. More makes no device faster: a caption has a few thousand.
_TOKENS = 8192


def read_labels(model: str, id2label: Mapping[int, str]) -> tuple[Relation, ...]:
    """Return the relation that each logit means, by the names in a configuration's `id2label`.

    The order differs between models, and names may be in any case. Raises `UsageError` unless the
    labels are entailment, neutral and contradiction, once each.

    >>> read_labels("m", {0: "Contradiction", 1: "ENTAILMENT", 2: "neutral"})
    ('contradiction', 'entailment', 'lack')
    """
    names = [str(id2label.get(place)).strip().casefold() for place in range(len(id2label))]
    if sorted(names) != sorted(_RELATIONS):
        raise UsageError(
            f"{model}: its labels (id2label in config.json) are {listed(map(shown, names))}, not "
            "entailment, neutral and contradiction. A judge must tell what a caption contradicts "
            "from what it lacks; if the labels have no names, write those of the model card there"
        )
    return tuple(_RELATIONS[name] for name in names)


class CrossEncoder:
    """Classifies pairs of texts; the weights are loaded when the first pair comes.

    `called` is the model's name in results, `weights` identifies its weights (the commit of the
    hub, or the SHA-256 of a folder), and `limit` is how many tokens it reads at a time. Raises
    `UsageError` where the model cannot judge.

    Only the pairs of one call share a batch. So what a caption is batched with, and with it the
    last bits of its logits, do not depend on where a run was interrupted.
    """

    def __init__(
        self,
        model: str,
        *,
        device: str = "auto",
        dtype: str = "auto",
        revision: str | None = None,
        tokens: int = _TOKENS,
        on_notice: Callable[[str], None] = lambda _: None,
    ) -> None:
        transformers.logging.set_verbosity_error()
        if not sys.stderr.isatty():
            # An error is then one line.
            transformers.logging.disable_progress_bar()
        folder = Path(model).expanduser()
        is_local = folder.is_dir()
        if is_local and revision is not None:
            raise UsageError(f"revision is for models of the hub; {folder} is a folder")
        if not is_local and (model.startswith((".", "/", "~")) or model.count("/") != 1):
            raise UsageError(
                f"{shown(model)} is neither a folder here nor a model of the hub (nli:ORG/NAME)"
            )
        self._model_path = str(folder) if is_local else model
        self.device = one_device(device)
        self.dtype = native_precision(dtype, self.device)
        with one_line_errors(self._model_path):
            source = find_checkpoint(self._model_path, revision)
            self._arguments = source.arguments
            config = AutoConfig.from_pretrained(self._model_path, **self._arguments)
            self.tokenizer: Any = AutoTokenizer.from_pretrained(self._model_path, **self._arguments)
        self.labels = read_labels(self._model_path, config.id2label)
        check_vocabulary(self._model_path, self.tokenizer)
        # A "[SEP]" in a caption is text: it must not end the premise.
        self.tokenizer.split_special_tokens = True
        self.limit = _limit(config, self.tokenizer)
        self.called = one_line(folder.resolve().name if is_local else model)
        self.weights = (
            folder_hash(source.folder, on_notice=on_notice) if is_local else str(source.revision)
        )
        self._tokens, self._on_notice = tokens, on_notice
        self._model: Any = None
        self._accepted: frozenset[str] = frozenset()

    @property
    def precision(self) -> str:
        """The precision of the weights, as the setting `dtype` names it."""
        return str(self.dtype).removeprefix("torch.")

    def logits(self, inputs: Sequence[Encoded]) -> NDArray[np.float32]:
        """Return one row for each input, in order, with a column for each label.

        Raises `JudgeError` where one input alone runs out of memory, and `UsageError` if the
        weights cannot be loaded.
        """
        if self._model is None:
            self._load()
        rows = np.empty((len(inputs), len(self.labels)), dtype=np.float32)
        # The longest first: what memory is needed shows at once.
        waiting = sorted(range(len(inputs)), key=lambda at: (-len(inputs[at]["input_ids"]), at))
        while waiting:
            longest = len(inputs[waiting[0]]["input_ids"])
            now = waiting[: max(1, self._tokens // longest)]
            try:
                rows[now] = self._forward([inputs[at] for at in now])
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if len(now) == 1:
                    raise JudgeError(
                        f"memory runs out on {self.device} with {longest:,} tokens alone"
                    ) from error
            else:
                waiting = waiting[len(now) :]
                continue
            # Outside the handler, the exception no longer keeps the failed batch's tensors.
            release(self.device)
            self._tokens = len(now) * longest // 2
            self._on_notice(
                f"Memory ran out: {self.called} gets at most {self._tokens:,} tokens at a time "
                "from here on"
            )
        return rows

    def close(self) -> None:
        """Release the memory of the weights."""
        if self._model is not None:
            self._model = None
            release(self.device)

    def _load(self) -> None:
        with one_line_errors(self._model_path):
            model, info = AutoModelForSequenceClassification.from_pretrained(
                self._model_path, **self._arguments, dtype=self.dtype, output_loading_info=True
            )
            # A head that is not in the checkpoint would be random, and so would be its verdicts.
            check_complete(self._model_path, info)
            self._model = model.to(self.device).eval()
        self._accepted = frozenset(inspect.signature(model.forward).parameters)

    def _forward(self, batch: Sequence[Encoded]) -> NDArray[np.float32]:
        padded = self.tokenizer.pad([dict(one) for one in batch], return_tensors="pt")
        accepted = {name: padded[name].to(self.device) for name in padded if name in self._accepted}
        with torch.inference_mode():
            rows: NDArray[np.float32] = self._model(**accepted).logits.float().cpu().numpy()
        return rows


def _limit(config: Any, tokenizer: Any) -> int:
    """Return how many tokens the model reads: the least that it or its tokenizer declares."""
    positions = getattr(config, "max_position_embeddings", None) or 0
    if any(name in config.model_type for name in ("roberta", "camembert")):
        # Their positions begin after the number of the padding token.
        positions -= config.pad_token_id + 1
    # Where it is not known, tokenizers have 10^30.
    declared = (tokenizer.model_max_length, positions)
    return int(min((length for length in declared if 0 < length < 1_000_000), default=_UNDECLARED))
