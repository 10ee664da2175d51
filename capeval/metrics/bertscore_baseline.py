"""Baselines that rescale BERTScore, read from a file or from the installed package bert-score.

Raw values of unrelated sentences are far above 0, for roberta-large 0.83. The authors subtract the
mean value of random pairs of sentences: (x - b) / (1 - b).
"""

from __future__ import annotations

import csv
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from io import StringIO
from pathlib import Path

from capeval.errors import InputError, MissingExtra, UsageError
from capeval.files.reading import read_text
from capeval.metrics.bertscore_layers import table_name
from capeval.text import nearest, shown

_HEADER = ("LAYER", "P", "R", "F")
_PACKAGE = "bert_score"


@dataclass(frozen=True)
class Baseline:
    """The mean precision, recall and F1 of unrelated sentences, and where they come from."""

    values: tuple[float, float, float]
    identity: str

    def rescale(self, measures: Sequence[float | None]) -> tuple[float | None, ...]:
        """Return precision, recall and F1 on the scale on which unrelated sentences get 0.

        >>> Baseline((0.5, 0.5, 0.5), "").rescale((0.75, None, 0.5))
        (0.5, None, 0.0)
        """
        return tuple(
            None if value is None else (value - base) / (1 - base)
            for value, base in zip(measures, self.values, strict=True)
        )


def find_baseline(wanted: str, *, model: str, layer: int) -> Baseline:
    """Return the baseline of a model's layer.

    `wanted` is a file, or a language such as "en" for the authors' measurement of this model, which
    the package bert-score has; "en:NAME" is that of the model NAME, of which a folder has a copy.
    Raises `InputError`, `MissingExtra`, and `UsageError` where the authors measured none.
    """
    path = Path(wanted)
    if path.suffix in {".tsv", ".csv"} or wanted.startswith((".", "/", "~")):
        return read_baseline(path, layer)
    language, _, name = wanted.partition(":")
    return _published(language, name or model, layer)


def _published(language: str, model: str, layer: int) -> Baseline:
    # Importing the package would import matplotlib and pandas; its files are all that is needed.
    package = find_spec(_PACKAGE)
    if package is None or not package.submodule_search_locations:
        raise MissingExtra(
            "the published baselines of BERTScore are in the package bert-score",
            "bertscore",
            ", or pass a file to --bertscore-rescale",
        )
    folder = Path(next(iter(package.submodule_search_locations))) / "rescale_baseline"
    languages = sorted(one.name for one in folder.iterdir() if one.is_dir())
    if language not in languages:
        raise UsageError(
            f"--bertscore-rescale {shown(language)}: baselines are published for "
            f"{', '.join(languages)}; otherwise name a file, such as ./baseline.tsv"
        )
    name = table_name(model)
    file = folder / language / f"{name}.tsv"
    if not file.is_file():
        found = (folder / language).rglob("*.tsv")
        known = sorted(
            one.relative_to(folder / language).with_suffix("").as_posix() for one in found
        )
        raise UsageError(
            f"--bertscore-rescale {language}: no baseline is published for {shown(model)}"
            f"{nearest(name, known)}; name a file of its own, such as ./baseline.tsv"
        )
    try:
        number = version("bert-score")
    except PackageNotFoundError:
        number = "unknown"
    read = read_baseline(file, layer)
    return Baseline(read.values, f"{language}:{name}@bert-score-{number}#{read.identity[-6:]}")


def read_baseline(file: Path, layer: int) -> Baseline:
    """Return a layer's baseline from a file as bert-score has it: lines of LAYER,P,R,F.

    Raises `InputError`.
    """
    text = read_text(file)
    rows = csv.reader(StringIO(text), delimiter="\t" if "\t" in text.partition("\n")[0] else ",")
    if tuple(cell.strip().upper() for cell in next(rows, [])) != _HEADER:
        raise InputError("must be the header LAYER,P,R,F", file=file, where="line 1")
    for row in rows:
        if row and row[0].strip() == str(layer):
            values = _numbers(row[1:], file, rows.line_num)
            digest = hashlib.sha256(text.encode("utf-8")).hexdigest()[:6]
            return Baseline(values, f"file#{digest}")
    raise InputError(f"has no line for layer {layer}", file=file)


def _numbers(cells: Sequence[str], file: Path, line: int) -> tuple[float, float, float]:
    place = f"line {line}"
    if len(cells) != len(_HEADER) - 1:
        raise InputError("must have the four columns LAYER,P,R,F", file=file, where=place)
    values = []
    for name, cell in zip(_HEADER[1:], cells, strict=True):
        try:
            value = float(cell)
        except ValueError:
            value = math.nan
        # At 1 the scale would have no width; above it, better texts would get lower values.
        if not -1 <= value < 1:
            raise InputError(
                f"{shown(cell)} must be a number from -1 to below 1",
                file=file,
                where=place,
                field=name,
            )
        values.append(value)
    precision, recall, f1 = values
    return precision, recall, f1
