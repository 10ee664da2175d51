"""Merge the raters' files: check them against the key, and add the systems' names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from capeval.errors import InputError, UsageError
from capeval.files.tables import escape, read_table
from capeval.rating.sheet import KEY_COLUMNS, csv_text
from capeval.schema import RELATIONS, Annotation, Relation, element_ids
from capeval.text import listed, nearest, normal_form, shown

HUMAN_COLUMNS = ("video_id", "system", "element_id", "rater", "label")

_LABELS: dict[str, Relation] = {label: label for label in RELATIONS}


@dataclass(frozen=True, slots=True)
class KeyedItem:
    """The caption that an id of the sheet means; `elements` is their number for each event."""

    video_id: str
    system: str
    elements: tuple[int, ...]


Place = tuple[str, str]
"""The id of an item and of an element."""


@dataclass(frozen=True, slots=True)
class RatedFile:
    """One rater's labels; `missing` are the places without a label, in the key's order."""

    rater: str
    path: Path
    labels: Mapping[Place, Relation]
    missing: tuple[Place, ...]

    @property
    def missing_labels(self) -> str:
        """How many labels are missing, and the first of them."""
        first = listed([f"{item} e{element}" for item, element in self.missing], 3)
        every = len(self.missing) + len(self.labels)
        return f"{len(self.missing)} of {every} labels are missing ({first})"


def read_key(path: Path) -> dict[str, KeyedItem]:
    """Return the caption of each id, in the sheet's order."""
    table = read_table(path)
    chosen = table.choose(KEY_COLUMNS)
    items, videos, systems, elements = (table.names(chosen[name]) for name in KEY_COLUMNS)
    table.check_unique([(item,) for item in items], "item_id")
    table.check_unique(list(zip(videos, systems, strict=True)), "video_id, system")
    found: dict[str, KeyedItem] = {}
    for row, sizes in enumerate(elements):
        if not re.fullmatch(r"[1-9][0-9]{0,3}( [1-9][0-9]{0,3})*", sizes):
            raise table.error(
                f"must be the number of elements of each event, not {shown(sizes)}",
                row=row,
                column="elements",
            )
        counts = tuple(map(int, sizes.split(" ")))
        found[items[row]] = KeyedItem(videos[row], systems[row], counts)
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
    table = read_table(path)
    chosen = table.choose(["item_id", "element_id", "rater", "label"])
    items, elements, raters = (
        table.names(chosen[name]) for name in ("item_id", "element_id", "rater")
    )
    known = {item: set(element_ids(keyed.elements)) for item, keyed in key.items()}
    places: list[Place] = []
    labels: dict[Place, Relation] = {}
    for row, (item, element) in enumerate(zip(items, elements, strict=True)):
        if raters[row] != raters[0]:
            raise table.error(
                f"two raters in one file, {shown(raters[0])} and {shown(raters[row])}",
                row=row,
                column="rater",
            )
        if item not in known:
            raise table.error(_unknown_item(item, list(key)), row=row, column="item_id")
        place = item, element.removeprefix("e")
        if place[1] not in known[item]:
            message = f"{item} has no element {shown(element)}"
            raise table.error(message, row=row, column="element_id")
        places.append(place)
        label = str(table.columns[chosen["label"]][row] or "").strip()
        if label and label not in _LABELS:
            raise table.error(
                f"{shown(label)} is unknown; one of {', '.join(RELATIONS)}"
                f"{nearest(label, RELATIONS)}",
                row=row,
                column="label",
            )
        if label:
            labels[place] = _LABELS[label]
    table.check_unique(places, "item_id, element_id")
    missing = tuple(
        (item, element)
        for item, keyed in key.items()
        for element in element_ids(keyed.elements)
        if (item, element) not in labels
    )
    return RatedFile(" ".join(raters[0].split()), path, labels, missing)


def _unknown_item(item: str, known: list[str]) -> str:
    if item.rpartition("-")[0] not in ("", known[0].rpartition("-")[0]):
        return f"{shown(item)} belongs to a different sheet than the key"
    return f"the key has no item {shown(item)}{nearest(item, known)}"


def checked_raters(files: Sequence[RatedFile], *, partial: bool = False) -> tuple[RatedFile, ...]:
    """Return the raters' files sorted by name; each rater must have one file.

    It must have every label, or with `partial` some.
    """
    named: dict[str, RatedFile] = {}
    for file in files:
        # A name that is typed again may differ in case, or in how its accents are encoded.
        other = named.setdefault(normal_form(file.rater).casefold(), file)
        if other is not file:
            raise InputError(
                f"has the same rater as {other.path}, {shown(file.rater)}; merge one file of each "
                "rater",
                file=file.path,
            )
        if not file.labels:
            raise InputError("has no labels", file=file.path)
        if file.missing and not partial:
            raise InputError(
                f"{file.missing_labels}; give them, or merge the rest with --partial",
                file=file.path,
            )
    if not named:
        raise UsageError("name the raters' files")
    return tuple(named[name] for name in sorted(named))


def human_csv(files: Sequence[RatedFile], key: Mapping[str, KeyedItem]) -> str:
    """Return human.csv: a row for each label, by video, system, element and rater.

    Names that a spreadsheet would read as formulas are escaped; `load_human` unescapes them.
    """
    rows: list[tuple[str, ...]] = []
    for item, keyed in sorted(key.items(), key=lambda one: (one[1].video_id, one[1].system)):
        names = tuple(map(escape, (keyed.video_id, keyed.system)))
        for element in element_ids(keyed.elements):
            rows += [
                (*names, element, escape(file.rater), label)
                for file in files
                if (label := file.labels.get((item, element)))
            ]
    return csv_text(HUMAN_COLUMNS, rows)
