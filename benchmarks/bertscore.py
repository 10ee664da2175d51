"""How fast BERTScore is, beside the package bert-score with the same model and texts.

`python -m benchmarks.bertscore MODEL TEXTS capeval|bert-score` prints the seconds of one of them,
without those that loading takes.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.judging import Row
from tests.torchvision_operators import DefinedBeforeImport

__all__ = ["measure"]

_CAPTIONS = 24
# In turns, because the load of a machine changes.
_TURNS = 3
_LAYER = 10
# At least as fast as the package that it replaces.
_RATIO = 1.0
_LENGTHS = (40, 240)
_WORDS = ["a", "the", "man", "dog", "camera", "walks", "opens", "red", "slowly", "then", "window"]


def measure(folder: Path) -> Iterator[Row]:
    """Yield the rows one by one; `folder` is for scratch files."""
    place = folder / "bertscore"
    place.mkdir()
    model, texts = _model(place / "model"), place / "texts.json"
    rng = random.Random(0)
    pairs = [
        [" ".join(rng.choices(_WORDS, k=rng.randint(*_LENGTHS))) for _ in range(2)]
        for _ in range(_CAPTIONS)
    ]
    texts.write_text(json.dumps(pairs))
    name = "BERTScore, a random model with the shape of roberta-base, layer 10, float32, CPU"
    whos = ["capeval"]
    if importlib.util.find_spec("bert_score") is not None:
        whos.append("bert-score")
    seconds: dict[str, list[float]] = {who: [] for who in whos}
    for _ in range(_TURNS):
        for who in whos:
            seconds[who].append(_seconds(model, texts, who))
    own, *others = (_CAPTIONS / min(seconds[who]) for who in whos)
    if not others:
        yield Row(f"{name} (bert-score is not installed)", f"{own:.2f} captions/s", "", True)
        return
    other = others[0]
    yield Row(
        f"{name}; captions and references of {_LENGTHS[0]} to {_LENGTHS[1]} words "
        f"(best of {_TURNS} turns)",
        f"{own:.2f} captions/s; bert-score {other:.2f}; {own / other:.2f} times as fast",
        f">= {_RATIO:g} times",
        own >= _RATIO * other,
    )


def _model(folder: Path) -> Path:
    sys.meta_path.insert(0, DefinedBeforeImport())
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaModel

    torch.manual_seed(0)
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer.train_from_iterator(
        [" ".join(_WORDS)], trainers.WordLevelTrainer(special_tokens=special)
    )
    names = ("cls_token", "pad_token", "sep_token", "unk_token", "mask_token")
    wrapped: Any = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=512,
        **dict(zip(names, special, strict=True)),
    )
    wrapped.save_pretrained(folder)
    RobertaModel(
        RobertaConfig(vocab_size=50265, max_position_embeddings=514, pad_token_id=1)
    ).save_pretrained(folder)
    return folder


def _seconds(model: Path, texts: Path, who: str) -> float:
    command = [sys.executable, "-m", "benchmarks.bertscore", str(model), str(texts), who]
    done = subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        cwd=Path(__file__).resolve().parent.parent,
    )
    return float(done.stdout.split()[-1])


def _own(model: str, pairs: list[list[str]]) -> float:
    from capeval.metrics.bertscore import BERTScore
    from capeval.metrics.options import MetricsOptions
    from capeval.metrics.protocol import Context, Item

    with TemporaryDirectory() as folder, chdir(folder):
        settings = f'[metrics.bertscore]\nmodel = "{model}"\nlayer = {_LAYER}\n'
        Path("capeval.toml").write_text(settings, "utf-8")
        metric = BERTScore(Context(MetricsOptions(device="cpu")))
    items = [Item(str(n), None, one, (two,)) for n, (one, two) in enumerate(pairs)]

    async def scored() -> float:
        await metric.score(items[:1], lambda _item, _outcome: None)  # loads the model
        began = time.perf_counter()
        await metric.score(items, lambda _item, _outcome: None)
        seconds = time.perf_counter() - began
        metric.close()
        return seconds

    return asyncio.run(scored())


def _theirs(model: str, pairs: list[list[str]]) -> float:
    scorer: Any = __import__("bert_score").BERTScorer(
        model_type=model, num_layers=_LAYER, device="cpu"
    )
    began = time.perf_counter()
    scorer.score([one for one, _ in pairs], [two for _, two in pairs])
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.meta_path.insert(0, DefinedBeforeImport())
    _texts = json.loads(Path(sys.argv[2]).read_text())
    print((_own if sys.argv[3] == "capeval" else _theirs)(sys.argv[1], _texts))
