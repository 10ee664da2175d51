"""Small helpers for the text of messages."""

from __future__ import annotations

import json
import re
import traceback
import unicodedata
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pydantic import ValidationError

# Unicode's format characters (category Cf) up to U+FFFF, tags, and variation selectors.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb\U000e0000-\U000e01ef]+"
)

# Marks in a row that are normalised at once: what Unicode's stream-safe text format allows, and far
# more than any script needs. A run is sorted in time that grows with the square of its length.
_MOST_MARKS = 30
_LONG_RUN = re.compile(rf"[^\0-\x7f]{{{_MOST_MARKS + 1}}}")
_JOINER = "\u034f"
# The characters without a combining class whose decompositions are marks.
_DECOMPOSED_TO_MARKS = "\u0f73\u0f75\u0f81\uff9e\uff9f"


class Loss(str):
    """A notice about money or lost work: `-q` prints it too, and hides all other notices.

    It is used where the reply cache cannot be read or written, or loses replies; where a request
    parameter is left off, which makes it another measurement; where most replies must be asked for
    again; where stored verdicts or captions will be paid for once more, remain in force, or runs
    are left out; where a judge ends or another one is about to judge a run; and where the cost that
    is shown is an estimate, or leaves out what a model reasons. What stays unscored or
    ungenerated, and a cost cap that was reached, are printed as results.
    """

    __slots__ = ()


def one_line(text: str, limit: int = 300) -> str:
    r"""Return `text` on one line, control characters shown as escapes, cut at `limit` characters.

    >>> one_line("two\nlines\x00")
    'two lines\\x00'
    """
    # A text can be a megabyte long: only the part that can be shown is processed.
    flat = " ".join(text[: 4 * limit].split())
    shown = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in flat
    )
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def normal_form(text: str, form: Literal["NFC", "NFKC"] = "NFKC") -> str:
    r"""Return a Unicode normal form of a text, in linear time.

    A run of more than 30 combining marks is divided with U+034F, as stream-safe text is (Unicode
    Standard Annex 15); any other text has exactly the normal form of `unicodedata.normalize`.

    >>> normal_form("ｄｅ\u0301"), len(normal_form("a" + 40 * "\u0301"))
    ('dé', 41)
    """
    return unicodedata.normalize(form, _stream_safe(text) if _LONG_RUN.search(text) else text)


def _stream_safe(text: str) -> str:
    marks = {c for c in set(text) if unicodedata.combining(c)}.union(_DECOMPOSED_TO_MARKS)
    safe, count = [], 0
    for character in text:
        count = count + 1 if character in marks else 0
        if count > _MOST_MARKS:
            safe.append(_JOINER)
            count = 1
        safe.append(character)
    return "".join(safe)


def plain(text: str) -> str:
    """Return text for comparison: compatibility forms, case and invisible characters unified.

    >>> plain("＜Th\u200bink＞")
    '<think>'
    """
    return _INVISIBLE.sub("", normal_form(text).casefold())


def describe(error: BaseException, limit: int = 200) -> str:
    r"""Return an exception of unknown code as `TYPE: message`, whatever its own methods do.

    Of a group, the first exception is described and the others are counted.

    >>> describe(OSError("no\nweights"))
    'OSError: no weights'
    >>> describe(ExceptionGroup("both", [OSError("no weights"), ValueError()]))
    'OSError: no weights (and 1 more)'
    """
    first, others = _first(error)
    more = f" (and {others} more)" if others else ""
    name, message = "an exception", ""
    try:
        name = type(first).__name__
        # A subclass of str could have methods that raise.
        message = str.__str__(str(first))
    except BaseException:  # even SystemExit
        message = "its message cannot be shown"
    return one_line(f"{name}: {message}" if message else name, limit) + more


def raised_at(error: BaseException) -> str:
    """Return ` (FILE, line N)`: the place that raised an exception, or nothing if it is unknown."""
    frames = traceback.extract_tb(_first(error)[0].__traceback__)
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""


def _first(error: BaseException) -> tuple[BaseException, int]:
    others = 0
    while isinstance(error, BaseExceptionGroup):
        # The attribute as the class defines it: a subclass could have replaced it.
        inner = BaseExceptionGroup.exceptions.__get__(error)
        others += len(inner) - 1
        error = inner[0]
    return error, others


def both_ends(text: str, limit: int) -> str:
    """Return `text` on one line; longer text keeps its beginning and its end.

    Names of runs and checkpoints often differ only at the end.

    >>> both_ends("a-model-with-a-long-name-step-2000", 20)
    'a-model-wi…step-2000'
    """
    flat = one_line(text, 2000)
    if len(flat) <= limit:
        return flat
    head = limit // 2
    return f"{flat[:head]}…{flat[len(flat) - (limit - head - 1) :]}"


def shown(value: Any) -> str:
    """Return a short JSON-like rendering of a value from a file."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except Exception:  # a mapping of a plugin may raise anything
        text = type(value).__name__
    return cut(text)


def cut(text: str, limit: int = 60) -> str:
    """Return text cut at `limit` characters.

    >>> cut("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= limit else text[: limit - 1] + "…"


def listed(things: Iterable[object], limit: int = 5) -> str:
    """Return the names of the first few things, and how many more there are.

    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    names = list(map(str, things))
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun.

    >>> counted(1, "video"), counted(1000, "video"), counted(2, "reply", "replies")
    ('1 video', '1,000 videos', '2 replies')
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def none_has(count: int, noun: str, what: str) -> str:
    """Return a sentence that none of the things in a file has something.

    >>> none_has(2, "caption", "an annotation"), none_has(1, "caption", "an annotation")
    ('none of its 2 captions has an annotation', 'its caption has no annotation')
    """
    if count == 1:
        return f"its {noun} has no {what.partition(' ')[2]}"
    return f"none of its {count:,} {noun}s has {what}"


def either(names: Sequence[str]) -> str:
    """Return alternatives as a sentence names them.

    >>> either(["a", "b", "c"]), either(["a"])
    ('a, b or c', 'a')
    """
    return " or ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


# Three of four characters agree: one slip in the shortest names, and two that are swapped. Below it
# are words that only share letters ("score" and "scene", "hello" and "help").
_SIMILAR = 0.75
# Comparison is quadratic in length, and no valid name is longer.
_LONGEST_NAME = 100
# A name that was not typed to its end; shorter beginnings are common to unrelated names.
_SHORTEST_BEGINNING = 4


def similar(value: Any, valid: Sequence[str]) -> str | None:
    """Return the one of some names that a mistyped one is likely to mean, if there is one."""
    if not isinstance(value, str) or len(value) > _LONGEST_NAME:
        return None
    typed = value.lower()
    names = {name.lower(): name for name in valid if len(name) <= _LONGEST_NAME}
    longer = [name for name in names if name.startswith(typed)]
    if len(longer) == 1 and len(typed) >= _SHORTEST_BEGINNING:
        return names[longer[0]]
    found = max(names, key=lambda name: _similarity(name, typed), default="")
    return names[found] if found and _similarity(found, typed) >= _SIMILAR else None


def _similarity(one: str, other: str) -> float:
    """Return the share of characters that two names have in common, in order.

    Names that differ only in their numbers are other names, unless a single digit differs.
    """
    match = SequenceMatcher(None, one, other, autojunk=False)
    if match.real_quick_ratio() < _SIMILAR or match.quick_ratio() < _SIMILAR:
        return 0.0
    if re.sub(r"\d", "", one) == re.sub(r"\d", "", other):
        numbers = [[int(digits) for digits in re.findall(r"\d+", text)] for text in (one, other)]
        if all(numbers) and numbers[0] != numbers[1] and not _differ_once(one, other):
            return 0.0
    # It depends on the order, where characters are swapped.
    return max(match.ratio(), SequenceMatcher(None, other, one, autojunk=False).ratio())


def _differ_once(one: str, other: str) -> bool:
    """Return whether one character of a text is another, added or missing in the other."""
    short, long = sorted((one, other), key=len)
    same = next((at for at, c in enumerate(short) if c != long[at]), len(short))
    return long[same + 1 :] == short[same + (len(short) == len(long)) :]


def nearest(value: Any, valid: Sequence[str]) -> str:
    """Return `; did you mean X?` if one of `valid` is similar, else an empty string.

    >>> nearest("cammera", ["camera", "scene"])
    '; did you mean "camera"?'
    """
    near = similar(value, valid)
    return "" if near is None else f'; did you mean "{near}"?'


def misnamed(missing: Any, given: Sequence[str]) -> str:
    """Return `; rename X to MISSING` if a given name is similar to a missing one, else nothing.

    >>> misnamed("index", ["idx", "caption"])
    '; rename "idx" to "index"'
    """
    near = similar(missing, given)
    return "" if near is None else f'; rename {shown(near)} to "{missing}"'


def complaint(faults: ValidationError, known: Sequence[str] = ()) -> tuple[str, str]:
    """Return the dotted field (list positions from 1) and the message of pydantic's first error.

    `known` are the names of all fields.
    """
    fault = faults.errors(include_url=False)[0]
    field = ".".join(str(p + 1) if isinstance(p, int) else str(p) for p in fault["loc"])
    return field, _message(fault, known)


_EXPECTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "date_type": "a date such as 2027-01-14, without quotes",
    "dict_type": "a JSON object",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a smaller number",
    "int_type": "a whole number",
    "list_type": "a list",
    "model_attributes_type": "a JSON object",
    "model_type": "a JSON object",
    "none_required": "null",
    "string_type": "a string",
    "tuple_type": "a list",
}
_LIMITS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("more than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}
_OF_EVERY_VALUE = {
    "string_pattern_mismatch": "must not be empty",
    "string_too_short": "must not be empty",
    "too_short": "must have at least one entry",
    "too_long": "has too many entries",
}


def _message(fault: Any, known: Sequence[str]) -> str:
    kind, value, context = fault["type"], fault.get("input"), fault.get("ctx", {})
    if kind == "missing":
        given = [name for name in value if name not in known] if isinstance(value, dict) else []
        return "is missing" + misnamed(fault["loc"][-1], given)
    if kind == "extra_forbidden":
        near = nearest(fault["loc"][-1], known if len(fault["loc"]) == 1 else ())
        return f"is not a known key{near or '; remove it'}"
    if kind == "literal_error":
        valid = [part.strip().strip("'") for part in context["expected"].split(",")]
        valid = [name for part in valid for name in part.replace("' or '", "|").split("|")]
        return f"{shown(value)} is unknown; one of {', '.join(valid)}{nearest(value, valid)}"
    if kind == "value_error":
        return f"{context['error']}, not {shown(value)}"
    if kind == "string_unicode":
        return f"has an unpaired surrogate: {shown(value)}"
    if kind == "union_tag_invalid":
        valid = context["expected_tags"].replace("'", "")
        key = context["discriminator"].strip("'")
        return f"the {key} {shown(context['tag'])} is unknown; one of {valid}"
    if kind in _LIMITS:
        limit, name = _LIMITS[kind]
        return f"must be {limit} {context[name]:,}".removesuffix(".0") + f", not {shown(value)}"
    if kind in _OF_EVERY_VALUE:
        return _OF_EVERY_VALUE[kind]
    expected = _EXPECTED.get(kind)
    return (
        f"must be {expected}, not {shown(value)}" if expected else f"is not valid: {shown(value)}"
    )


def storable(text: str) -> str:
    """Return text that can be sent and stored as UTF-8: unpaired surrogates become U+FFFD.

    >>> storable("a\\ud800b")
    'a\ufffdb'
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
