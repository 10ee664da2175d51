"""`capeval rate merge`: merge the raters' files into human.csv, and measure their agreement."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from capeval.errors import InputError, UsageError
from capeval.files.jsonl import check_output, write_output
from capeval.files.ratings import numbered
from capeval.files.tables import Name, csv_of_rows, escape, read_table
from capeval.options import (
    OUTPUT,
    FilePath,
    Notices,
    command,
    declares,
    on_notice_option,
    option,
    required,
    takes,
)
from capeval.runs.sources import annotations_file, annotations_of
from capeval.schema import ELEMENT_TYPES, RELATIONS, Annotation, ElementType, Relation, element_ids
from capeval.show.numbers import bounded, thousands
from capeval.show.result import Result
from capeval.show.table import BOUNDED, COUNT, SHARE, Kind, Page, Table, columns
from capeval.stats.agreement import cohen_kappa, confusion_by_video, krippendorff_alpha
from capeval.stats.values import Coefficient, Ints
from capeval.text import counted, listed, normal_form, one_line, shown


@declares
class MergeOptions:
    """The arguments of `capeval.rate_merge`.

    Parameters
    ----------
    files : One file per rater.
    key : The sheet's key.csv.
    out : The file to write.
    annotations : Check the key against these annotations, and show agreement by type of
        element; 'sample' for the bundled ones.
    partial : Accept files in which labels are missing.
    """

    files: Sequence[FilePath] = required(positional=True, metavar="FILE")
    key: FilePath = required(metavar="FILE")
    _: KW_ONLY
    out: FilePath = option("human.csv", metavar="FILE", panel=OUTPUT)
    annotations: FilePath | None = option(None, metavar="FILE")
    partial: bool = False
    on_notice: Notices = on_notice_option()


def _numbers(cell: Any) -> Any:
    return cell.split() if isinstance(cell, str) else cell


class KeyedItem(BaseModel):
    """The caption of an id of the sheet; `elements` are the numbers of elements by event."""

    model_config = ConfigDict(frozen=True)

    item_id: Name
    video_id: Name
    system: Name
    elements: Annotated[tuple[Annotated[int, Field(ge=1)], ...], BeforeValidator(_numbers)]
    caption_hash: Name


class _Label(BaseModel):
    item_id: Name
    element_id: Name
    rater: Name
    label: Annotated[Relation | None, BeforeValidator(lambda cell: (cell or "").strip() or None)]


LabelPlace = tuple[str, str]
"""The id of an item and of an element."""


@dataclass(frozen=True, slots=True)
class RatedFile:
    """One rater's labels; `missing` are the places without a label, in the key's order."""

    rater: str
    path: Path
    labels: Mapping[LabelPlace, Relation]
    missing: tuple[LabelPlace, ...]

    @property
    def missing_labels(self) -> str:
        first = listed([f"{item} e{element}" for item, element in self.missing], 3)
        every = len(self.missing) + len(self.labels)
        return f"{len(self.missing)} of {every} labels are missing ({first})"


def read_key(path: Path) -> dict[str, KeyedItem]:
    table = read_table(path)
    items = table.typed(KeyedItem)
    table.check_unique([(item.item_id,) for item in items], "item_id")
    table.check_unique([(item.video_id, item.system) for item in items], "video_id, system")
    return {item.item_id: item for item in items}


def check_key(
    key: Mapping[str, KeyedItem], annotations: Sequence[Annotation], *, file: Path
) -> None:
    """Check that the annotations have the videos of a key, with the same number of elements."""
    known = {annotation.index: annotation.sizes for annotation in annotations}
    for item_id, item in key.items():
        if known.get(item.video_id) != item.elements:
            raise InputError(
                f"the annotations lack video {shown(item.video_id)}, or its elements differ in "
                "number from the key; name the annotations that the sheet was made from",
                file=file,
                where=item_id,
            )


def read_rated(path: Path, key: Mapping[str, KeyedItem]) -> RatedFile:
    """Return the labels of one rater; the order of the rows does not matter."""
    if path.suffix == ".html":
        raise InputError("is the raters' page; name the files that it exports", file=path)
    table = read_table(path)
    rows = table.typed(_Label)
    rater = rows[0].rater
    expected = dict.fromkeys(
        (item, element) for item, keyed in key.items() for element in element_ids(keyed.elements)
    )
    labels: dict[LabelPlace, Relation] = {}
    places: list[LabelPlace] = []
    for n, row in enumerate(rows):
        if row.rater != rater:
            message = f"two raters in one file, {shown(rater)} and {shown(row.rater)}"
            raise table.error(message, row=n, column="rater")
        place = row.item_id, row.element_id.removeprefix("e")
        if place not in expected:
            named = f"{shown(row.element_id)} of {shown(row.item_id)}"
            message = f"the key has no element {named}; is this the file of another sheet?"
            raise table.error(message, row=n, column="item_id, element_id")
        places.append(place)
        if row.label:
            labels[place] = row.label
    table.check_unique(places, "item_id, element_id")
    missing = tuple(place for place in expected if place not in labels)
    return RatedFile(" ".join(rater.split()), path, labels, missing)


def checked_raters(files: Sequence[RatedFile], *, partial: bool = False) -> tuple[RatedFile, ...]:
    """Return the raters' files sorted by name; each rater must have one file.

    Without `partial`, it must have every label.
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
                f"{file.missing_labels}; add them, or merge the rest with --partial",
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
                (*names, element, escape(file.rater), label, keyed.caption_hash)
                for file in files
                if (label := file.labels.get((item, element)))
            ]
    header = ("video_id", "system", "element_id", "rater", "label", "caption_hash")
    return csv_of_rows(header, rows)


# ---- Agreement ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PairAgreement:
    """The agreement of two raters on the `n` elements that both labelled."""

    first: str
    second: str
    n: int
    kappa: Coefficient


@dataclass(frozen=True, slots=True)
class RaterAgreement:
    """Inter-rater agreement: Krippendorff's alpha (nominal), and each pair of raters.

    `n` is the number of elements that at least two raters labelled.
    """

    alpha: Coefficient
    n: int
    pairs: tuple[PairAgreement, ...]


def agreement(
    files: Sequence[RatedFile],
    key: Mapping[str, KeyedItem],
    only: Collection[LabelPlace] | None = None,
) -> RaterAgreement:
    """Return the agreement of raters on the elements that they labelled, or `only` on some."""
    labels = [
        {place: label for place, label in file.labels.items() if only is None or place in only}
        for file in files
    ]
    given = Counter(place for of_rater in labels for place in of_rater)
    shared = sorted(place for place, n in given.items() if n > 1)
    codes = np.full((len(files), len(shared)), np.nan)
    for row, of_rater in enumerate(labels):
        for column, place in enumerate(shared):
            if place in of_rater:
                codes[row, column] = RELATIONS.index(of_rater[place])
    pairs = []
    for (one, first), (two, second) in combinations(zip(files, labels, strict=True), 2):
        both = [place for place in first if place in second]
        a, b = ([of_rater[place] for place in both] for of_rater in (first, second))
        matrices = confusion_by_video(a, b, RELATIONS, _videos(both, key))
        pairs.append(PairAgreement(one.rater, two.rater, len(both), cohen_kappa(matrices)))
    alpha = krippendorff_alpha(codes, _videos(shared, key))
    return RaterAgreement(alpha, len(shared), tuple(pairs))


def agreement_by_type(
    files: Sequence[RatedFile], key: Mapping[str, KeyedItem], annotations: Sequence[Annotation]
) -> dict[ElementType, RaterAgreement]:
    """Return the agreement of raters on elements of each type that has labels."""
    elements = {annotation.index: annotation.elements for annotation in annotations}
    places: dict[ElementType, set[LabelPlace]] = {of: set() for of in ELEMENT_TYPES}
    for item, keyed in key.items():
        for element_id, element in elements[keyed.video_id].items():
            places[element.type].add((item, element_id))
    labelled = {place for file in files for place in file.labels}
    return {of: agreement(files, key, only) for of, only in places.items() if only & labelled}


def _videos(places: Sequence[LabelPlace], key: Mapping[str, KeyedItem]) -> Ints:
    return numbered(key[item].video_id for item, _ in places)


_RATER = Kind(lambda name: one_line(name, 40))
_NOTE = "kappa: Cohen's; n: elements that both labelled. Intervals leave out one video at a time."


@dataclass(frozen=True)
class MergedRatings(Result):
    """Ratings that were merged into `file`, and how well the raters agree."""

    file: Path
    raters: tuple[RatedFile, ...]
    agreement: RaterAgreement
    by_type: Mapping[ElementType, RaterAgreement]

    def headline(self) -> str:
        found = self.agreement
        if not found.pairs:
            return "There is only one rater, so there is no agreement to report."
        reason = f" ({found.alpha.reason})" if found.alpha.value is None else ""
        text = (
            f"Krippendorff's alpha (nominal): {bounded(found.alpha)}{reason}, over "
            f"{counted(found.n, 'element')} that two or more raters labelled"
        )
        each = [f"{t} {bounded(of.alpha)} over {thousands(of.n)}" for t, of in self.by_type.items()]
        return f"{text}\nBy type: {', '.join(each)}" if each else text

    def pages(self, *, full: bool = False) -> list[Page]:
        counts = ((label, COUNT) for label in RELATIONS)
        given = Table("Labels", columns(("Rater", _RATER), ("given", SHARE), *counts))
        for file in self.raters:
            number, labels = len(file.labels), Counter(file.labels.values())
            whole = number + len(file.missing)
            given.rows.append([file.rater, (number, whole), *(labels[one] for one in RELATIONS)])
        pairs = Table(
            "Agreement of each pair of raters",
            columns("Raters", ("n", COUNT), ("kappa [95%]", BOUNDED)),
            note=_NOTE,
        )
        for at, pair in enumerate(self.agreement.pairs):
            both = f"{one_line(pair.first, 30)} – {one_line(pair.second, 30)}"
            if self.by_type:
                pairs.rows.append([both])
            whole_name = "all" if self.by_type else both
            for name, of in [(whole_name, self.agreement), *self.by_type.items()]:
                pairs.rows.append([name, of.pairs[at].n, of.pairs[at].kappa])
        human = shlex.quote(str(self.file))
        following = (
            f"Next, for a judged run: capeval calibrate RUN --labels {human}",
            f"or, for several: capeval correlate --human {human}",
        )
        return [Page([given, pairs] if pairs.rows else [given], notes=following)]


@command("rate merge")
@takes(MergeOptions)
def rate_merge(o: MergeOptions) -> MergedRatings:
    """Merge the raters' files into human.csv, and show how well the raters agree.

    Raises
    ------
    InputError, UsageError
        A file does not belong to the key, is incomplete, or `out` cannot be written.
    """
    target, key = Path(o.out), Path(o.key)
    paths = [Path(file) for file in o.files]
    texts = [] if o.annotations is None else [o.annotations]
    check_output(target, [*paths, key, *map(annotations_file, texts)])
    items = read_key(key)
    known = None if o.annotations is None else annotations_of(o.annotations)
    if known is not None:
        check_key(items, known, file=key)
    raters = checked_raters([read_rated(path, items) for path in paths], partial=o.partial)
    for file in raters:
        if file.missing:
            o.on_notice(f"{file.path}: {file.missing_labels}")
    text = human_csv(raters, items)
    if target.is_file() and target.read_bytes() != text.encode("utf-8"):
        raise UsageError(
            f"--out: {o.out} exists with other contents; rename it, or choose another file"
        )
    write_output(target, text)
    return MergedRatings(
        file=target,
        raters=raters,
        agreement=agreement(raters, items),
        by_type={} if known is None else agreement_by_type(raters, items, known),
    )
