"""Raters' files joined: checked against the key, unblinded, and held against one another."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from capeval.correlation.rating_sheet import KEY_COLUMNS, csv_text, element_ids
from capeval.errors import InputError, UsageError
from capeval.files.text import read_text
from capeval.files.validation import nearest, shown
from capeval.schema import RELATIONS, Annotation, Relation
from capeval.stats.agreement import coefficients, confusion_matrix, krippendorff_alpha
from capeval.stats.values import Missing, Value

__all__ = [
    "HUMAN_COLUMNS",
    "Agreement",
    "KeyedItem",
    "PairAgreement",
    "RatedFile",
    "agreement",
    "check_key",
    "human_csv",
    "read_key",
    "read_rated",
    "together",
]

HUMAN_COLUMNS = ("video_id", "system", "element_id", "rater", "label")

_SHORT: dict[str, Relation] = {label[0]: label for label in RELATIONS}
_LABELS: dict[str, Relation] = {**_SHORT, **{label: label for label in RELATIONS}}


@dataclass(frozen=True, slots=True)
class KeyedItem:
    """What an id of the sheet stands for."""

    video_id: str
    system: str
    elements: tuple[int, ...]
    """How many each event has."""


Place = tuple[str, str]
"""An item's id and an element's."""


@dataclass(frozen=True, slots=True)
class RatedFile:
    """What one rater gave; `missing` are the places without a label, in the key's order."""

    rater: str
    path: Path
    labels: Mapping[Place, Relation]
    missing: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class PairAgreement:
    """Two raters on the `n` elements that both labelled."""

    first: str
    second: str
    n: int
    accuracy: Value
    kappa: Value
    ac1: Value


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well raters agree: nominal alpha over all, and each pair."""

    alpha: Value
    n: int
    """Elements that at least two of them labelled."""
    pairs: tuple[PairAgreement, ...]


def _table(
    path: Path, needed: Sequence[str], *, strip: bool = True
) -> list[tuple[int, dict[str, str]]]:
    """Return line and cells of every row that is not blank; commas, semicolons or tabs."""
    text = read_text(path)
    header = text.lstrip().split("\n", 1)[0]
    delimiter = max(",;\t", key=header.count)
    found: list[tuple[int, dict[str, str]]] = []
    # A caption may be longer than the module's limit; that is the interpreter's, so it is put back.
    limit = csv.field_size_limit(len(text) + 1)
    try:
        # Kept as it is: a line break inside quotes belongs to its cell.
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        names: list[str] | None = None
        line = 1
        for row in rows:
            cells = [cell.strip() for cell in row] if strip else row
            if any(cells) and names is None:
                names = [cell.strip().lower() for cell in cells]
                for name in needed:
                    if name not in names:
                        raise InputError(
                            f"has no column {name}{nearest(name, names)}",
                            file=path,
                            where=f"line {line}",
                        )
                    if names.count(name) > 1:
                        raise InputError(f"has two columns {name}", file=path, where=f"line {line}")
            elif any(cells) and names is not None:
                cells += [""] * (len(names) - len(cells))
                found.append((line, dict(zip(names, cells, strict=False))))
            line = rows.line_num + 1
    except csv.Error as fault:
        raise InputError(f"is not CSV ({fault})", file=path, where=f"line {line}") from None
    finally:
        csv.field_size_limit(limit)
    return found


def read_key(path: Path) -> dict[str, KeyedItem]:
    """Return what each id of the sheet stands for, in the sheet's order.

    Raises
    ------
    InputError
        The file is no key, or an id or a video with its system stands in it twice.
    """
    found: dict[str, KeyedItem] = {}
    pairs: dict[tuple[str, str], str] = {}
    # A video's index may end in a blank; it is taken as it stands.
    for line, row in _table(path, KEY_COLUMNS, strip=False):
        where = f"line {line}"
        for name in KEY_COLUMNS:
            if not row[name]:
                raise InputError("is empty", file=path, where=where, field=name)
        if not re.fullmatch(r"[1-9][0-9]{0,4}( [1-9][0-9]{0,4})*", row["elements"]):
            raise InputError(
                f"must be the number of elements of each event, not {shown(row['elements'])}",
                file=path,
                where=where,
                field="elements",
            )
        item = row["item_id"]
        pair = row["video_id"], row["system"]
        if item in found or pair in pairs:
            what = item if item in found else f"{pair[0]} of {pair[1]}"
            raise InputError(f"{what} stands twice", file=path, where=where)
        pairs[pair] = item
        found[item] = KeyedItem(*pair, tuple(int(n) for n in row["elements"].split(" ")))
    if not found:
        raise InputError("holds no items", file=path)
    return found


def check_key(
    key: Mapping[str, KeyedItem], annotations: Sequence[Annotation], *, file: Path
) -> None:
    """Hold a key against the annotations.

    Raises
    ------
    InputError
        A video is unknown to them or has other elements there.
    """
    known = {annotation.index: annotation for annotation in annotations}
    for item_id, item in key.items():
        annotation = known.get(item.video_id)
        if annotation is None:
            raise InputError(
                f"video {shown(item.video_id)} is unknown to the annotations"
                f"{nearest(item.video_id, list(known))}",
                file=file,
                where=item_id,
            )
        sizes = tuple(len(event.visual_elements) for event in annotation.events)
        if sizes != item.elements:
            raise InputError(
                f"the annotations have other elements for {shown(item.video_id)} than the sheet; "
                "name the annotations that the sheet was made from",
                file=file,
                where=item_id,
            )


def read_rated(path: Path, key: Mapping[str, KeyedItem]) -> RatedFile:
    """Return what one rater gave.

    The columns `item_id`, `element_id` and `label` are read, and `rater` where there is one; where
    nobody filled that in, the rater is the file's stem. Other columns and the order of the rows do
    not matter.

    Raises
    ------
    InputError
        An item, an element or a label is unknown, a place is given twice, or there are two raters.
    """
    places = {i: set(element_ids(item.elements)) for i, item in key.items()}
    labels: dict[Place, Relation] = {}
    lines: dict[Place, int] = {}
    raters: dict[str, int] = {}
    for line, row in _table(path, ("item_id", "element_id", "label")):
        where = f"line {line}"
        item, element = row["item_id"], row["element_id"].lower().removeprefix("e")
        if item not in places:
            raise InputError(_unknown_item(item, list(places)), file=path, where=where)
        if element not in places[item]:
            raise InputError(
                f"{shown(row['element_id'])} is unknown; {item} has "
                f"{', '.join(f'e{n}.1-{size}' for n, size in enumerate(key[item].elements, 1))}",
                file=path,
                where=where,
                field="element_id",
            )
        place = item, element
        if place in lines:
            raise InputError(
                f"{item} e{element} stands twice (lines {lines[place]} and {line})", file=path
            )
        lines[place] = line
        if rater := row.get("rater", ""):
            raters.setdefault(rater, line)
        if row["label"]:
            labels[place] = _label(row["label"], path, where)
    if len(raters) > 1:
        (one, _), (two, line), *_ = raters.items()
        raise InputError(
            f"two raters in one file, {shown(one)} and {shown(two)}; give each a file",
            file=path,
            where=f"line {line}",
            field="rater",
        )
    every = [(i, element) for i, item in key.items() for element in element_ids(item.elements)]
    return RatedFile(
        next(iter(raters), path.stem),
        path,
        labels,
        tuple(place for place in every if place not in labels),
    )


def _unknown_item(item: str, known: list[str]) -> str:
    if not item:
        return "has no item_id"
    if known and item.rpartition("-")[0] not in ("", known[0].rpartition("-")[0]):
        return f"{shown(item)} is of another sheet than the key"
    return f"{shown(item)} is unknown to the key{nearest(item, known)}"


def _label(text: str, path: Path, where: str) -> Relation:
    label = _LABELS.get(text.lower())
    if label is None:
        raise InputError(
            f"{shown(text)} is unknown; one of {', '.join(RELATIONS)}"
            f"{nearest(text, list(RELATIONS))}",
            file=path,
            where=where,
            field="label",
        )
    return label


def together(files: Sequence[RatedFile], *, partial: bool = False) -> tuple[RatedFile, ...]:
    """Return the raters by name, having seen that each is there once and has rated all.

    Parameters
    ----------
    partial : take files with missing labels too

    Raises
    ------
    InputError, UsageError
        Two files are of one rater, nothing is rated, or labels are missing.
    """
    named: dict[str, RatedFile] = {}
    for file in files:
        other = named.setdefault(file.rater.casefold(), file)
        if other is not file:
            raise InputError(
                f"is of {shown(file.rater)}, and so is {other.path}; fill in the column rater, "
                "or give the files the raters' names",
                file=file.path,
            )
        if not file.labels:
            raise InputError("holds no labels", file=file.path)
        if file.missing and not partial:
            first = ", ".join(f"{item} e{element}" for item, element in file.missing[:3])
            more = ", …" if len(file.missing) > 3 else ""
            raise InputError(
                f"{len(file.missing)} of {len(file.missing) + len(file.labels)} labels are "
                f"missing ({first}{more}); have them filled in, or take the rest with --partial",
                file=file.path,
            )
    if not named:
        raise UsageError("name the raters' files")
    return tuple(named[name] for name in sorted(named))


def human_csv(files: Sequence[RatedFile], key: Mapping[str, KeyedItem]) -> str:
    """Return human.csv: a row for each label, by video, system, element and rater."""
    order = sorted(key, key=lambda item: (key[item].video_id, key[item].system))
    return csv_text(
        HUMAN_COLUMNS,
        (
            (key[item].video_id, key[item].system, element, file.rater, file.labels[item, element])
            for item in order
            for element in element_ids(key[item].elements)
            for file in files
            if (item, element) in file.labels
        ),
    )


def agreement(files: Sequence[RatedFile]) -> Agreement:
    """Return how well raters agree, each on what they labelled."""
    given: Counter[Place] = Counter(place for file in files for place in file.labels)
    shared = sorted(place for place, n in given.items() if n > 1)
    codes = {label: float(n) for n, label in enumerate(RELATIONS)}
    table = np.full((len(files), len(shared)), np.nan)
    for row, file in enumerate(files):
        for column, place in enumerate(shared):
            if place in file.labels:
                table[row, column] = codes[file.labels[place]]
    return Agreement(
        krippendorff_alpha(table) if len(files) > 1 else Missing("one rater alone"),
        len(shared),
        tuple(_pair(one, two) for one, two in combinations(files, 2)),
    )


def _pair(one: RatedFile, two: RatedFile) -> PairAgreement:
    both = [place for place in one.labels if place in two.labels]
    found = coefficients(
        confusion_matrix([one.labels[p] for p in both], [two.labels[p] for p in both], RELATIONS)
    )
    return PairAgreement(
        one.rater, two.rater, len(both), found["accuracy"], found["kappa"], found["ac1"]
    )
