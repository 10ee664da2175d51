"""How likely a model in this process finds given replies.

The prompt with its frames is read once, and its cache is shared by all replies. Whether that works
for a model is tried with its first request: where it gives other numbers than reading the prompt
again does, the prompt is read again for each reply, which is slower.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from capeval.captioners.protocol import LoadedModel

Score = tuple[float, int]
"""A summed negative log-likelihood in nats, and the number of tokens."""

# Of one token: in half precision alone, neighbouring logits of 20 are 0.06 to 0.13 apart.
_EXACT, _ROUGH = 1e-3, 0.3


class ContinuationScorer:
    """Scores texts as replies to one request at a time."""

    def __init__(self, loaded: LoadedModel, tokenizing: threading.Lock | None = None) -> None:
        # `tokenizing` is held while the tokenizer is used: it must not be by two threads.
        self._loaded, self._tokenizing = loaded, tokenizing or threading.Lock()
        self._shares_cache: bool | None = None

    def score(self, inputs: Mapping[str, Any], texts: Sequence[str]) -> tuple[Score, ...]:
        """Return the score of each text as the reply to a prompt.

        `inputs` is a batch of one request, on the model's device. A text's tokens are those of the
        text alone, without special tokens; its end is not scored. Raises `ValueError` for a text
        without tokens.
        """
        with self._tokenizing:
            rows = [self._tokens(text) for text in texts]
        read = self._write(inputs, rows[0][:1])
        if self._shares_cache is None:
            self._shares_cache = self._can_share(inputs, read, max(rows, key=len))
        if self._shares_cache:
            return tuple(self._after(inputs, read, row) for row in rows)
        return tuple(_score(self._write(inputs, row).logits, row) for row in rows)

    def _tokens(self, text: str) -> list[int]:
        tokens: list[int] = self._loaded.tokenizer(text, add_special_tokens=False)["input_ids"]
        if not tokens:
            raise ValueError(f"the option {text!r} has no tokens")
        return tokens

    def _can_share(self, inputs: Mapping[str, Any], read: Any, row: list[int]) -> bool:
        try:
            shared, _ = self._after(inputs, read, row)
        except (TypeError, ValueError, AttributeError, NotImplementedError, IndexError):
            # Classes of transformers differ in their caches and in what they prepare for a step,
            # and say so in no other way.
            return False
        alone, _ = _score(self._write(inputs, row).logits, row)
        tolerance = _EXACT if self._loaded.dtype == torch.float32 else _ROUGH
        return abs(shared - alone) <= tolerance * len(row)

    def _after(self, inputs: Mapping[str, Any], read: Any, row: list[int]) -> Score:
        """Return the score of a row, which begins after the prompt that was `read`."""
        if len(row) == 1:
            return _score(read.logits, row)
        ids = torch.cat([inputs["input_ids"], inputs["input_ids"].new_tensor([row[:1]])], dim=1)
        later = self._write(
            {
                "input_ids": ids,
                "attention_mask": torch.ones_like(ids),
                "cache": copy.deepcopy(read.cache),
            },
            row[1:],
        )
        return _score([*read.logits, *later.logits], row)

    def _write(self, inputs: Mapping[str, Any], row: Sequence[int]) -> Any:
        """Let the model write a row; its `logits` are those before any token was forced."""
        config = copy.deepcopy(self._loaded.generation)
        config.update(
            max_new_tokens=len(row),
            do_sample=False,
            repetition_penalty=None,
            return_dict_in_generate=True,
            output_logits=True,
        )
        start = int(inputs["input_ids"].shape[1])

        def forced(input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            only = torch.full_like(scores, -float("inf"))
            only[:, row[input_ids.shape[1] - start]] = 0
            return only

        return self._loaded.model.generate(
            **inputs, generation_config=config, logits_processor=[forced]
        )


def _score(logits: Sequence[torch.Tensor], row: Sequence[int]) -> Score:
    logs = [one[0].float().log_softmax(-1) for one in logits]
    return float(-sum(log[token] for log, token in zip(logs, row, strict=True))), len(row)
