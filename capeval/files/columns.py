"""Which of a file's columns are meant: by name, by a synonym whose values fit, or as mapped."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from capeval.errors import InputError, UsageError
from capeval.files.id_hints import hint_of, look_alike
from capeval.files.tables import InputTable
from capeval.schema import RELATIONS
from capeval.text import cut, listed, nearest, normal_form, shown, similar

_SYNONYMS: dict[str, tuple[str, ...]] = {
    "video_id": (
        "video",
        "index",
        "clip",
        "clip id",
        "clip name",
        "video name",
        "video index",
        "video file",
        "vid",
        "seg id",
        "segment id",
        "sid",
        "item",
        "item id",
        "id",
        "file",
        "filename",
        "file name",
        "image id",
        "segment",
    ),
    "system": (
        "model",
        "model name",
        "model id",
        "sys",
        "system name",
        "system id",
        "captioner",
        "method",
        "run",
    ),
    "rater": (
        "annotator",
        "annotator id",
        "rater id",
        "worker",
        "worker id",
        "participant",
        "participant id",
        "evaluator",
        "assessor",
        "coder",
        "user",
        "user id",
    ),
    "score": (
        "rating",
        "ratings",
        "mos",
        "human score",
        "human rating",
        "mean score",
        "mean rating",
        "average score",
        "average rating",
        "overall",
        "overall score",
        "quality",
        "raw scr",
        "raw score",
    ),
    "element_id": ("element", "element number"),
    "label": ("verdict", "relation", "relationship", "human label"),
}
# Names that say little about what they name: used only where their values are known ids.
_VAGUE = {"index", "id", "item", "item id", "file", "filename", "file name", "run", "method"}

# What tables write instead of an empty cell.
_UNRATED = {"", "na", "n/a", "nan", "null", "none", "-"}
_ELEMENT = re.compile(r"\s*[0-9]+\.[0-9]+\s*")
_WIDE = re.compile(r"(human|rater|annotator|rating|score)([0-9]+)")
# Columns in one message: more do not fit on a line that a user can read.
_MOST_NAMED = 8


def folded(name: str) -> str:
    """Return a column's name without case, spaces and punctuation.

    >>> folded("Video_ID"), folded("video id"), folded("Z.SCR")
    ('videoid', 'videoid', 'zscr')
    """
    return re.sub(r"[\W_]+", "", normal_form(name).casefold())


_MEANT = {role: frozenset(map(folded, names)) for role, names in _SYNONYMS.items()}
_UNSPECIFIC = frozenset(map(folded, _VAGUE))


def may_be(name: str, role: str) -> bool:
    """Return whether a column's name is one that capeval has, or a synonym of it.

    >>> may_be("Video ID", "video_id"), may_be("MOS", "score"), may_be("MOS", "label")
    (True, True, False)
    """
    return folded(name) == folded(role) or folded(name) in _MEANT[role]


@dataclass(frozen=True)
class Known:
    """The names that other inputs have; a column of names is meant if it has some of them."""

    videos: AbstractSet[str] = frozenset()
    systems: AbstractSet[str] = frozenset()


@dataclass(frozen=True)
class Choice:
    """How to choose columns.

    Attributes
    ----------
    mapped : the file's column by the name that capeval has for it
    known : the names that other inputs have, called only where a synonym is found
    """

    mapped: Mapping[str, str] = field(default_factory=dict)
    known: Callable[[], Known] = Known


@dataclass(frozen=True)
class Chosen:
    """The columns that are read, and a table of them under capeval's names.

    Attributes
    ----------
    columns : the file's column by capeval's name
    unsure : columns that may be meant, by capeval's name; they are not read
    """

    table: InputTable
    columns: dict[str, str]
    unsure: dict[str, list[str]]

    def notices(
        self, hint: str = "", also_read: Collection[str] = (), usual: Collection[str] = ()
    ) -> tuple[str, ...]:
        """Return one line about synonyms that are read and columns that are ignored, if any.

        `hint` is what to do about an ignored column; `also_read` are columns that are read too, or
        need not be named; `usual` are synonyms that are part of the layout.
        """
        table, read = self.table, self.columns
        renamed = [
            f"{shown(name)} as {role}"
            for role, name in read.items()
            if name != role and name not in usual
        ]
        extra = [name for name in table.columns if name not in {*read.values(), *also_read}]
        doubtful = {name: role for role, names in self.unsure.items() for name in names}
        named = [
            shown(name)
            + (f" (to read it: {_typed({doubtful[name]: name})})" if name in doubtful else "")
            for name in sorted(extra, key=lambda name: name not in doubtful)
        ]
        named += ["one without a name"] if table.unnamed else []
        parts = [f"reads {listed(renamed, _MOST_NAMED)}"] if renamed else []
        if named:
            parts.append(
                f"ignores the column{'s' if len(named) > 1 else ''} {listed(named, _MOST_NAMED)}"
                f"{hint if extra else ''}"
            )
        if table.ignored:
            other = listed(map(shown, table.ignored))
            parts.append(f"reads the sheet {shown(table.sheet)} and ignores {other}")
        return (f"{table.file}: {'; '.join(parts)}",) if parts else ()

    def read(self) -> InputTable:
        """Return the table under capeval's names, without the columns that are ignored."""
        hints = [
            f"{shown(names[0])} may be the {role}: {_typed({role: names[0]})}"
            for role, names in self.unsure.items()
            if role in ("system", "rater") and role not in self.columns
        ]
        return replace(
            self.table,
            columns={role: self.table.columns[name] for role, name in self.columns.items()},
            named={role: name for role, name in self.columns.items() if name != role},
            hint=f"; {', and '.join(hints)}" if hints else "",
        )


def _typed(mapping: Mapping[str, str]) -> str:
    """Return the option that maps columns, as it is typed in a shell.

    >>> _typed({"video_id": "Video Name"}), _typed({"score": "mos"})
    ('--columns "video_id=Video Name"', '--columns score=mos')
    """
    text = ",".join(f"{role}={cut(name)}" for role, name in mapping.items())
    return f'--columns "{text}"' if re.search(r"[^\w.,=/+-]", text) else f"--columns {text}"


def check_mapped(mapped: Mapping[str, str], roles: Collection[str]) -> None:
    """Refuse a mapping of names that capeval does not have, or of one column to two names."""
    for role in mapped:
        if role not in roles and not re.fullmatch(r"human(_[0-9]+)?", role):
            near = similar(role, [*roles])
            hint = f"; did you mean {near}?" if near else ""
            raise UsageError(
                f"--columns: {shown(role)} is not a column that capeval reads; one of "
                f"{', '.join(roles)}, human, human_2, … as in {next(iter(roles))}=COLUMN{hint}"
            )
    for name in mapped.values():
        if [*mapped.values()].count(name) > 1:
            raise UsageError(f"--columns: {shown(name)} is mapped twice")


def check_all_found(mapped: Mapping[str, str], headers: Mapping[Any, Collection[str]]) -> None:
    """Refuse a mapping of a column that is in none of some files; `headers` are by file."""
    names = list(dict.fromkeys(name for header in headers.values() for name in header))
    for role, name in mapped.items():
        if name not in names:
            raise UsageError(
                f"--columns {role}={cut(name)}: no such column in "
                f"{' or '.join(map(str, headers))}; found {listed(map(shown, names), _MOST_NAMED)}"
                f"{nearest(name, names)}"
            )


def choose(
    table: InputTable,
    needed: Sequence[str],
    optional: Sequence[str],
    choice: Choice,
    reserved: Collection[str] = (),
    equal: Mapping[str, Sequence[str]] | None = None,
    strict: Collection[str] = (),
    advice: str = "",
) -> Chosen:
    """Choose a column for each name that capeval has.

    A mapped column comes first, then the column of that name, then one whose name differs only in
    case, spaces or punctuation, then a synonym with fitting values: known ids, numbers, labels.
    Synonyms that do not fit, or several that do, are left for the user to map.

    Parameters
    ----------
    reserved : columns that are read as something else, whatever their names are synonyms of
    equal : further names that are as good as capeval's own
    strict : names without synonyms
    advice : what an error about a missing column adds

    Raises
    ------
    InputError
        A needed column is missing; the message lists the expected and the found columns.
    """
    roles = (*needed, *optional)
    names = {role: [role, *(equal or {}).get(role, ())] for role in roles}
    mapped = choice.mapped
    columns = {role: mapped[role] for role in roles if mapped.get(role) in table.columns}
    free = [name for name in table.columns if name not in columns.values()]
    for role in roles:
        own = next((name for name in names[role] if name in free), None)
        if role not in columns and own is not None:
            columns[role] = own
            free.remove(own)
    free = [name for name in free if name not in reserved]
    unsure: dict[str, list[str]] = {}
    for role in (role for role in roles if role not in columns):
        spelled = [name for name in free if folded(name) in map(folded, names[role])]
        meant = [name for name in free if folded(name) in _MEANT.get(role, ())]
        if role in strict:
            meant = []
        fitting = spelled or [name for name in meant if _fits(table, role, name, choice)]
        if not fitting and role == "score" and len(meant) == 1 and _mostly_numbers(table, meant[0]):
            # Reading it names the cell that is no number.
            fitting = meant
        if len(fitting) == 1:
            columns[role] = fitting[0]
            free.remove(fitting[0])
        elif fitting or meant:
            unsure[role] = fitting or meant
        elif near := similar(role, free) or (role == "score" and similar("human", free)):
            unsure[role] = [near]
        elif role == "video_id" and (joining := _joining(table, free, choice)):
            unsure[role] = joining
    left = {role: [name for name in several if name in free] for role, several in unsure.items()}
    chosen = Chosen(table, columns, {role: several for role, several in left.items() if several})
    missing = [role for role in needed if role not in columns]
    if missing:
        if missing == ["video_id"]:
            _check_alike(chosen, choice)
        advice += _why_not_joined(chosen, missing, choice)
        raise _missing(chosen, missing, needed, optional, advice)
    table.check_header(columns.values())
    _check_systems(chosen, choice)
    return chosen


def _check_systems(chosen: Chosen, choice: Choice) -> None:
    """Refuse to ignore a column that has several systems: captions of all would be taken as one's.

    A column with one value changes nothing.
    """
    table = chosen.table
    for name in chosen.unsure.get("system", ()):
        values = {str(cell).strip() for cell in table.columns[name] if not is_unrated(cell)}
        if may_be(name, "system") and folded(name) not in _UNSPECIFIC and len(values) > 1:
            known = choice.known().systems
            others = f", but the metrics are of {listed(sorted(known), 3)}" if known else ""
            alike = hint_of(look_alike(sorted(values), known))
            raise table.error(
                f"the column {shown(name)} may be the system{others}; if it is, name it with "
                f"{_typed({'system': name})}{alike}"
            )


def _check_alike(chosen: Chosen, choice: Choice) -> None:
    """Refuse a column whose ids only look like the known ones: to map it would not join them."""
    for name in chosen.unsure.get("video_id", ()):
        values = [cell for cell in chosen.table.columns[name] if isinstance(cell, str)]
        known = choice.known().videos
        if known.isdisjoint(values) and (alike := hint_of(look_alike(values, known))):
            raise chosen.table.error(
                f"the column {shown(name)} may be the video_id, but its ids are in no other "
                f"file{alike}"
            )


def _why_not_joined(chosen: Chosen, missing: Collection[str], choice: Choice) -> str:
    """Return that the only column that may name the videos has none that other files have."""
    names = chosen.unsure.get("video_id", [])
    if "video_id" not in missing or len(names) != 1 or not (known := choice.known().videos):
        return ""
    values = [cell for cell in chosen.table.columns[names[0]] if isinstance(cell, str)]
    if not values or not known.isdisjoint(values):
        return ""
    return f"; its values, such as {shown(values[0])}, are in no other file"


def _missing(
    chosen: Chosen,
    missing: Sequence[str],
    needed: Sequence[str],
    optional: Sequence[str],
    advice: str,
) -> InputError:
    names, unsure = chosen.table.columns, chosen.unsure
    several = {role: unsure[role] for role in missing if len(unsure.get(role, ())) > 1}
    which = ", ".join(
        shown(role) + (f" ({' or '.join(map(shown, several[role]))}?)" if role in several else "")
        for role in missing
    )
    which = f"the column{'s' if len(missing) > 1 else ''} {which}"
    expected = ", ".join([*needed, *(f"{role}?" for role in optional)])
    mapping = _typed({role: unsure.get(role, ["COLUMN"])[0] for role in missing})
    near = any(role in unsure for role in missing)
    them = "it" if len(missing) == 1 else "them"
    how = f" (did you mean {mapping}?)" if near else f"; name {them} with {mapping}"
    # What to do comes first: a long message is cut.
    return chosen.table.error(
        f"{which} {'is' if len(missing) == 1 else 'are'} missing{how}{advice}; expected "
        f"{expected}; found {listed(map(shown, names), _MOST_NAMED) or 'none'}"
    )


def _fits(table: InputTable, role: str, name: str, choice: Choice) -> bool:
    """Return whether a synonym's values are of the kind that a column must have."""
    values = [value for value in table.columns[name] if not is_unrated(value)]
    texts = [value.strip() if isinstance(value, str) else str(value) for value in values]
    if role in ("video_id", "system"):
        known = choice.known()
        names = known.videos if role == "video_id" else known.systems
        if role == "video_id" and _counts_rows(texts) and set(texts) != set(names):
            return False
        if not names:
            return folded(name) not in _UNSPECIFIC
        return not names.isdisjoint(texts)
    test: dict[str, Callable[[str], object]] = {
        "score": _is_number,
        "element_id": _ELEMENT.fullmatch,
        "label": _is_label,
    }
    return bool(texts) and all(map(test.get(role, bool), texts))


def _mostly_numbers(table: InputTable, name: str) -> bool:
    """Return whether more than half of a column's cells with something in them are numbers."""
    numbers = [_is_number(str(cell)) for cell in table.columns[name] if not is_unrated(cell)]
    return sum(numbers) > len(numbers) / 2


def _joining(table: InputTable, names: Sequence[str], choice: Choice) -> list[str]:
    """Return the columns that have some of the known videos, whatever their names are."""
    known = choice.known().videos
    cells = {name: [c for c in table.columns[name] if isinstance(c, str)] for name in names}
    return [
        name
        for name, texts in cells.items()
        if not known.isdisjoint(texts) and not _counts_rows(texts)
    ]


def _counts_rows(texts: Sequence[str]) -> bool:
    """Return whether a column only numbers the rows, which says nothing about videos."""
    return any(
        all(text == str(number) for number, text in enumerate(texts, start)) for start in (0, 1)
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_label(text: str) -> bool:
    return text.lower() in (*RELATIONS, "0", "1")


def is_unrated(value: Any) -> bool:
    """Return whether a cell has no rating: it is empty, or has one of the usual marks for that.

    >>> is_unrated(" "), is_unrated("N/A"), is_unrated(None), is_unrated("0")
    (True, True, True, False)
    """
    return value is None or (isinstance(value, str) and value.strip().lower() in _UNRATED)


def numbered_columns(table: InputTable, taken: Collection[str]) -> dict[str, str]:
    """Return two or more columns of numbers such as "rater 1", "rater 2", by human, human_2, …"""
    found: dict[str, dict[int, str]] = {}
    for name in table.columns:
        match = _WIDE.fullmatch(folded(name))
        if match and name not in taken and _fits(table, "score", name, Choice()):
            found.setdefault(match[1], {})[int(match[2])] = name
    several = [names for names in found.values() if len(names) > 1]
    if len(several) != 1:
        return {}
    names = [name for _, name in sorted(several[0].items())]
    return {f"human_{n}" if n > 1 else "human": name for n, name in enumerate(names, start=1)}
