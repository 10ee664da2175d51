"""`capeval check`: every problem of a set of annotations, possible mistakes, and statistics.

The statistics are those of the TUNA paper's table 5.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from rich.console import Console

from capeval.errors import InputError, VideoError
from capeval.files.annotations import VideoFolder, annotation_records_of
from capeval.language import normalised, with_plain_marks
from capeval.options import command, declares, option, required, takes
from capeval.runs.sources import annotations_file
from capeval.schema import CHARACTERISTICS, ELEMENT_TYPES, Annotation, id_text
from capeval.show.numbers import tenths
from capeval.show.result import Result
from capeval.show.table import COUNT, PERCENT, Kind, Page, Table, columns, print_line, print_pages
from capeval.text import complaints, counted, nearest, shown

# Limits warnings; all problems are always printed.
_MOST = 15
_MEAN = Kind(tenths)
_MEANS = ("Seconds", "Events", "Elements", "Elements per event", "Tokens")


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


@command("check", "as_json", "full")
@takes(CheckSetOptions)
def check(o: CheckSetOptions) -> SetCheck:
    """Check a set of annotations: problems, possible mistakes and statistics.

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


def _statistics(found: SetCheck) -> Page:
    sizes = Table(
        "",
        columns("Group", ("Videos", COUNT), *((name, _MEAN) for name in _MEANS)),
        note="Means per video; tokens are words and punctuation marks of the events."
        + ("" if found.total.timed else " Seconds need --videos."),
    )
    for name, group in _groups(found).items():
        sizes.rows.append([name, *group.means().values()])
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


# ---- The check -----------------------------------------------------------------------------------

# Such an element does not name its subject (the paper's appendix A.2.3).
_PRONOUN = re.compile(r"(he|she|it|they|his|her|its|their|this|these|those)\b", re.IGNORECASE)

_TOKEN = re.compile(r"(?:\w\u0300*+)++|[^\w\s\u0300]")


@dataclass(frozen=True)
class Finding:
    """A problem or a warning, and its place; event and element are numbered from 1."""

    message: str
    place: str = ""
    index: str | None = None
    event: int | None = None
    element: int | None = None

    def __str__(self) -> str:
        at = [self.place] if self.place else []
        at += [f"index {shown(self.index)}"] if self.index is not None else []
        numbers = (("event", self.event), ("element", self.element))
        at += [f"{name} {number}" for name, number in numbers if number is not None]
        return ": ".join([*at, self.message])


@dataclass
class Totals:
    """Sums over some videos; `seconds` is of the `timed` ones, whose length is known.

    `tokens` are the words and punctuation marks of the events.
    """

    videos: int = 0
    timed: int = 0
    seconds: float = 0.0
    events: int = 0
    elements: int = 0
    tokens: int = 0

    def add(self, one: Annotation, seconds: float | None, tokens: int) -> None:
        self.videos += 1
        self.timed += seconds is not None
        self.seconds += seconds or 0.0
        self.events += len(one.events)
        self.elements += one.element_count
        self.tokens += tokens

    def means(self) -> dict[str, float | None]:
        """Return the number of videos, and means."""

        def per(total: float, count: int) -> float | None:
            return total / count if count else None

        return {
            "videos": self.videos,
            "seconds": per(self.seconds, self.timed),
            "events": per(self.events, self.videos),
            "elements": per(self.elements, self.videos),
            "elements_per_event": per(self.elements, self.events),
            "tokens": per(self.tokens, self.videos),
        }


@dataclass
class SetCheck(Result):
    """The findings of `check`; statistics are of the videos without a problem."""

    file: Path
    problems: list[Finding] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)
    total: Totals = field(default_factory=Totals)
    characteristics: dict[str, Totals] = field(default_factory=lambda: defaultdict(Totals))
    domains: dict[str, Totals] = field(default_factory=lambda: defaultdict(Totals))
    weights: Counter[tuple[str, int]] = field(default_factory=Counter)

    def headline(self) -> str:
        count = counted(self.total.videos, "valid video")
        problems = counted(len(self.problems), "problem") if self.problems else "no problems"
        return f"{self.file}: {problems}, {counted(len(self.warnings), 'warning')}; {count}."

    def pages(self, *, full: bool = False) -> list[Page]:
        return [_statistics(self)] if self.total.videos else []

    def show(self, console: Console, *, full: bool = False) -> None:
        print_line(self.headline(), console)
        for problem in self.problems:
            print_line(str(problem), console, style="red")
        shown = self.warnings if full else self.warnings[:_MOST]
        for warning in shown:
            print_line(f"warning: {warning}", console)
        if left := len(self.warnings) - len(shown):
            print_line(f"{counted(left, 'more warning')}: --full", console)
        print_pages(self.pages(), console)

    def as_json(self) -> dict[str, Any]:
        return {
            "file": str(self.file),
            "problems": [asdict(one) for one in self.problems],
            "warnings": [asdict(one) for one in self.warnings],
            "total": self.total.means(),
            "visual_characteristic": {n: of.means() for n, of in self.characteristics.items()},
            "domain": {name: of.means() for name, of in self.domains.items()},
            "types": {
                kind: {str(weight): self.weights[kind, weight] for weight in (1, 2, 3)}
                for kind in ELEMENT_TYPES
            },
        }

    def exit_code(self) -> int:
        return 2 if self.problems else 0


SecondsOf = Callable[[Annotation], float | None]
"""Returns the length of a video, or None if it is not to be read; `VideoError` if it cannot be."""


def check_annotations(path: Path | str, seconds_of: SecondsOf = lambda _: None) -> SetCheck:
    """Check all annotations of a path; InputError if the file itself cannot be read."""
    faults: list[InputError] = []
    file, records = annotation_records_of(path, on_fault=faults.append)
    found = SetCheck(file)
    seen: dict[str, str] = {}
    misspelt: Counter[tuple[str, str]] = Counter()
    for place, value in records:
        one = _validated(place, value, seen, found.problems)
        if one is None:
            continue
        lacking = [name for name in Annotation.model_fields if name not in value]
        unread = (key for key in value if key not in Annotation.model_fields)
        misspelt.update((key, near) for key in unread if (near := nearest(key, lacking)))
        found.warnings += _doubts(place, one)
        try:
            seconds = seconds_of(one)
        except VideoError as fault:
            seconds = None
            found.warnings.append(Finding(f"video: {fault}", place, one.index))
        tokens = sum(len(_TOKEN.findall(with_plain_marks(event.event))) for event in one.events)
        groups = [found.total, *(found.characteristics[n] for n in one.visual_characteristic)]
        if one.domain is not None:
            groups.append(found.domains[one.domain])
        for group in groups:
            group.add(one, seconds, tokens)
        found.weights.update((part.type, part.weight) for part in one.elements.values())
    for (key, near), count in misspelt.items():
        of = counted(count, "video")
        found.warnings.append(Finding(f"the field {shown(key)} of {of} is not read{near}"))
    found.problems += [Finding(str(fault)) for fault in faults]
    if not seen and not found.problems:
        found.problems.append(Finding("has no records"))
    weights = {weight for _, weight in found.weights}
    if len(weights) == 1 and found.total.elements > 1:
        every = f"all {found.total.elements:,} elements have the weight {weights.pop()}"
        found.warnings.append(Finding(f"{every}: main and minor content count alike"))
    return found


def _validated(
    place: str, value: Any, seen: MutableMapping[str, str], problems: list[Finding]
) -> Annotation | None:
    if not isinstance(value, dict):
        problems.append(Finding(f"must be a JSON object, not {shown(value)}", place))
        return None
    one, given = None, id_text(value.get("index"))
    index = given if isinstance(given, str) else None
    try:
        one = Annotation.model_validate(value)
    except ValidationError as faults:
        problems += [_problem(place, index, *fault) for fault in complaints(faults)]
    if index is not None and seen.setdefault(index, place) != place:
        problems.append(Finding(f"is duplicated (see {seen[index]})", place, index))
        return None
    return one


def _problem(place: str, index: str | None, at: Sequence[int | str], message: str) -> Finding:
    numbers = []
    rest = [*at]
    for name in ("events", "visual_elements"):
        if len(rest) > 1 and rest[0] == name:
            numbers.append(int(rest[1]) + 1)
            rest = rest[2:]
    event, element = (*numbers, None, None)[:2]
    field = ".".join(str(part + 1) if isinstance(part, int) else part for part in rest)
    return Finding(f"{field}: {message}" if field else message, place, index, event, element)


def _doubts(place: str, one: Annotation) -> Iterator[Finding]:
    if {"Low-Dynamic", "High-Dynamic"} <= {*one.visual_characteristic}:
        yield Finding("is both Low-Dynamic and High-Dynamic", place, one.index)
    first: dict[str, str] = {}
    for number, element in one.elements.items():
        event, within = map(int, number.split("."))
        same = first.setdefault(normalised(element.content), number)
        if same != number:
            yield Finding(f"repeats element {same}", place, one.index, event, within)
        if found := _PRONOUN.match(element.content):
            message = f"begins with {shown(found[0])}; name who or what is meant"
            yield Finding(message, place, one.index, event, within)
