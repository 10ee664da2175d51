"""Videos drawn at random for a judge that is not to judge them all: `anchors.json`.

`capeval bridge collect` writes the file into the folder of a judge before it judges. It tells later
commands that the few verdicts in the folder are a random sample, and no run that was interrupted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from capeval.errors import InputError
from capeval.files.jsonl import dumps, whole_lines, write_atomic
from capeval.runs.folder import JudgeFolder, read_object
from capeval.text import complaint

NAME = "anchors.json"


class DrawnVideos(BaseModel):
    """A random sample without replacement: `n` of `N` captioned videos, in the order drawn."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    drawn: Literal["at random"] = "at random"
    seed: int = Field(ge=0)
    n: int = Field(ge=1)
    N: int = Field(ge=1)
    indexes: tuple[str, ...]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not len(set(self.indexes)) == len(self.indexes) == self.n <= self.N:
            raise ValueError("n must be the number of distinct indexes, and no more than N")
        return self

    def write(self, folder: JudgeFolder) -> None:
        """Write `anchors.json` if it would change."""
        if read_drawn(folder) != self:
            folder.path.mkdir(parents=True, exist_ok=True)
            write_atomic(folder.path / NAME, dumps(self.model_dump(mode="json"), indent=1) + "\n")


def drawing_order(indexes: Iterable[str], seed: int) -> list[str]:
    """Return indexes in a random order, in which the first n are a sample of n.

    The place of an index depends on nothing but the index and the seed: runs of the same data
    share their sample, even if some lack captions, and a larger sample contains the smaller one.

    >>> drawing_order("abcd", 0) == drawing_order("dcba", 0)
    True
    """
    return sorted(
        indexes,
        key=lambda index: hashlib.sha256(
            f"{seed}:{index}".encode("utf-8", "surrogatepass")
        ).hexdigest(),
    )


def draw(indexes: Sequence[str], n: int, seed: int) -> DrawnVideos:
    """Draw n of the captioned videos, or all if there are fewer."""
    chosen = drawing_order(indexes, seed)[:n]
    return DrawnVideos(seed=seed, n=len(chosen), N=len(indexes), indexes=tuple(chosen))


def read_drawn(folder: JudgeFolder) -> DrawnVideos | None:
    """Return the videos that were drawn for a judge, or None if it is to judge all.

    Raises
    ------
    InputError
        The file is damaged.
    """
    file = folder.path / NAME
    if not file.is_file():
        return None
    try:
        return DrawnVideos.model_validate_json(dumps(read_object(file)))
    except ValidationError as faults:
        field, message = complaint(faults)
        raise InputError(message, file=file, field=field) from None


def is_sample(folder: JudgeFolder) -> bool:
    """Return whether a folder holds verdicts on a random sample, and not on all captions.

    A judge that has gone on to judge the other captions has judged the run like any other.
    """
    try:
        drawn = read_drawn(folder)
        return drawn is not None and len(whole_lines(folder.judgments)) < drawn.N
    except InputError:
        # Whoever needs the file says what is wrong with it.
        return True
    except OSError:
        return False


def without_samples(folders: Sequence[JudgeFolder]) -> list[JudgeFolder]:
    """Return the folders of judges that are to judge the whole run; all if there is none."""
    return [one for one in folders if not is_sample(one)] or list(folders)
