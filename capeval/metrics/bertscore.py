"""BERTScore as a metric: `--metric bertscore`."""

from __future__ import annotations

import csv
import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from capeval.errors import InputError, UsageError
from capeval.files.judgments import short_hash
from capeval.files.reading import read_text
from capeval.local_models.devices import require_packages
from capeval.metrics.bertscore_matching import Values, best, equal_weights, idf_weights, match
from capeval.metrics.protocol import (
    Context,
    Item,
    Metric,
    Outcome,
    Output,
    Record,
    Scored,
    Settings,
    Summary,
    Unscored,
)
from capeval.runs.concurrency import in_thread
from capeval.text import counted, shown

if TYPE_CHECKING:
    from capeval.metrics.bertscore_encoder import Encoder, Tokens

F1, PRECISION, RECALL = "bertscore-f1", "bertscore-precision", "bertscore-recall"
_IN_ORDER = (PRECISION, RECALL, F1)
# Captions whose values are kept at once: a killed process loses at most so many, and their
# embeddings (with references, about 100 MB for large models) stay in memory.
_AT_ONCE = 32
_CAPTION, _REFERENCE = "caption", "reference"

# What computes: another version may round otherwise.
_LIBRARIES = ("torch", "transformers", "tokenizers")

# Folders of the hub into which models have moved since the authors' tables were made.
_MOVED_TO = frozenset(
    {"FacebookAI", "albert", "distilbert", "google-bert", "google-t5", "openai-community", "xlnet"}
)


class BERTScoreSettings(Settings):
    """How texts are compared.

    Attributes
    ----------
    model : a name of the hub, or a folder such as ./mine
    layer : how many of its layers to use; by default as the authors chose for the model
    idf : whether tokens weigh by their inverse document frequency in the references
    rescale : "en" for the authors' baseline of the model, "en:NAME" for that of another name, or
        a file
    fast_tokenizer : put no space before texts for RoBERTa, as bert-score does with its option of
        this name, or with transformers 5
    """

    model: str = "roberta-large"
    layer: int | None = Field(default=None, ge=0)
    idf: bool = False
    rescale: str | None = None
    fast_tokenizer: bool = False


def authors_name(model: str) -> str:
    """Return the name that the authors' tables have for a model of the hub.

    >>> authors_name("FacebookAI/roberta-large")
    'roberta-large'
    """
    owner, _, name = model.partition("/")
    return name if owner in _MOVED_TO else model


def read_baseline(file: Path, layer: int) -> tuple[float, ...]:
    """Return precision, recall and F1 of unrelated sentences for a layer; raises `InputError`.

    The file has lines of LAYER,P,R,F, as those of the package bert-score.
    """
    rows = csv.DictReader(read_text(file).replace("\t", ",").splitlines())
    try:
        row = next(row for row in rows if row["LAYER"] == str(layer))
        values = tuple(float(row[name]) for name in "PRF")
    except (StopIteration, KeyError, TypeError, ValueError):
        values = ()
    # At 1 the scale would have no width; above it, better texts would get lower values.
    if not values or not all(-1 <= value < 1 for value in values):
        raise InputError(
            f"must have a line LAYER,P,R,F for layer {layer}, with numbers from -1 to below 1",
            file=file,
        )
    return values


def find_baseline(wanted: str, model: str, layer: int) -> tuple[tuple[float, ...], str]:
    """Return the baseline that `rescale` names, and what identifies it.

    Raises `InputError`, and `UsageError` where the authors measured none.
    """
    file, identity = Path(wanted), "file"
    if file.suffix not in {".tsv", ".csv"}:
        language, _, name = wanted.partition(":")
        name = authors_name(name or model)
        package = Path(str(import_module("bert_score").__file__)).parent
        file = package / "rescale_baseline" / language / f"{name}.tsv"
        identity = f"{language}:{name}@bert-score-{version('bert-score')}"
        if not file.is_file():
            raise UsageError(
                f"rescale in [metrics.bertscore]: bert-score has no baseline {shown(language)} of "
                f"{shown(name)}; name a file, such as ./baseline.tsv"
            )
    values = read_baseline(file, layer)
    return values, f"{identity}#{hashlib.sha256(read_text(file).encode()).hexdigest()[:6]}"


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
    """The model that the settings name: known before it is loaded, and loaded once."""

    def __init__(self, context: Context, settings: BERTScoreSettings) -> None:
        model = settings.model
        # Imported first: the modules below import them.
        require_packages(("torch", "transformers", "bert_score"), "bertscore")
        from capeval.local_models.checkpoint import find_checkpoint, one_line_errors
        from capeval.metrics.bertscore_encoder import begins_with_space

        if not Path(model).is_dir() and model.startswith((".", "/", "~")):
            raise UsageError(f"model in [metrics.bertscore]: there is no folder {shown(model)}")
        with one_line_errors(model):
            self.source = find_checkpoint(model, None)
        layer = settings.layer
        if layer is None and not self.source.is_local:
            layers: Mapping[str, int] = import_module("bert_score.utils").model2layers
            layer = layers.get(authors_name(model))
        if layer is None:
            raise UsageError(
                f"{model}: the authors of BERTScore chose no layer for it; choose one as layer in "
                "[metrics.bertscore] of capeval.toml"
            )
        self.name, self.layer = model, layer
        self.is_spaced = not settings.fast_tokenizer and begins_with_space(self.source)
        self._device = context.options.device or "auto"
        found = self.source.identity(context.on_notice)
        if isinstance(found, str):
            self.identity = f"{found}@{(self.source.revision or 'unknown')[:12]}"
        else:
            self.identity = f"{found['folder']}@{found['sha256'][:12]}"

    @cached_property
    def encoder(self) -> Encoder:
        """The model, loaded."""
        from capeval.metrics.bertscore_encoder import Encoder

        return Encoder(self.source, self.layer, device=self._device, leading_space=self.is_spaced)


class BERTScore(Metric):
    """Precision, recall and F1 of tokens matched by their embeddings (Zhang et al., 2020).

    With several references each number is the highest of them. An empty caption gets 0; a text
    without any token has no value.
    """

    name = "bertscore"
    outputs = (Output(F1), Output(PRECISION), Output(RECALL))
    form = BERTScoreSettings
    chosen: BERTScoreSettings

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._model = model = _LocalModel(context, self.chosen)
        self.corpus: Sequence[str] | None = None
        """The references that tokens are counted in for idf, if they are weighed."""
        self._baseline: tuple[float, ...] = (0.0, 0.0, 0.0)
        rescale = "none"
        if wanted := self.chosen.rescale:
            self._baseline, rescale = find_baseline(wanted, model.name, model.layer)
        self.settings = {
            "model": model.identity,
            "layer": str(model.layer),
            "idf": "none",
            "rescale": rescale,
            "space": "leading" if model.is_spaced else "none",
            "references": "max",
            "empty": "0",
            # 2.9.0+cpu and 2.9.0+cu130 are one version.
            **{name: version(name).partition("+")[0] for name in _LIBRARIES},
        }

    def for_captions(self, items: Sequence[Item]) -> BERTScore:
        """Return the metric with the captions' references as the texts that idf is counted in."""
        if not self.chosen.idf:
            return self
        by_video = {item.index: item.references for item in items}
        corpus = [text for texts in by_video.values() for text in texts]
        found = copy(self)
        found.corpus = corpus
        idf = f"references@{len(corpus)}#{short_hash(corpus)[:6]}"
        found.settings = {**self.settings, "idf": idf}
        return found

    async def score(self, items: Sequence[Item], record: Record) -> None:
        """Score captions in groups of similar length, the longest first."""
        todo = [item for item in items if not item.is_empty]
        pairs, weights = await in_thread(lambda: self._prepared(todo))
        for item in items:
            if item.is_empty:
                record(item, Scored({output.name: 0.0 for output in self.outputs}))
        for first in range(0, len(pairs), _AT_ONCE):
            group = pairs[first : first + _AT_ONCE]
            matched = await in_thread(partial(_matched, self._model.encoder, group, weights))
            for pair, matches in zip(group, matched, strict=True):
                record(pair.item, self._outcome(pair, matches))

    def _prepared(self, items: Sequence[Item]) -> tuple[list[_Pair], Mapping[int, float]]:
        encoder = self._model.encoder
        if self.corpus is None:
            weights = equal_weights(encoder.delimiters)
        else:
            weights = idf_weights([encoder.tokens(text).ids for text in self.corpus])
        pairs = [
            _Pair(
                item,
                encoder.tokens(item.caption),
                tuple(one for one in map(encoder.tokens, item.references) if one.content),
            )
            for item in items
        ]
        return sorted(pairs, key=lambda pair: -pair.length), weights

    def _outcome(self, pair: _Pair, matches: Sequence[Values]) -> Outcome:
        tokens = {_CAPTION: pair.caption.content, _REFERENCE: [r.content for r in pair.references]}
        details = {"tokens": tokens, **({"cut": pair.cut} if pair.cut else {})}
        values: dict[str, float] = {}
        undefined: dict[str, str] = {}
        raw = best(matches)
        for name, value, base in zip(_IN_ORDER, raw, self._baseline, strict=True):
            if value is None:
                undefined[name] = _why_undefined(pair, raw[0] is None)
            elif math.isfinite(value):
                values[name] = (value - base) / (1 - base)
            else:
                return Unscored("the model's output is not a number", details)
        return Scored(values, undefined, details)

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
    encoder: Encoder, pairs: Sequence[_Pair], weights: Mapping[int, float]
) -> list[list[Values]]:
    """Return how each pair's caption matches each of its references."""
    import torch

    used = [pair for pair in pairs if pair.caption.content and pair.references]
    distinct = dict.fromkeys(text.ids for pair in used for text in (pair.caption, *pair.references))
    embedded = dict(zip(distinct, encoder.embed([*distinct]), strict=True))
    weighed = {
        ids: torch.tensor([weights[token] for token in ids], device=encoder.device)
        for ids in distinct
    }

    def matched(one: tuple[int, ...], other: tuple[int, ...]) -> Values:
        return match(embedded[one], embedded[other], weighed[one], weighed[other])

    return [
        [matched(pair.caption.ids, one.ids) for one in pair.references]
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
