"""BERTScore as a metric: `--metric bertscore`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from capeval.errors import UsageError
from capeval.files.judgments import short_hash
from capeval.local_models.devices import require_packages
from capeval.local_models.weights_identity import folder_state
from capeval.metrics.bertscore_baseline import Baseline, find_baseline
from capeval.metrics.bertscore_layers import known_layer
from capeval.metrics.protocol import (
    Context,
    HasRoom,
    Item,
    Metric,
    Outcome,
    Output,
    Record,
    Scored,
    Summary,
    Unscored,
)
from capeval.runs.concurrency import in_thread
from capeval.schema import Caption
from capeval.text import counted

if TYPE_CHECKING:
    from capeval.metrics.bertscore_encoder import Encoder, Tokens
    from capeval.metrics.bertscore_matching import Matched, TokenWeights

F1, PRECISION, RECALL = "bertscore-f1", "bertscore-precision", "bertscore-recall"
_IN_ORDER = (PRECISION, RECALL, F1)
# Captions whose values are kept at once: a killed process loses at most so many, and their
# embeddings (with references, about 100 MB for large models) stay in memory.
_AT_ONCE = 32
_CAPTION, _REFERENCE = "caption", "reference"


# What computes: another version may round otherwise.
_LIBRARIES = ("torch", "transformers", "tokenizers")


@dataclass(frozen=True)
class _Pair:
    """A caption and its references, as tokens."""

    item: Item
    caption: Tokens
    references: tuple[Tokens, ...]

    @property
    def length(self) -> int:
        return len(self.caption.ids) + sum(len(one.ids) for one in self.references)

    @property
    def cut(self) -> list[str]:
        """Which of the two was longer than what the model reads."""
        sides = {_CAPTION: (self.caption,), _REFERENCE: self.references}
        return [name for name, texts in sides.items() if any(text.is_cut for text in texts)]


class _LocalModel:
    """The model that the options name: known before it is loaded, and loaded once."""

    def __init__(self, context: Context) -> None:
        o = context.options
        model = o.bertscore_model.removeprefix("hf:")
        # Imported first: the modules below import them.
        require_packages(("torch", "transformers"), "bertscore")
        from capeval.local_models.checkpoint import find_checkpoint
        from capeval.local_models.loading import one_line_errors
        from capeval.metrics.bertscore_encoder import begins_with_space

        if not Path(model).is_dir() and model.startswith((".", "/", "~")):
            raise UsageError(f"--bertscore-model {model}: there is no such folder")
        with one_line_errors(model):
            self.source = find_checkpoint(model, None)
        layer = o.bertscore_layer
        if layer is None and not self.source.is_local:
            layer = known_layer(model)
        if layer is None:
            raise UsageError(
                f"{model}: the authors of BERTScore chose no layer for it; choose one with "
                "--bertscore-layer"
            )
        self.name, self.layer = model, layer
        self.is_spaced = not o.bertscore_fast_tokenizer and begins_with_space(self.source)
        self._device = o.device or "auto"
        self._state = folder_state(self.source.folder) if self.source.is_local else None
        found = self.source.identity(context.on_notice)
        if isinstance(found, str):
            self.identity = f"{found}@{(self.source.revision or 'unknown')[:12]}"
        else:
            self.identity = f"{found['folder']}@{found['sha256'][:12]}"
        self._encoder: Encoder | None = None

    def encoder(self) -> Encoder:
        """Return the model; the first call loads it."""
        if self._encoder is None:
            from capeval.metrics.bertscore_encoder import Encoder

            loaded = Encoder(
                self.source, self.layer, device=self._device, leading_space=self.is_spaced
            )
            if self._state is not None and folder_state(self.source.folder) != self._state:
                # The signature may then name other weights.
                raise UsageError(f"{self.name}: was changed meanwhile; run the same command again")
            self._encoder = loaded
        return self._encoder


class BERTScore(Metric):
    """Precision, recall and F1 of tokens matched by their embeddings (Zhang et al., 2020).

    With several references each number is the highest of them. An empty caption gets 0; a text
    without any token has no value.
    """

    name = "bertscore"
    outputs = (Output(F1), Output(PRECISION), Output(RECALL))

    def __init__(
        self,
        context: Context,
        model: _LocalModel | None = None,
        corpus: Sequence[str] | None = None,
    ) -> None:
        super().__init__(context)
        o = context.options
        self._model = model or _LocalModel(context)
        self._baseline: Baseline | None = None
        if o.bertscore_rescale is not None:
            self._baseline = find_baseline(
                o.bertscore_rescale, model=self._model.name, layer=self._model.layer
            )
        self._corpus = corpus
        idf = "none" if corpus is None else f"references@{len(corpus)}#{short_hash(corpus)[:6]}"
        self.settings = {
            "model": self._model.identity,
            "layer": str(self._model.layer),
            "idf": idf,
            "rescale": "none" if self._baseline is None else self._baseline.identity,
            "space": "leading" if self._model.is_spaced else "none",
            "references": "max",
            "empty": "0",
            # 2.9.0+cpu and 2.9.0+cu130 are one version.
            **{name: version(name).partition("+")[0] for name in _LIBRARIES},
        }

    def for_captions(self, items: Sequence[Item]) -> BERTScore:
        """Return the metric with the captions' references as the texts that idf is counted in."""
        if not self.context.options.bertscore_idf:
            return self
        by_video = {item.index: item.references for item in items}
        corpus = [text for texts in by_video.values() for text in texts]
        return BERTScore(self.context, self._model, corpus)

    async def open(self) -> None:
        """Load the model."""
        await in_thread(self._model.encoder)

    async def score(self, items: Sequence[Item], record: Record, has_room: HasRoom) -> None:
        """Score captions in groups of similar length, the longest first."""
        del has_room  # nothing is spent
        todo = []
        for item in items:
            if Caption(index=item.index, caption=item.caption).is_empty:
                record(item, Scored({output.name: 0.0 for output in self.outputs}))
            else:
                todo.append(item)
        if not todo:
            return
        pairs, weights = await in_thread(lambda: self._prepared(todo))
        for first in range(0, len(pairs), _AT_ONCE):
            group = pairs[first : first + _AT_ONCE]
            matched = await in_thread(partial(_matched, self._model, group, weights))
            for pair, matches in zip(group, matched, strict=True):
                record(pair.item, self._outcome(pair, matches))

    def _prepared(self, items: Sequence[Item]) -> tuple[list[_Pair], TokenWeights]:
        from capeval.metrics.bertscore_matching import equal_weights, idf_weights

        encoder = self._model.encoder()
        if self._corpus is None:
            weights = equal_weights(encoder.delimiters)
        else:
            weights = idf_weights([encoder.tokens(text).ids for text in self._corpus])
        pairs = [
            _Pair(
                item,
                encoder.tokens(item.caption),
                tuple(one for one in map(encoder.tokens, item.references) if one.content),
            )
            for item in items
        ]
        return sorted(pairs, key=lambda pair: -pair.length), weights

    def _outcome(self, pair: _Pair, matches: Sequence[Matched]) -> Outcome:
        from capeval.metrics.bertscore_matching import best

        tokens = {_CAPTION: pair.caption.content, _REFERENCE: [r.content for r in pair.references]}
        details = {"tokens": tokens, **({"cut": pair.cut} if pair.cut else {})}
        raw = best(matches)
        if not all(value is None or math.isfinite(value) for value in raw):
            return Unscored("the model's output is not a number", details)
        values = raw if self._baseline is None else self._baseline.rescale(raw)
        found = dict(zip(_IN_ORDER, values, strict=True))
        reason = _why_undefined(pair, raw[0] is None)
        return Scored(
            {name: value for name, value in found.items() if value is not None},
            {name: reason for name, value in found.items() if value is None},
            details,
        )

    def summarise(self, scored: Sequence[tuple[Item, Scored]]) -> Mapping[str, Summary]:
        """Return the means; how many texts were cut is a notice."""
        cuts = Counter(name for _, one in scored for name in one.details.get("cut", ()))
        if cuts:
            longer = " and ".join(counted(n, name) for name, n in sorted(cuts.items()))
            self.context.on_notice(
                f"bertscore: the end of {longer} was ignored: {self._model.name} reads no more"
            )
        return super().summarise(scored)


def _matched(
    model: _LocalModel, pairs: Sequence[_Pair], weights: TokenWeights
) -> list[list[Matched]]:
    """Return how each pair's caption matches each of its references."""
    import torch

    from capeval.metrics.bertscore_matching import EmbeddedText, match

    used = [pair for pair in pairs if pair.caption.content and pair.references]
    distinct = dict.fromkeys(text.ids for pair in used for text in (pair.caption, *pair.references))
    encoder = model.encoder()
    embedded = {
        ids: EmbeddedText(found, torch.tensor(weights.of(ids), device=found.device))
        for ids, found in zip(distinct, encoder.embed([*distinct]), strict=True)
    }
    return [
        [match(embedded[pair.caption.ids], embedded[one.ids]) for one in pair.references]
        if pair.caption.content
        else []
        for pair in pairs
    ]


def _why_undefined(pair: _Pair, lacks_precision: bool) -> str:
    for name, texts in ((_CAPTION, (pair.caption,)), (_REFERENCE, pair.references)):
        if not any(text.content for text in texts):
            return f"the {name} has nothing that the model has tokens for"
    name = _CAPTION if lacks_precision else _REFERENCE
    return f"every token of the {name} has weight 0"
