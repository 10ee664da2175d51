"""BERTScore (Zhang et al., ICLR 2020), computed by the authors' package: `--metric bertscore`.

bert-score embeds, weighs and matches tokens. The model is loaded here: the package accepts
checkpoints with missing weights, always loads all layers, and needs a tokenizer with a length.
"""

from __future__ import annotations

import csv
import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from capeval.errors import InputError, UsageError
from capeval.files.jsonl import read_text, short_hash
from capeval.local_models import one_device, require_packages
from capeval.metrics.protocol import (
    Context,
    Item,
    Metric,
    MetricOutput,
    NoValues,
    Outcome,
    Record,
    Settings,
    Summary,
    Values,
)
from capeval.runs.concurrency import in_thread
from capeval.text import counted, shown, storable

if TYPE_CHECKING:
    import torch

    from capeval.local_models import Checkpoint

F1, PRECISION, RECALL = "bertscore-f1", "bertscore-precision", "bertscore-recall"
_PACKAGE_ORDER = (PRECISION, RECALL, F1)
# Tokenizers that state no length have 1e30; nearly all encoders were trained with 512.
_NO_LENGTH, _USUAL_LENGTH = 1_000_000_000, 512
# bert-score puts a space before texts for these, so that the first word is like any other.
# transformers 5 ignores that, unless the tokenizer is loaded with it.
_SPACED = frozenset({"roberta", "gpt2"})


class BERTScoreSettings(Settings):
    """The model that compares texts, from the hub or a folder, and its number of layers.

    With `idf`, tokens are weighted by their inverse document frequency in the references. `rescale`
    is the language of the authors' baseline of the model, such as "en", or a file. Values are
    written after each batch.
    """

    model: str = "roberta-large"
    layer: int | None = Field(default=None, ge=0)
    idf: bool = False
    rescale: str | None = None
    batch_size: int = Field(default=16, ge=1)


class BERTScore(Metric):
    """Precision, recall and F1 of tokens matched by their embeddings (Zhang et al., 2020).

    With several references each number is the highest of them. An empty caption gets 0.
    """

    name = "bertscore"
    outputs = (MetricOutput(F1), MetricOutput(PRECISION), MetricOutput(RECALL))
    form = BERTScoreSettings
    chosen: BERTScoreSettings

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        require_packages(("torch", "transformers", "bert_score"), "bertscore")
        from bert_score.utils import get_hash, model2layers

        from capeval.local_models import find_checkpoint, one_line_errors

        chosen, model = self.chosen, self.chosen.model
        with one_line_errors(model):
            source = find_checkpoint(model, None)
        layer = model2layers.get(model) if chosen.layer is None else chosen.layer
        if layer is None:
            raise UsageError(
                f"{model}: the authors of BERTScore chose no layer for it; choose one as layer in "
                "[metrics.bertscore] of capeval.toml"
            )
        self._device = one_device(context.device or "auto")
        # Loaded when a caption needs it, and once for all runs that are measured.
        self._load = cache(partial(load_encoder, source, layer, self._device))
        self.corpus: Sequence[str] = ()
        self._baseline, rescale = (0.0, 0.0, 0.0), "none"
        if chosen.rescale:
            self._baseline, rescale = read_baseline(chosen.rescale, model, layer)
        found = source.identity(context.on_notice)
        name, commit = found, source.revision or "unknown"
        if not isinstance(found, str):
            name, commit = found["folder"], found["sha256"]
        is_file = rescale.startswith("file")
        given = (layer, chosen.idf, bool(chosen.rescale), is_file, False)
        self.settings = {
            "bert-score": get_hash(f"{name}@{commit[:12]}", *given),
            "idf": "none",
            "rescale": rescale,
            "space": "leading" if source.published.get("model_type") in _SPACED else "none",
            "empty": "0",
            # Other versions may round differently. 2.9.0+cpu and 2.9.0+cu130 are one version.
            **{one: version(one).partition("+")[0] for one in ("torch", "tokenizers")},
        }

    def for_captions(self, items: Sequence[Item]) -> BERTScore:
        if not self.chosen.idf:
            return self
        by_video = {item.index: item.references for item in items}
        found = copy(self)
        found.corpus = [storable(text) for texts in by_video.values() for text in texts]
        idf = f"references@{len(found.corpus)}#{short_hash(found.corpus)[:6]}"
        found.settings = {**self.settings, "idf": idf}
        return found

    async def score(self, items: Sequence[Item], record: Record) -> None:
        for item in items:
            if item.is_empty:
                record(item, Values({output.name: 0.0 for output in self.outputs}))
        todo = [item for item in items if not item.is_empty]
        todo.sort(key=lambda item: -len(item.caption) - sum(map(len, item.references)))
        size = self.chosen.batch_size
        weights = await in_thread(self._weights) if todo else {}
        for first in range(0, len(todo), size):
            batch = todo[first : first + size]
            found = await in_thread(partial(self._outcomes, batch, weights))
            for item, outcome in zip(batch, found, strict=True):
                record(item, outcome)

    def _weights(self) -> Mapping[int, float]:
        from bert_score.utils import get_idf_dict

        _, tokenizer = self._load()
        if self.chosen.idf:
            weights: Mapping[int, float] = get_idf_dict(self.corpus, tokenizer, nthreads=0)
            return weights
        delimiters = (tokenizer.cls_token_id, tokenizer.sep_token_id)
        return defaultdict(lambda: 1.0, dict.fromkeys(delimiters, 0.0))

    def _outcomes(self, items: Sequence[Item], weights: Mapping[int, float]) -> list[Outcome]:
        from bert_score.utils import bert_cos_score_idf

        model, tokenizer = self._load()
        values = bert_cos_score_idf(
            model,
            [storable(text) for item in items for text in item.references],
            [storable(item.caption) for item in items for _ in item.references],
            tokenizer,
            weights,
            batch_size=self.chosen.batch_size,
            device=self._device,
        )
        by_item = values.split([len(item.references) for item in items])
        best = [each.amax(dim=0).tolist() for each in by_item]
        return [self._outcome(item, raw) for item, raw in zip(items, best, strict=True)]

    def _outcome(self, item: Item, raw: Sequence[float]) -> Outcome:
        _, tokenizer = self._load()
        most = tokenizer.model_max_length
        sides = {"caption": [item.caption], "reference": item.references}
        cut = [
            name
            for name, texts in sides.items()
            if any(len(tokenizer.encode(storable(text).strip())) > most for text in texts)
        ]
        details = {"cut": cut} if cut else {}
        if not all(map(math.isfinite, raw)):
            # With idf and one video, for example, every token of the reference has weight 0.
            zero = "all tokens of a text have the idf weight 0"
            why = zero if self.chosen.idf else "not a number"
            return NoValues(f"bert-score returned no values: {why}", details)
        pairs = zip(_PACKAGE_ORDER, raw, self._baseline, strict=True)
        return Values({name: (x - base) / (1 - base) for name, x, base in pairs}, {}, details)

    def summarise(self, scored: Sequence[tuple[Item, Values]]) -> Mapping[str, Summary]:
        cuts = Counter(name for _, one in scored for name in one.details.get("cut", ()))
        if cuts:
            longer = " and ".join(counted(n, name) for name, n in sorted(cuts.items()))
            than = f"longer than the input of {self.chosen.model}"
            self.context.on_notice(f"bertscore: the end of {longer} was ignored: {than}")
        return super().summarise(scored)


def read_baseline(wanted: str, model: str, layer: int) -> tuple[tuple[float, float, float], str]:
    """Return precision, recall and F1 of unrelated sentences, and their identity.

    `wanted` is a language of the package's baselines of the model, or a file of lines LAYER,P,R,F.
    """
    import bert_score

    file, origin = Path(wanted), "file"
    if not file.suffix:
        folder = Path(bert_score.__file__).parent / "rescale_baseline"
        file, origin = folder / wanted / f"{model}.tsv", wanted
        if not file.is_file():
            raise UsageError(
                f"rescale in [metrics.bertscore]: bert-score has no baseline {shown(wanted)} of "
                f"{shown(model)}; name a file, such as ./baseline.tsv"
            )
    text = read_text(file)
    try:
        rows = {row["LAYER"]: row for row in csv.DictReader(text.splitlines())}
        precision, recall, f1 = (float(rows[str(layer)][name]) for name in "PRF")
    except (KeyError, TypeError, ValueError):
        raise InputError(f"must have a line LAYER,P,R,F for layer {layer}", file=file) from None
    return (precision, recall, f1), f"{origin}#{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def load_encoder(source: Checkpoint, layer: int, device: torch.device) -> tuple[Any, Any]:
    """Return the first layers of a model in float32, and its tokenizer; raises `UsageError`."""
    import torch
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    from capeval.local_models import check_complete, check_vocabulary, one_line_errors

    model = source.model
    with one_line_errors(model):
        config = AutoConfig.from_pretrained(model, **source.arguments)
        if layer > config.num_hidden_layers:
            raise UsageError(
                f"{model}: it has {config.num_hidden_layers} layers; layer in [metrics.bertscore] "
                f"is {layer}"
            )
        config.num_hidden_layers = layer
        space = {"add_prefix_space": True} if config.model_type in _SPACED else {}
        tokenizer: Any = AutoTokenizer.from_pretrained(model, **space, **source.arguments)
        check_vocabulary(model, tokenizer)
        loaded, info = AutoModel.from_pretrained(
            model, config=config, dtype=torch.float32, output_loading_info=True, **source.arguments
        )
    missing = [name for name in info["missing_keys"] if "pooler" not in name]
    check_complete(model, {"missing_keys": missing})
    if tokenizer.model_max_length > _NO_LENGTH:
        tokenizer.model_max_length = _USUAL_LENGTH
    has_decoder = hasattr(loaded, "decoder") and hasattr(loaded, "encoder")
    encoder = loaded.encoder if has_decoder else loaded
    return encoder.eval().to(device), tokenizer
