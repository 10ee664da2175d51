"""`capeval check`: a set of annotations, before anybody pays for judging with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from capeval.files.annotations import VideoFolder
from capeval.files.checking import SetCheck, Totals, check_annotations
from capeval.options import command, declares, option, required, takes
from capeval.runs.sources import annotations_file
from capeval.schema import CHARACTERISTICS, ELEMENT_TYPES, Annotation
from capeval.show.numbers import tenths
from capeval.show.result import Result
from capeval.show.table import COUNT, PERCENT, Kind, Page, Table, columns, print_line, print_pages
from capeval.text import counted

# Of warnings; problems are always printed, all of them.
_MOST = 15
_MEAN = Kind(tenths)
_MEASURES = {
    "seconds": "Seconds",
    "events": "Events",
    "elements": "Elements",
    "elements_per_event": "Elements per event",
    "tokens": "Tokens",
}


@declares
class CheckSetOptions:
    """The arguments of `capeval.check`.

    Parameters
    ----------
    annotations : Annotations: a file, a folder with TUNA-1K's files, 'tuna' or 'sample'.
    videos : The folder of the videos: each is opened, and its length is part of the statistics.
    """

    annotations: str | Path = required(positional=True, metavar="ANNOTATIONS")
    _: KW_ONLY
    videos: str | Path | None = option(None, metavar="DIR")


@command("check", "as_json", "full", show=lambda found, _: CheckedSet(found))
@takes(CheckSetOptions)
def check(o: CheckSetOptions) -> SetCheck:
    """Check a set of annotations: every problem, what may be a mistake, and statistics.

    The command's exit code is 2 if there is a problem. Statistics are those of the TUNA paper's
    table 5.

    Raises
    ------
    InputError, UsageError
        The file cannot be read at all.
    MissingExtra
        Videos are named, and PyAV is not installed.

    >>> check("sample").total.videos
    10
    """
    path = o.annotations if ":" in str(o.annotations) else annotations_file(o.annotations)
    if o.videos is None:
        return check_annotations(path)
    from capeval.video import decoder_named, read_policy

    videos, decoder, middle = VideoFolder(Path(o.videos)), decoder_named("pyav"), read_policy("1")

    def seconds(one: Annotation) -> float:
        return decoder.read(videos.find(one.video or one.index), middle).duration

    return check_annotations(path, seconds)


class CheckedSet(Result):
    """A checked set of annotations, as it is shown."""

    def __init__(self, found: SetCheck) -> None:
        self._found = found

    def headline(self) -> str:
        found = self._found
        count = counted(found.total.videos, "valid video")
        problems = counted(len(found.problems), "problem") if found.problems else "no problems"
        return f"{found.file}: {problems}, {counted(len(found.warnings), 'warning')}; {count}."

    def pages(self, *, full: bool = False) -> list[Page]:
        return [_statistics(self._found)] if self._found.total.videos else []

    def show(self, console: Console, *, full: bool = False) -> None:
        found = self._found
        print_line(self.headline(), console)
        for problem in found.problems:
            print_line(str(problem), console, style="red")
        shown = found.warnings if full else found.warnings[:_MOST]
        for warning in shown:
            print_line(f"warning: {warning}", console)
        if left := len(found.warnings) - len(shown):
            print_line(f"{counted(left, 'more warning')}: --full", console)
        print_pages(self.pages(), console)

    def as_json(self) -> dict[str, Any]:
        found = self._found
        return {
            "file": str(found.file),
            "problems": [asdict(one) for one in found.problems],
            "warnings": [asdict(one) for one in found.warnings],
            "total": _means(found.total),
            "visual_characteristic": {n: _means(of) for n, of in found.characteristics.items()},
            "domain": {name: _means(of) for name, of in found.domains.items()},
            "types": {
                kind: {str(weight): found.weights[kind, weight] for weight in (1, 2, 3)}
                for kind in ELEMENT_TYPES
            },
        }

    def exit_code(self) -> int:
        return 2 if self._found.problems else 0


def _means(totals: Totals) -> dict[str, Any]:
    return {"videos": totals.videos, **totals.means()}


def _statistics(found: SetCheck) -> Page:
    """Return the tables of videos, by characteristic and domain, and of elements by type."""
    sizes = Table(
        "",
        columns("Group", ("Videos", COUNT), *((name, _MEAN) for name in _MEASURES.values())),
        note="Means per video; tokens are words and punctuation marks of the events."
        + ("" if found.total.timed else " Seconds: with --videos."),
    )
    for name, group in _groups(found).items():
        sizes.rows.append([name, group.videos, *group.means().values()])
    types = Table(
        "Elements",
        columns(
            "Type",
            ("Elements", COUNT),
            ("Share %", PERCENT),
            ("Per video", _MEAN),
            *((f"Weight {weight}", COUNT) for weight in (3, 2, 1)),
        ),
    )
    for kind in ELEMENT_TYPES:
        counts = [found.weights[kind, weight] for weight in (3, 2, 1)]
        share = sum(counts) / found.total.elements
        types.rows.append([kind, sum(counts), share, sum(counts) / found.total.videos, *counts])
    return Page([sizes, types])


def _groups(found: SetCheck) -> Mapping[str, Totals]:
    known = (name for name in CHARACTERISTICS if name in found.characteristics)
    characteristics = {name: found.characteristics[name] for name in known}
    return {"all": found.total} | characteristics | dict(sorted(found.domains.items()))
