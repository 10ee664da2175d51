"""How likely a model in this process finds given replies.

The prompt with its frames is read once, and its cache is shared by all replies. Whether that works
for a model is tried with its first request: if the whole sequence read at once gives other numbers,
every reply of this model is read together with the prompt, which is slower.
"""

from __future__ import annotations

import copy
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
# Per-token inputs of some processors; what is appended is text, which they call 0.
_TOKEN_TYPES = ("token_type_ids", "mm_token_type_ids", "moe_mm_token_type_ids")


class ContinuationScorer:
    """Scores texts as replies to one request at a time."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded = loaded
        self._shares_cache: bool | None = None

    def score(self, inputs: Mapping[str, Any], texts: Sequence[str]) -> tuple[Score, ...]:
        """Return the score of each text as the reply to a prompt.

        `inputs` is a batch of one request, on the model's device. A text's tokens are those of the
        text alone, without special tokens; its end is not scored. Raises `ValueError` for a text
        without tokens.
        """
        rows = [self._tokens(text) for text in texts]
        if self._shares_cache is None:
            self._shares_cache = self._can_share(inputs, max(rows, key=len))
        found = self._with_cache(inputs, rows) if self._shares_cache else None
        return tuple(found or (self._whole(inputs, row) for row in rows))

    def _tokens(self, text: str) -> list[int]:
        tokens: list[int] = self._loaded.tokenizer(text, add_special_tokens=False)["input_ids"]
        if not tokens:
            raise ValueError(f"the option {text!r} has no tokens")
        return tokens

    def _can_share(self, inputs: Mapping[str, Any], row: list[int]) -> bool:
        try:
            ((shared, _),) = self._with_cache(inputs, [row])
        except (TypeError, ValueError, AttributeError, NotImplementedError, IndexError):
            return False
        tolerance = _EXACT if self._loaded.dtype == torch.float32 else _ROUGH
        return abs(shared - self._whole(inputs, row)[0]) <= tolerance * len(row)

    def _with_cache(self, inputs: Mapping[str, Any], rows: Sequence[list[int]]) -> list[Score]:
        loaded = self._loaded
        config = copy.deepcopy(loaded.generation)
        config.update(
            max_new_tokens=1, do_sample=False, return_dict_in_generate=True, output_logits=True
        )
        read = loaded.model.generate(**inputs, generation_config=config)
        first = read.logits[0][0].float().log_softmax(-1)
        scores: list[Score] = []
        for at in range(0, len(rows), _ROWS):
            some = rows[at : at + _ROWS]
            later = self._continued(inputs, read.past_key_values, some)
            for number, row in enumerate(some):
                total = -first[row[0]]
                for place, token in enumerate(row[1:]):
                    total = total - later[number, place, token]
                scores.append((float(total), len(row)))
        return scores

    def _continued(self, inputs: Mapping[str, Any], cache: Any, rows: Sequence[list[int]]) -> Any:
        """Return the log-probabilities (rows, places, tokens) after each token but the last."""
        longest = max(map(len, rows)) - 1
        if not longest:
            return None
        model, device = self._loaded.model, self._loaded.device
        prompt, count = inputs["input_ids"], len(rows)
        padding = self._loaded.tokenizer.pad_token_id
        added = [row[:-1] + [padding] * (longest - len(row) + 1) for row in rows]
        ids = torch.cat([prompt.expand(count, -1), torch.tensor(added, device=device)], dim=1)
        # Padding is behind what is scored, which therefore does not see it.
        mask = torch.ones_like(ids)
        shared = copy.deepcopy(cache)
        shared.batch_repeat_interleave(count)
        given: dict[str, Any] = {"attention_mask": mask, "past_key_values": shared}
        positions = model._prepare_position_ids_for_generation(ids, {**given, "input_ids": ids})  # noqa: SLF001 - as `generate` goes on from a cache
        prepared = model.prepare_inputs_for_generation(
            ids,
            next_sequence_length=longest,
            is_first_iteration=False,
            use_cache=True,
            position_ids=positions,
            **given,
        )
        return model(**prepared, return_dict=True).logits.float().log_softmax(-1)

    def _whole(self, inputs: Mapping[str, Any], row: list[int]) -> Score:
        """Return the score of a row that is read together with the prompt."""
        added = torch.tensor([row], device=self._loaded.device)
        whole = dict(inputs)
        whole["input_ids"] = torch.cat([inputs["input_ids"], added], dim=1)
        whole["attention_mask"] = torch.ones_like(whole["input_ids"])
        for name in _TOKEN_TYPES:
            if name in whole:
                zeros = torch.zeros_like(added, dtype=whole[name].dtype)
                whole[name] = torch.cat([whole[name], zeros], dim=1)
        logits = self._loaded.model(**whole, logits_to_keep=len(row) + 1, return_dict=True).logits
        logs = logits[0, -len(row) - 1 : -1].float().log_softmax(-1)
        return float(-logs.gather(1, added[0, :, None]).sum()), len(row)
