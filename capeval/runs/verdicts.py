"""The stored verdicts of one judge on one run: which are still valid, who judged, their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from capeval.errors import InputError
from capeval.files.annotations import annotations_hash
from capeval.files.captions import load_captions
from capeval.files.jsonl import dumps, write_atomic
from capeval.files.judgments import (
    caption_hash,
    load_judgments,
    reference_hash,
    write_judgments,
)
from capeval.files.reading import first_line
from capeval.files.tuna_results import load_tuna_results
from capeval.runs.folder import JudgeFolder
from capeval.runs.resolve import find_judgments
from capeval.runs.sources import Source
from capeval.schema import Annotation, Caption, Judgment, Scored, Unscored, flaw_of
from capeval.scoring import DRAWS, Reference, Scores, Signature, score_judgments
from capeval.text import nearest, shown
from capeval.version import __version__


def stored_judgments(
    path: str | Path, annotations: Sequence[Annotation], *, ignore_unknown: bool = False
) -> tuple[Sequence[Judgment], int]:
    """Return the stored judgments, all by one judge, and the number of captions."""
    path = find_judgments(path)
    if _is_list(path):
        judgments: Sequence[Judgment] = load_tuna_results(
            path, annotations, ignore_unknown=ignore_unknown
        )
        captioned = len(judgments)
    else:
        run = JudgeFolder(path.parent).run
        loaded = load_captions(run.captions, unfinished=True) if run else ()
        captions = {caption.index: caption for caption in loaded}
        judgments = _judgments_of(path, annotations, captions, ignore_unknown=ignore_unknown)
        known = {annotation.index for annotation in annotations}
        captioned = len({j.index for j in judgments} | (captions.keys() & known))
    if not judgments:
        raise InputError("holds no judgments of these annotations", file=path)
    identities = {identity_of(judgment) for judgment in judgments if isinstance(judgment, Scored)}
    if len(identities) > 1:
        raise InputError(
            f"mixes verdicts of {len(identities)} judges or settings "
            f"({'; '.join(sorted(map(str, identities)))}); judge it again to make it whole",
            file=path,
        )
    return judgments, captioned


def _is_list(path: Path) -> bool:
    # Only the first line is read: the last may be torn.
    first = first_line(path)
    if first == "{":
        raise InputError(
            "is one JSON object over several lines, perhaps a scores.json; name a "
            "judgments.jsonl, a judged run, or a TUNA result file",
            file=path,
        )
    return first.startswith("[")


def _judgments_of(
    path: Path,
    annotations: Sequence[Annotation],
    captions: Mapping[str, Caption],
    *,
    ignore_unknown: bool,
) -> list[Judgment]:
    known = {annotation.index: annotation for annotation in annotations}
    result: list[Judgment] = []
    for index, judgment in load_judgments(path).items():
        if index in known:
            changed = changed_since(judgment, known[index], captions.get(index))
            result.append(
                Unscored(
                    index=index,
                    reason=changed[1],
                    inputs=judgment.inputs,
                    provenance=judgment.provenance,
                )
                if changed and isinstance(judgment, Scored)
                else judgment
            )
        elif not ignore_unknown:
            raise InputError(
                f"is unknown to the annotations{nearest(index, list(known))}; "
                "name the matching --annotations, or skip it with --ignore-unknown",
                file=path,
                where=f"index {shown(index)}",
            )
    return result


Changed = Literal["annotation", "caption", "content of the file"]


def changed_since(
    judgment: Judgment, annotation: Annotation, caption: Caption | None
) -> tuple[Changed, str] | None:
    """Return what has changed since a verdict was stored, with the reason in words, or None.

    Only what was stored with the verdict is compared: verdicts made elsewhere carry no hashes, and
    `caption` is None where the captions are not known.
    """
    inputs = judgment.inputs
    if inputs and caption and inputs.caption != caption_hash(caption):
        return "caption", "another caption of this video was judged"
    if inputs and inputs.reference != reference_hash(annotation):
        return "annotation", "it was judged against another annotation of this video"
    flaw = flaw_of(annotation, judgment) if isinstance(judgment, Scored) else None
    return ("content of the file", flaw) if flaw else None


@dataclass(frozen=True, order=True)
class JudgeIdentity:
    """What verdicts must share to count as one result, as they record it.

    This is the one definition: scores are made of verdicts of one identity, and verdicts of several
    are refused. The endpoint's name is part of it, its address is not (see `schema.endpoint_name`).
    The snapshots that answered are in the signature.
    """

    judge: str = "unknown"
    prompts: str | None = "unknown"
    endpoint: str | None = None
    repeats: int = 1
    baseline: bool = False
    base_url: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        parts = (self.judge, self.base_url and f"at {self.base_url}", self.prompts)
        return ", ".join([*(part for part in parts if part), f"repeats {self.repeats}"])


def identity_of(judgment: Judgment) -> JudgeIdentity:
    """Return the judge of a caption, and how often it judged it."""
    made = judgment.provenance
    return JudgeIdentity(
        judge=made.judge,
        prompts=made.prompts,
        endpoint=made.endpoint_name,
        repeats=max(1, len(judgment.repeats)),
        baseline=made.is_baseline,
        base_url=made.base_url,
    )


def signature_of(
    annotations: Sequence[Annotation], judgments: Sequence[Judgment], *, data: str | None = None
) -> str:
    """Return the signature of scores from the judgments of one judge.

    `data` is the hash of the annotations, if the caller knows it already.
    """
    identity, models = judged_by(judgments)
    return str(
        Signature.of_scores(
            judge="+".join(models) or identity.judge,
            prompts=identity.prompts or "none",
            repeats=identity.repeats,
            data_hash=data or annotations_hash(annotations),
            annotated=len(annotations),
            version=__version__,
        )
    )


def judged_by(judgments: Sequence[Judgment]) -> tuple[JudgeIdentity, list[str]]:
    """Return the judge of some judgments, and the snapshots that answered."""
    scored = [judgment for judgment in judgments if isinstance(judgment, Scored)]
    first = next(iter(scored or judgments), None)
    return identity_of(first) if first else JudgeIdentity(), _recorded("models", scored)


def _recorded(name: str, scored: Sequence[Scored]) -> list[str]:
    return sorted({value for judgment in scored for value in getattr(judgment.provenance, name)})


def summarise(
    annotations: Sequence[Annotation] | Reference,
    judgments: Sequence[Judgment],
    *,
    captioned: int,
    seed: int,
    draws: int = DRAWS,
    data: str | None = None,
) -> Scores:
    """Score the judgments of one judge; what is known of the judge is read from them.

    Parameters
    ----------
    draws : of the bootstrap; 0 for means without intervals
    data : the hash of the annotations, if the caller knows it already
    """
    reference = annotations if isinstance(annotations, Reference) else Reference(annotations)
    data = data or annotations_hash(reference.annotations)
    scored = [judgment for judgment in judgments if isinstance(judgment, Scored)]
    identity, models = judged_by(judgments)
    return score_judgments(
        reference,
        judgments,
        captioned=captioned,
        signature=signature_of(reference.annotations, judgments, data=data),
        settings={
            "judge": identity.judge,
            "baseline": identity.baseline,
            "base_url": identity.base_url,
            "prompts": identity.prompts,
            "repeats": identity.repeats,
            "models": models,
            "fingerprints": _recorded("fingerprints", scored),
            "left_off": _recorded("left_off", scored),
            "data": data,
            "interval": {
                "level": 0.95,
                "method": "percentile bootstrap over videos",
                "draws": draws,
                "seed": seed,
            },
        },
        seed=seed,
        draws=draws,
    )


class VerdictStore:
    """Reads and writes `judgments.jsonl` and `scores.json`; without a folder nothing is stored."""

    def __init__(self, source: Source, folder: JudgeFolder | None, *, seed: int) -> None:
        self._source, self.folder, self._seed = source, folder, seed
        self._judgments: list[Judgment] = []

    def load(self) -> dict[str, Judgment]:
        """Return the stored judgments by index."""
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
