"""The files that hold the verdicts of one judge on one run, and their scores."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from capeval.files.jsonl import dumps, write_atomic
from capeval.files.judgments import (
    load_judgments,
    write_judgments,
)
from capeval.runs.folder import JudgeFolder
from capeval.runs.rescoring import summarise
from capeval.runs.sources import Source
from capeval.schema import Judgment
from capeval.scoring import Scores


class VerdictStore:
    """Reads and writes `judgments.jsonl` and `scores.json`; without a folder nothing is stored."""

    def __init__(self, source: Source, folder: JudgeFolder | None, *, seed: int) -> None:
        self._source, self.folder, self._seed = source, folder, seed
        self._judgments: list[Judgment] = []

    def load(self) -> dict[str, Judgment]:
        """Return the stored judgments by index.

        Raises
        ------
        InputError
            The file is damaged.
        """
        return load_judgments(self.folder.judgments) if self.folder else {}

    def finish(self, judgments: Mapping[str, Judgment]) -> None:
        """Score the judgments and write both files, in the annotations' order."""
        self._judgments = [
            judgments[annotation.index]
            for annotation in self._source.annotations
            if annotation.index in judgments
        ]
        if self.folder:
            write_judgments(self.folder.judgments, self._judgments)
            text = dumps(self.scores.model_dump(mode="json"), indent=1) + "\n"
            write_atomic(self.folder.scores, text)

    @cached_property
    def scores(self) -> Scores:
        """The scores of the judgments that were finished."""
        return summarise(
            self._source.annotations,
            self._judgments,
            captioned=len(self._source.captions),
            seed=self._seed,
        )
