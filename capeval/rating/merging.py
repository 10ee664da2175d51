"""Raters' files joined: checked against the key, and unblinded."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from capeval.errors import InputError, UsageError
from capeval.files.csv_formulas import escape, unescape
from capeval.files.table_reading import read_spreadsheet
from capeval.files.tables import CONTROL, Table
from capeval.rating.sheet import KEY_COLUMNS, csv_text, element_ids, key_check
from capeval.schema import RELATIONS, Annotation, Relation
from capeval.text import nearest, shown

HUMAN_COLUMNS = ("video_id", "system", "element_id", "rater", "label")

# Of one caption, so that a slip in a key cannot fill the memory.
_MOST_ELEMENTS = 10_000

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


def read_key(path: Path) -> dict[str, KeyedItem]:
    """Return what each id of the sheet stands for, in the sheet's order.

    Raises
    ------
    InputError
        The file is no key, an id or a video with its system stands in it twice, or a row is not
        as it was written.
    """
    *needed, check = KEY_COLUMNS
    table = read_spreadsheet(path, needed, [check])
    # A video's index may end in a blank: cells are taken as they stand.
    items, videos, systems, elements = (table.names(name, strip=False) for name in needed)
    table.check_unique([(item,) for item in items], "item_id")
    table.check_unique(list(zip(videos, systems, strict=True)), "video_id, system")
    found: dict[str, KeyedItem] = {}
    for row, sizes in enumerate(elements):
        if not re.fullmatch(r"[1-9][0-9]{0,4}( [1-9][0-9]{0,4})*", sizes):
            raise table.error(
                f"must be the number of elements of each event, not {shown(sizes)}",
                row=row,
                column="elements",
            )
        counts = tuple(int(n) for n in sizes.split(" "))
        if sum(counts) > _MOST_ELEMENTS:
            raise table.error(
                f"are {sum(counts):,} elements of one caption; {_MOST_ELEMENTS:,} are the most",
                row=row,
                column="elements",
            )
        if check in table.columns:
            _check_row((items[row], videos[row], systems[row], sizes), table, row)
        found[items[row]] = KeyedItem(videos[row], systems[row], counts)
    if not found:
        raise InputError("holds no items", file=path)
    return found


def _check_row(cells: tuple[str, ...], table: Table, row: int) -> None:
    if table.columns["check"][row].strip() != "c" + key_check(*cells):
        raise table.error(
            "the row is not as `capeval rate sheet` wrote it; draw the sheet again with the same "
            "runs and seed to get its key back",
            row=row,
            column="check",
        )


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
    table = read_spreadsheet(path, ("item_id", "element_id", "label"), ("rater",))
    items, given, told = (
        [cell.strip() for cell in table.columns[name]]
        for name in ("item_id", "element_id", "label")
    )
    known: dict[str, set[str]] = {}
    places: list[Place] = []
    labels: dict[Place, Relation] = {}
    for row, (item, element, label) in enumerate(zip(items, given, told, strict=True)):
        if item not in key:
            raise table.error(_unknown_item(item, list(key)), row=row, column="item_id")
        place = item, element.lower().removeprefix("e")
        if item not in known:
            known[item] = set(element_ids(key[item].elements))
        if place[1] not in known[item]:
            there = (f"e{n}.1-{size}" for n, size in enumerate(key[item].elements, 1))
            raise table.error(
                f"{shown(element)} is unknown; {item} has {', '.join(there)}",
                row=row,
                column="element_id",
            )
        places.append(place)
        if label:
            labels[place] = _label(label, table, row)
    table.check_unique(places, "item_id, element_id")
    every = [(i, element) for i, item in key.items() for element in element_ids(item.elements)]
    return RatedFile(_rater(table, path), path, labels, tuple(p for p in every if p not in labels))


# Cannot be seen, and makes two names of one; what joins letters in some scripts is not among them.
_UNSEEN = re.compile(
    "[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"
)


def rater_name(text: str) -> str:
    """Return a rater's name in composed characters, without those that cannot be seen.

    >>> rater_name(" An\u200bn  Lee ")
    'Ann Lee'
    """
    return " ".join(unicodedata.normalize("NFC", _UNSEEN.sub("", unescape(text.strip()))).split())


def _alike(rater: str) -> str:
    """Return what names that look alike have in common."""
    joined = re.sub("[\u200c\u200d]", "", rater)
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", joined).casefold())


def _rater(table: Table, path: Path) -> str:
    """Return the one name that stands in a file, or its own."""
    raters: dict[str, tuple[str, int]] = {}
    for row, cell in enumerate(table.columns.get("rater", [])):
        name = rater_name(cell)
        if CONTROL.search(cell.strip()):
            raise table.error(f"{shown(cell)} has a control character", row=row, column="rater")
        if name:
            raters.setdefault(_alike(name), (name, row))
    if len(raters) > 1:
        (one, _), (two, row), *_ = raters.values()
        raise table.error(
            f"two raters in one file, {shown(one)} and {shown(two)}; give each a file",
            row=row,
            column="rater",
        )
    if raters:
        return next(iter(raters.values()))[0]
    name = rater_name(path.stem)
    if not name or CONTROL.search(path.stem):
        raise table.error("names no rater, and the file's name cannot; fill in the column rater")
    return name


def _unknown_item(item: str, known: list[str]) -> str:
    if not item:
        return "is empty"
    if known and item.rpartition("-")[0] not in ("", known[0].rpartition("-")[0]):
        return f"{shown(item)} is of another sheet than the key"
    return f"{shown(item)} is unknown to the key{nearest(item, known)}"


def _label(text: str, table: Table, row: int) -> Relation:
    label = _LABELS.get(text.lower())
    if label is None:
        raise table.error(
            f"{shown(text)} is unknown; one of {', '.join(RELATIONS)}, or {', '.join(_SHORT)}"
            f"{nearest(text, list(RELATIONS))}",
            row=row,
            column="label",
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
        other = named.setdefault(_alike(file.rater), file)
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
    """Return human.csv: a row for each label, by video, system, element and rater.

    Names that a spreadsheet would run have an apostrophe before them; our own reader takes it off.
    """
    order = sorted(key, key=lambda item: (key[item].video_id, key[item].system))
    return csv_text(
        HUMAN_COLUMNS,
        (
            (
                *map(escape, (key[item].video_id, key[item].system)),
                element,
                escape(file.rater),
                file.labels[item, element],
            )
            for item in order
            for element in element_ids(key[item].elements)
            for file in files
            if (item, element) in file.labels
        ),
    )
