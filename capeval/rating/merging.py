"""Merge the raters' files: check them against the key, and add the systems' names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from capeval.errors import InputError, UsageError
from capeval.files.csv_formulas import escape, unescape
from capeval.files.ratings import STRATUM_COLUMNS, Keys, strata_of
from capeval.files.tables import CONTROL, Table, read_table
from capeval.rating.sheet import CHECK_COLUMN, KEY_COLUMNS, csv_text, key_check
from capeval.schema import RELATIONS, Annotation, Relation, element_ids
from capeval.text import nearest, normal_form, shown

HUMAN_COLUMNS = ("video_id", "system", "element_id", "rater", "label")
"""Before those of strata, where the key has them."""

# Elements of one caption: a mistake in a key must not exhaust the memory.
_MOST_ELEMENTS = 10_000

_SHORT: dict[str, Relation] = {label[0]: label for label in RELATIONS}
_LABELS: dict[str, Relation] = {**_SHORT, **{label: label for label in RELATIONS}}


@dataclass(frozen=True, slots=True)
class KeyedItem:
    """The caption that an id of the sheet means."""

    video_id: str
    system: str
    elements: tuple[int, ...]
    """The number of elements of each event."""
    stratum: tuple[str, int, int] | None = None
    """The values of `STRATUM_COLUMNS`; None in a key that does not have them."""


Place = tuple[str, str]
"""The id of an item and of an element."""


@dataclass(frozen=True, slots=True)
class RatedFile:
    """One rater's labels; `missing` are the places without a label, in the key's order."""

    rater: str
    path: Path
    labels: Mapping[Place, Relation]
    missing: tuple[Place, ...]


def read_key(path: Path) -> dict[str, KeyedItem]:
    """Return the caption of each id, in the sheet's order."""
    table = read_table(path)
    stratified = STRATUM_COLUMNS if any(n in table.columns for n in STRATUM_COLUMNS) else ()
    chosen = table.choose([*KEY_COLUMNS, *stratified], [CHECK_COLUMN])
    items, videos, systems, elements = (table.names(chosen[name]) for name in KEY_COLUMNS)
    check = chosen.get(CHECK_COLUMN)
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
                f"has {sum(counts):,} elements for one caption; the limit is {_MOST_ELEMENTS:,}",
                row=row,
                column="elements",
            )
        cells = [unescape(table.columns[name][row]) for name in stratified]
        made = key_check(items[row], videos[row], systems[row], sizes, *cells)
        if check is not None and table.columns[check][row].strip() != made:
            raise table.error(
                "the row is not as `capeval rate sheet` wrote it; make the sheet again with the "
                "same runs and seed to restore its key",
                row=row,
                column=check,
            )
        found[items[row]] = KeyedItem(videos[row], systems[row], counts)
    if not found:
        raise InputError("has no items", file=path)
    if stratified:
        strata = strata_of(table, Keys(videos, systems))
        for item, stratum in zip(items, strata, strict=True):
            found[item] = replace(found[item], stratum=stratum)
    return found


def check_key(
    key: Mapping[str, KeyedItem], annotations: Sequence[Annotation], *, file: Path
) -> None:
    """Check that the annotations have the videos of a key, with the same number of elements."""
    known = {annotation.index: annotation for annotation in annotations}
    for item_id, item in key.items():
        annotation = known.get(item.video_id)
        if annotation is None:
            raise InputError(
                f"the annotations have no video {shown(item.video_id)}"
                f"{nearest(item.video_id, list(known))}",
                file=file,
                where=item_id,
            )
        if annotation.sizes != item.elements:
            raise InputError(
                f"the elements of {shown(item.video_id)} in the annotations differ from the sheet; "
                "name the annotations that the sheet was made from",
                file=file,
                where=item_id,
            )


def read_rated(path: Path, key: Mapping[str, KeyedItem]) -> RatedFile:
    """Return the labels of one rater; the order of the rows does not matter."""
    columns = ("item_id", "element_id", "label")
    table = read_table(path)
    chosen = table.choose(columns, ["rater"])
    items, element_cells, given = (
        [str(cell).strip() for cell in table.columns[chosen[name]]] for name in columns
    )
    known: dict[str, set[str]] = {}
    places: list[Place] = []
    labels: dict[Place, Relation] = {}
    for row, (item, element, label) in enumerate(zip(items, element_cells, given, strict=True)):
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
        if label and label.lower() not in _LABELS:
            raise table.error(
                f"{shown(label)} is unknown; one of {', '.join(RELATIONS)}, or {', '.join(_SHORT)}"
                f"{nearest(label, RELATIONS)}",
                row=row,
                column="label",
            )
        if label:
            labels[place] = _LABELS[label.lower()]
    table.check_unique(places, "item_id, element_id")
    every = [(i, element) for i, item in key.items() for element in element_ids(item.elements)]
    return RatedFile(
        _rater(table, chosen.get("rater"), path),
        path,
        labels,
        tuple(p for p in every if p not in labels),
    )


# Invisible characters make two names of one. Joiners, which some scripts need, are not included.
_INVISIBLE = re.compile(
    "[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"
)


def rater_name(text: str) -> str:
    """Return a rater's name in composed characters, without invisible ones.

    >>> rater_name(" An\u200bn  Lee ")
    'Ann Lee'
    """
    return " ".join(normal_form(_INVISIBLE.sub("", unescape(text.strip())), "NFC").split())


def _canonical(rater: str) -> str:
    """Return a form of the name that is the same for names that look the same."""
    joined = re.sub("[\u200c\u200d]", "", rater)
    return normal_form(normal_form(joined).casefold())


def _rater(table: Table, column: str | None, path: Path) -> str:
    """Return the rater's name in the file, else the name of the file."""
    raters: dict[str, tuple[str, int]] = {}
    for row, cell in enumerate(table.columns[column] if column else []):
        name = rater_name(cell)
        if CONTROL.search(cell.strip()):
            raise table.error(f"{shown(cell)} has a control character", row=row, column="rater")
        if name:
            raters.setdefault(_canonical(name), (name, row))
    if len(raters) > 1:
        (one, _), (two, row), *_ = raters.values()
        raise table.error(
            f"two raters in one file, {shown(one)} and {shown(two)}; use a file for each",
            row=row,
            column="rater",
        )
    if raters:
        return next(iter(raters.values()))[0]
    name = rater_name(path.stem)
    if not name or CONTROL.search(path.stem):
        raise table.error(
            "has no name of a rater, and the file is not named after one; fill in the column rater"
        )
    return name


def _unknown_item(item: str, known: list[str]) -> str:
    if not item:
        return "is empty"
    if known and item.rpartition("-")[0] not in ("", known[0].rpartition("-")[0]):
        return f"{shown(item)} belongs to a different sheet than the key"
    return f"the key has no item {shown(item)}{nearest(item, known)}"


def checked_raters(files: Sequence[RatedFile], *, partial: bool = False) -> tuple[RatedFile, ...]:
    """Return the raters' files sorted by name; each rater must have one file.

    It must have every label, or with `partial` some.
    """
    named: dict[str, RatedFile] = {}
    for file in files:
        other = named.setdefault(_canonical(file.rater), file)
        if other is not file:
            raise InputError(
                f"has the same rater as {other.path}, {shown(file.rater)}; fill in the column "
                "rater, or name the files after the raters",
                file=file.path,
            )
        if not file.labels:
            raise InputError("has no labels", file=file.path)
        if file.missing and not partial:
            first = ", ".join(f"{item} e{element}" for item, element in file.missing[:3])
            more = ", …" if len(file.missing) > 3 else ""
            raise InputError(
                f"{len(file.missing)} of {len(file.missing) + len(file.labels)} labels are "
                f"missing ({first}{more}); fill them in, or merge the rest with --partial",
                file=file.path,
            )
    if not named:
        raise UsageError("name the raters' files")
    return tuple(named[name] for name in sorted(named))


def human_csv(files: Sequence[RatedFile], key: Mapping[str, KeyedItem]) -> str:
    """Return human.csv: a row for each label, by video, system, element and rater.

    The strata of the key are in it too, so that `capeval score --human` needs no other file.
    Names that a spreadsheet would read as formulas are escaped; `load_human` unescapes them.
    """
    rows: list[tuple[str, ...]] = []
    for item, keyed in sorted(key.items(), key=lambda one: (one[1].video_id, one[1].system)):
        names = tuple(map(escape, (keyed.video_id, keyed.system)))
        stratum = () if keyed.stratum is None else (escape(keyed.stratum[0]), *keyed.stratum[1:])
        for element in element_ids(keyed.elements):
            rows += [
                (*names, element, escape(file.rater), label, *map(str, stratum))
                for file in files
                if (label := file.labels.get((item, element)))
            ]
    stratified = any(keyed.stratum for keyed in key.values())
    return csv_text((*HUMAN_COLUMNS, *(STRATUM_COLUMNS if stratified else ())), rows)
