"""Logits of a cross-encoder, in batches by length that shrink when memory runs out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from capeval.errors import JudgeError, UsageError
from capeval.judging.nli.checkpoint import OpenCheckpoint
from capeval.judging.nli.windows import Encoded
from capeval.local_models.devices import is_out_of_memory, release

# Padding included. More makes no device faster: a caption has a few thousand.
_TOKENS = 8192


class CrossEncoder:
    """Classifies pairs of texts; the weights are loaded when the first pair comes.

    Only the pairs of one call share a batch. So what a caption is batched with, and with it the
    last bits of its logits, do not depend on where a run was interrupted.
    """

    def __init__(
        self,
        checkpoint: OpenCheckpoint,
        *,
        tokens: int = _TOKENS,
        on_notice: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.checkpoint = checkpoint
        self._tokens, self._on_notice = tokens, on_notice
        self._model: Any = None
        self._accepted: frozenset[str] = frozenset()

    def logits(self, inputs: Sequence[Encoded]) -> NDArray[np.float32]:
        """Return one row for each input, in order, with a column for each label.

        Raises `JudgeError` where one input alone runs out of memory, and `UsageError` if the
        weights cannot be loaded.
        """
        self._load()
        rows = np.empty((len(inputs), len(self.checkpoint.labels)), dtype=np.float32)
        # The longest first: what memory is needed shows at once.
        waiting = sorted(range(len(inputs)), key=lambda at: (-len(inputs[at]["input_ids"]), at))
        while waiting:
            now = waiting[: self._count(inputs[waiting[0]])]
            found = self._attempt([inputs[at] for at in now])
            if found is not None:
                rows[now] = found
                waiting = waiting[len(now) :]
        return rows

    def close(self) -> None:
        """Release the memory of the weights."""
        if self._model is not None:
            self._model = None
            release(self.checkpoint.device)

    def _load(self) -> None:
        if self._model is not None:
            return
        checkpoint = self.checkpoint
        try:
            self._model = checkpoint.load()
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise UsageError(
                f"{checkpoint.called} does not fit into the memory of {checkpoint.device}: choose "
                "another --device, or a smaller model"
            ) from error
        self._accepted = frozenset(inspect.signature(self._model.forward).parameters)

    def _count(self, longest: Encoded) -> int:
        return max(1, self._tokens // len(longest["input_ids"]))

    def _attempt(self, batch: Sequence[Encoded]) -> NDArray[np.float32] | None:
        """Return the rows of one batch, or None when it must be tried again in smaller ones."""
        try:
            return self._forward(batch)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        # Outside the handler, the exception no longer keeps the failed batch's tensors.
        release(self.checkpoint.device)
        longest = len(batch[0]["input_ids"])
        if len(batch) == 1:
            raise JudgeError(
                f"memory runs out on {self.checkpoint.device} with {longest:,} tokens alone"
            )
        self._tokens = len(batch) * longest // 2
        self._on_notice(
            f"Memory ran out: {self.checkpoint.called} gets at most {self._tokens:,} "
            "tokens at a time from here on"
        )
        return None

    def _forward(self, batch: Sequence[Encoded]) -> NDArray[np.float32]:
        device = self.checkpoint.device
        padded = self.checkpoint.tokenizer.pad([dict(one) for one in batch], return_tensors="pt")
        with torch.inference_mode():
            given = {name: padded[name].to(device) for name in padded if name in self._accepted}
            logits: torch.Tensor = self._model(**given).logits
            if logits.shape != (len(batch), len(self.checkpoint.labels)):
                raise UsageError(
                    f"{self.checkpoint.called}: gives {tuple(logits.shape)} logits for "
                    f"{len(batch)} pairs and {len(self.checkpoint.labels)} labels"
                )
            rows: NDArray[np.float32] = logits.float().cpu().numpy()
        return rows
