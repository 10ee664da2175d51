"""Which captions are measured, with which references, and where the values go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from capeval.errors import UsageError
from capeval.files.captions import CaptionsFile, captions_in_memory, check_known
from capeval.files.jsonl import validated
from capeval.files.references import load_candidates, load_references
from capeval.metrics.protocol import Item
from capeval.runs.sources import Source, distinct_names
from capeval.schema import Reference
from capeval.text import counted, shown

FILE = "metrics.jsonl"


@dataclass(frozen=True)
class CaptionSet:
    """Captions with their references, and the file for their values.

    Attributes
    ----------
    out : the `metrics.jsonl`; None keeps the values in memory
    source : the run that the captions are of; None for candidates with references
    """

    name: str
    items: tuple[Item, ...]
    out: Path | None
    source: Source | None = None

    @property
    def details(self) -> Path | None:
        """The folder with one file of details for each metric, beside the file of values."""
        return None if self.out is None else self.out.with_name(f"{self.out.stem}.details")


def of_source(source: Source, out: Path | None = None) -> CaptionSet:
    """Return the captions of annotated videos; the reference is the events' text."""
    by_index = {annotation.index: annotation for annotation in source.annotations}
    items = []
    for caption in source.captions:
        annotation = by_index[caption.index]
        items.append(
            Item(
                index=caption.index,
                system=source.name,
                caption=caption.caption,
                references=(" ".join(event.event.strip() for event in annotation.events),),
                events=tuple(event.event for event in annotation.events),
                annotation=annotation,
            )
        )
    path = out or (source.run.path / FILE if source.run else None)
    return CaptionSet(source.name, tuple(items), path, source)


Captions = Sequence[str | Path] | Mapping[str, str]
References = str | Path | Mapping[str, str | Sequence[str]]


def of_candidates(
    candidates: Captions,
    references: References | None,
    *,
    system: str | None,
    out: Path | None,
    ignore_unknown: bool = False,
    columns: Mapping[str, str] | None = None,
    on_notice: Callable[[str], None] = lambda _: None,
) -> CaptionSet:
    """Return captions of videos without annotations, with references if they are given."""
    known = None if references is None else {one.index: one for one in _read(references)}
    items: list[Item] = []
    taken: dict[str | None, str] = {}
    for label, name, found in _systems(candidates, system, known or (), columns):
        for notice in found.notices:
            on_notice(notice)
        if name in taken:
            raise UsageError(
                f"{taken[name]} and {label} both have captions of the system {shown(name)}; rename "
                "one of the files"
            )
        taken[name] = label
        if known is not None:
            indexes = [one.index for one in found.captions]
            check_known(indexes, known, "references", file=label, ignore_unknown=ignore_unknown)
        items += _items(found, name, known)
    if not items:
        raise UsageError("there are no candidates")
    (first, *more) = taken
    name = counted(len(taken), "system") if more else first or "captions"
    return CaptionSet(name, tuple(items), out)


def _read(references: References) -> Sequence[Reference]:
    if not isinstance(references, Mapping):
        return load_references(references)
    return [
        validated(
            Reference,
            {"index": index, "references": value},
            file=Path("references"),
            where=f"index {shown(index)}",
        )
        for index, value in references.items()
    ]


def _items(
    found: CaptionsFile, system: str | None, known: Mapping[str, Reference] | None
) -> Iterator[Item]:
    for one in found.captions:
        if known is None:
            yield Item(one.index, system, one.caption, ())
        elif (of := known.get(one.index)) is not None:
            more = of.model_extra or {}
            yield Item(
                *(one.index, system, one.caption, of.references, of.events, of.group), extra=more
            )


def _systems(
    candidates: Captions,
    system: str | None,
    known: Iterable[str],
    columns: Mapping[str, str] | None,
) -> list[tuple[str, str | None, CaptionsFile]]:
    if isinstance(candidates, Mapping):
        return [("candidates", system, captions_in_memory(candidates, "candidates"))]
    if system is not None and len(candidates) > 1:
        raise UsageError("--system names one system; give it with one --candidates file")
    read = [
        (str(path), name, found)
        for path in candidates
        for name, found in load_candidates(path, system, known=known, columns=columns)
    ]
    names = distinct_names([(name, Path(label.removeprefix("lines:"))) for label, name, _ in read])
    return [(label, name, found) for (label, _, found), name in zip(read, names, strict=True)]
