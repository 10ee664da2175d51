"""Scoring stored verdicts again, without any model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from capeval.errors import InputError
from capeval.evaluation.summary import summarise
from capeval.files.captions import load_captions
from capeval.files.judgments import load_judgments
from capeval.files.run_folder import JudgeFolder, RunFolder
from capeval.files.text import read_text
from capeval.files.tuna_results import load_tuna_results
from capeval.files.validation import nearest, shown
from capeval.schema import Annotation, Judgment, Scored, Unscored
from capeval.scoring import Scores, fits

__all__ = ["rescore"]


def rescore(
    path: Path,
    annotations: Sequence[Annotation],
    *,
    seed: int = 0,
    ignore_unknown: bool = False,
) -> Scores:
    """Score a judged run, a judge's folder, a `judgments.jsonl` or a TUNA result file.

    Raises
    ------
    InputError
        There is nothing to score, or it does not belong to the annotations.
    """
    path = _stored_at(path)
    if _is_list(path):
        judgments: Sequence[Judgment] = load_tuna_results(
            path, annotations, ignore_unknown=ignore_unknown
        )
        settings: dict[str, Any] = {"judge": "tuna-results", "prompts": "unknown"}
        captioned = len(judgments)
    else:
        judgments = _ours(path, annotations, ignore_unknown=ignore_unknown)
        folder = JudgeFolder(path.parent)
        settings = folder.read_settings() or {"judge": "unknown", "prompts": "unknown"}
        captioned = len({j.index for j in judgments} | _captioned(path, annotations))
    if not judgments:
        raise InputError("holds no judgments of these annotations", file=path)
    return summarise(annotations, judgments, captioned=captioned, settings=settings, seed=seed)


def _stored_at(path: Path) -> Path:
    if not path.is_dir():
        read_text(path)
        return path
    folder = JudgeFolder(path)
    if folder.judgments.is_file():
        return folder.judgments
    judges = RunFolder(path).judges()
    if len(judges) == 1:
        return judges[0].judgments
    if judges:
        names = ", ".join(str(judge.path) for judge in judges)
        raise InputError(f"was judged by several; name one of {names}", file=path)
    raise InputError("holds no judgments.jsonl; judge it first", file=path)


def _is_list(path: Path) -> bool:
    return read_text(path).lstrip()[0] == "["


def _ours(path: Path, annotations: Sequence[Annotation], *, ignore_unknown: bool) -> list[Judgment]:
    known = {annotation.index: annotation for annotation in annotations}
    result: list[Judgment] = []
    for index, judgment in load_judgments(path).items():
        if index not in known:
            if ignore_unknown:
                continue
            raise InputError(
                f"is unknown to the annotations{nearest(index, list(known))}; "
                "name the matching --annotations, or skip it with --ignore-unknown",
                file=path,
                where=f"index {shown(index)}",
            )
        result.append(_fitting(judgment, known[index]))
    return result


def _fitting(judgment: Judgment, annotation: Annotation) -> Judgment:
    if not isinstance(judgment, Scored):
        return judgment
    stored = (judgment.relations, *(verdict.relations for verdict in judgment.repeats))
    if all(fits(annotation, relations) for relations in stored):
        return judgment
    return Unscored(
        index=judgment.index, reason="its verdicts do not fit the events and elements annotated"
    )


def _captioned(path: Path, annotations: Sequence[Annotation]) -> set[str]:
    run = RunFolder(path.absolute().parent.parent)
    if not run.exists():
        return set()
    known = {annotation.index for annotation in annotations}
    return {caption.index for caption in load_captions(run.captions)} & known
