"""Letters of options: removed from their texts, and found from an answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from capeval.mcq.formats.records import Record
from capeval.schema.question import OPTION_LETTERS
from capeval.text import listed, shown

# A bare dot needs a blank after it: "A.D." and "B.C." carry no letters.
_LETTERED = re.compile(r"(\(?)([A-Za-z])([.):])(?:\s+|(?<=\)))(?=\S)(.*)", re.DOTALL)


def without_letters(options: Sequence[str]) -> tuple[str, ...]:
    """Remove the letters that options carry, if each carries its own in the same way.

    >>> without_letters(["A. Apples.", "B. Candles."])
    ('Apples.', 'Candles.')
    >>> without_letters(["A. Smith", "C. Jones"])
    ('A. Smith', 'C. Jones')
    """
    found = [_LETTERED.fullmatch(option.strip()) for option in options]
    parts = [match.groups() for match in found if match]
    if len(parts) < len(options):
        return tuple(options)
    letters = "".join(letter for _, letter, _, _ in parts)
    in_order = OPTION_LETTERS[: len(options)]
    styles = {(opening, closing) for opening, _, closing, _ in parts}
    (opening, closing), *others = styles
    if others or letters not in {in_order, in_order.lower()} or (opening and closing != ")"):
        return tuple(options)
    return tuple(text.strip() for *_, text in parts)


class Answered(NamedTuple):
    """A record with its options and its answer, both as the file has them."""

    record: Record
    options: tuple[str, ...]
    answer: str


def letter_of(answered: Answered, field: str = "answer") -> str:
    """Return an answer that is a letter; InputError if no option has it."""
    letter = answered.answer.strip()
    if _of_letter(answered) is None:
        last = OPTION_LETTERS[len(answered.options) - 1]
        message = f"must be a letter from A to {last}, not {shown(answered.answer)}"
        raise answered.record.error(field, message)
    return letter


def letters_of(rows: Sequence[Answered], field: str = "answer") -> list[str]:
    """Return the answers' letters; all answers are letters, or all are texts of options.

    InputError names the first answer that does not fit, or that the two readings disagree on.
    """
    by_text = [_of_text(row) for row in rows]
    by_letter = [_of_letter(row) for row in rows]
    if None not in by_text and None not in by_letter:
        for row, text, letter in zip(rows, by_text, by_letter, strict=True):
            if text != letter:
                raise row.record.error(
                    field,
                    f"{shown(row.answer)} is the text of one option and the letter of another, "
                    "and every answer of the file can be read either way; write option texts",
                )
    if None not in by_text:
        return _named(by_text)
    if None not in by_letter:
        return _named(by_letter)
    raise _misfit(rows, by_text, by_letter, field)


def _misfit(
    rows: Sequence[Answered],
    by_text: Sequence[int | None],
    by_letter: Sequence[int | None],
    field: str,
) -> Exception:
    texts, letters = (len(rows) - by.count(None) for by in (by_text, by_letter))
    as_texts = texts >= letters
    row = rows[(by_text if as_texts else by_letter).index(None)]
    answer, last = shown(row.answer), OPTION_LETTERS[len(row.options) - 1]
    if not texts and not letters:
        message = f"{answer} is neither the text of an option nor a letter from A to {last}"
        return row.record.error(field, message)
    if not as_texts:
        problem = f"{answer} is not a letter from A to {last}"
    elif _alike(row):
        problem = f"{answer} is the text of several options"
    else:
        problem = f"{answer} is none of the options {listed(map(shown, row.options), 4)}"
    kind = "texts of options" if as_texts else "letters"
    return row.record.error(
        field, f"{problem}, but {max(texts, letters):,} of {len(rows):,} answers are {kind}"
    )


def _named(numbers: Sequence[int | None]) -> list[str]:
    return [OPTION_LETTERS[number] for number in numbers if number is not None]


def _of_letter(row: Answered) -> int | None:
    letter = row.answer.strip()
    valid = OPTION_LETTERS[: len(row.options)]
    return valid.index(letter) if len(letter) == 1 and letter in valid else None


def _alike(row: Answered) -> list[int]:
    answer = _key(row.answer)
    # The answer may repeat the letter that its option carries.
    for options in (row.options, without_letters(row.options)):
        found = [number for number, option in enumerate(options) if _key(option) == answer]
        if found:
            return found
    return []


def _of_text(row: Answered) -> int | None:
    found = _alike(row)
    return found[0] if len(found) == 1 else None


def _key(text: str) -> str:
    return " ".join(text.split())
