"""How likely a model in this process finds given replies.

The prompt with its frames is read once, and its cache is shared by all replies. Whether that works
for a model is tried with its first request: if the tokens get other numbers one by one, as captions
are written, all replies of this model are scored one by one, which is slower.
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

# Rows that share a copy of the prompt's cache: enough for one question, and little memory.
_ROWS = 8
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
        if self._shares_cache is None:
            self._shares_cache = self._can_share(inputs, max(rows, key=len))
        found = self._with_cache(inputs, rows) if self._shares_cache else None
        return tuple(found or (self._one_by_one(inputs, row) for row in rows))

    def _tokens(self, text: str) -> list[int]:
        tokens: list[int] = self._loaded.tokenizer(text, add_special_tokens=False)["input_ids"]
        if not tokens:
            raise ValueError(f"the option {text!r} has no tokens")
        return tokens

    def _can_share(self, inputs: Mapping[str, Any], row: list[int]) -> bool:
        try:
            ((shared, _),) = self._with_cache(inputs, [row])
        except (TypeError, ValueError, AttributeError, NotImplementedError, IndexError):
            # Classes of transformers differ in their caches and in what they prepare for a step,
            # and say so in no other way. Scoring one by one then shows whether the request itself
            # is at fault.
            return False
        tolerance = _EXACT if self._loaded.dtype == torch.float32 else _ROUGH
        return abs(shared - self._one_by_one(inputs, row)[0]) <= tolerance * len(row)

    def _with_cache(self, inputs: Mapping[str, Any], rows: Sequence[list[int]]) -> list[Score]:
        read = self._loaded.model.generate(**inputs, generation_config=self._config(1))
        first = read.logits[0].float().log_softmax(-1)
        scores: list[Score] = []
        for at in range(0, len(rows), _ROWS):
            some = rows[at : at + _ROWS]
            later = self._continued(inputs, read.past_key_values, some)
            for number, row in enumerate(some):
                # One row at a time: a float for each token of the vocabulary at each place is a
                # gigabyte for eight long options.
                logs = first
                if len(row) > 1:
                    more = later[number, : len(row) - 1].float().log_softmax(-1)
                    logs = torch.cat([first.to(more.device), more])
                at_tokens = logs[torch.arange(len(row)), torch.tensor(row)]
                scores.append((-sum(at_tokens.tolist()), len(row)))
        return scores

    def _continued(self, inputs: Mapping[str, Any], cache: Any, rows: Sequence[list[int]]) -> Any:
        """Return the logits (rows, places, tokens) after each token but the last."""
        longest = max(map(len, rows)) - 1
        if not longest:
            return None
        model, device = self._loaded.model, self._loaded.device
        prompt, count = inputs["input_ids"], len(rows)
        padding = self._loaded.tokenizer.pad_token_id
        added = [row[:-1] + [padding] * (longest - len(row) + 1) for row in rows]
        ids = torch.cat([prompt.expand(count, -1), torch.tensor(added, device=device)], dim=1)
        # Padding is behind what is scored, which therefore does not see it.
        shared = copy.deepcopy(cache)
        shared.batch_repeat_interleave(count)
        prepared = model.prepare_inputs_for_generation(
            ids,
            next_sequence_length=longest,
            is_first_iteration=False,
            use_cache=True,
            attention_mask=torch.ones_like(ids),
            past_key_values=shared,
            position_ids=self._positions(inputs, count, longest),
        )
        return model(**prepared, return_dict=True).logits

    def _positions(self, inputs: Mapping[str, Any], rows: int, places: int) -> torch.Tensor:
        """Return the positions behind the prompt, counted on from its last as `generate` does."""
        others = {name: value for name, value in inputs.items() if name != "input_ids"}
        positions: torch.Tensor = self._loaded.model._prepare_position_ids_for_generation(  # noqa: SLF001 - has no public name
            inputs["input_ids"], others
        )
        steps = torch.arange(1, places + 1, device=positions.device)
        # (rows, places), or with an axis in front for time, height and width.
        shape = (*positions.shape[:-2], rows, places)
        return (positions[..., -1:] + steps).expand(shape)

    def _one_by_one(self, inputs: Mapping[str, Any], row: list[int]) -> Score:
        """Return the score of a row that the model is made to write."""
        config = self._config(len(row))
        forced = _Forced(int(inputs["input_ids"].shape[1]), row)
        written = self._loaded.model.generate(
            **inputs, generation_config=config, logits_processor=[forced]
        )
        # These are the logits as they were before any token was forced.
        logs = [logits[0].float().log_softmax(-1) for logits in written.logits]
        return float(-sum(log[token] for log, token in zip(logs, row, strict=True))), len(row)

    def _config(self, tokens: int) -> Any:
        config = copy.deepcopy(self._loaded.generation)
        config.update(
            max_new_tokens=tokens,
            do_sample=False,
            repetition_penalty=None,
            return_dict_in_generate=True,
            output_logits=True,
        )
        return config


class _Forced:
    """Lets a model write only one token at each place."""

    def __init__(self, prompt: int, row: Sequence[int]) -> None:
        self._prompt, self._row = prompt, row

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        forced = torch.full_like(scores, -float("inf"))
        forced[:, self._row[input_ids.shape[1] - self._prompt]] = 0
        return forced
