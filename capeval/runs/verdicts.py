"""The stored verdicts of one judge on one run: which are still valid, who judged, their scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    judgment_line,
    judgment_lines,
    load_judgments,
    reference_hash,
    write_judgments,
)
from capeval.files.reading import first_line
from capeval.files.tuna_results import load_tuna_results
from capeval.runs.folder import JudgeFolder
from capeval.runs.human_labels import labels_of, read_labels
from capeval.runs.kept_scores import with_bridged
from capeval.runs.resolve import find_judgments
from capeval.runs.sources import Source
from capeval.schema import Annotation, Caption, Judgment, RunLabels, Scored, Unscored, flaw_of
from capeval.scoring import DRAWS, AnnotationArrays, Scores, Signature, score_judgments
from capeval.scoring.counts import as_arrays
from capeval.text import counted, nearest, shown
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
    reasoning: str | None = None

    def __str__(self) -> str:
        where = self.base_url and f"at {self.base_url}"
        effort = self.reasoning and f"reasoning {self.reasoning}"
        parts = (self.judge, "a baseline" if self.baseline else "", where, self.prompts, effort)
        return ", ".join([*(part for part in parts if part), f"repeats {self.repeats}"])

    @property
    def command(self) -> str:
        """How a message names the command that goes on with this judge.

        It is not written out: what is stored does not say which options chose the judge, such as
        the folder of its prompts, and another judge would cost money and finish nothing.
        """
        judge = "" if self.judge == JudgeIdentity.judge else f" (judge: {self})"
        return f"the same `capeval judge` command as before{judge}"


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
        reasoning=made.reasoning,
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
            reasoning=identity.reasoning,
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


def _addresses(judgments: Sequence[Judgment]) -> str | None:
    """Return where the judge was called; a run may be finished at another address."""
    found = {one.provenance.base_url for one in judgments}
    return ", ".join(sorted(address for address in found if address)) or None


def _recorded(name: str, scored: Sequence[Scored]) -> list[str]:
    return sorted({value for judgment in scored for value in getattr(judgment.provenance, name)})


def summarise(
    annotations: Sequence[Annotation] | AnnotationArrays,
    judgments: Sequence[Judgment],
    *,
    captioned: int,
    seed: int,
    draws: int = DRAWS,
    data: str | None = None,
    labels: RunLabels | None = None,
) -> Scores:
    """Score the judgments of one judge; what is known of the judge is read from them.

    Parameters
    ----------
    draws : of the bootstrap; 0 for means without intervals
    data : the hash of the annotations, if the caller knows it already
    labels : human labels of the captions, for calibrated scores
    """
    reference = as_arrays(annotations)
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
            "base_url": _addresses(scored or judgments),
            "prompts": identity.prompts,
            # Files of judges without an effort have the bytes that they had before there was one.
            **({"reasoning": identity.reasoning} if identity.reasoning else {}),
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
        labels=labels,
    )


def judged_again(file: Path, name: str) -> str | None:
    """Return a notice if other verdicts are to replace those of a file, and some are still missing.

    Parameters
    ----------
    file : the verdicts in force
    name : of their run
    """
    folder = JudgeFolder(file.parent)
    if file.name != folder.judgments.name or not folder.run or not folder.next.is_file():
        return None
    try:
        again = [one for one in judgment_lines(folder.next) if isinstance(one, Scored)]
        total = sum(isinstance(one, Scored) for one in load_judgments(file).values())
    except InputError as fault:
        return str(fault)
    # Of several judges, the last is the one that was chosen last.
    by = [(one.inputs and one.inputs.judge, len(one.repeats)) for one in again]
    finish = identity_of(again[-1]).command if again else "the same `capeval judge` command"
    number = len({one.index for one, of in zip(again, by, strict=True) if of == by[-1]})
    return (
        f"{name}: {number:,} of {counted(total, 'caption')} are judged again, and these scores are "
        f"of the earlier verdicts; finish with {finish}, or delete {folder.next}"
    )


@dataclass(frozen=True)
class Stored:
    """What a judge's folder holds: its verdicts in force, those that will replace them, and those
    set aside.
    """

    in_force: Sequence[Judgment] = ()
    next: Sequence[Judgment] = ()
    aside: Sequence[Judgment] = ()

    def __iter__(self) -> Iterator[Judgment]:
        yield from (*self.in_force, *self.next, *self.aside)


def _distinct(judgments: Sequence[Judgment]) -> list[Judgment]:
    return list({dumps(judgment_line(one)): one for one in judgments}.values())


class VerdictStore:
    """Reads and writes the verdicts and scores of one judge; without a folder nothing is stored.

    `judgments.jsonl` has the verdicts in force. Those of a judge that has changed since are
    collected in `judgments.next.jsonl`, and replace them when they are complete. A verdict on a
    text that has changed, or on a video that is no longer captioned or annotated, is kept in
    `judgments.aside.jsonl` until its video is scored.
    """

    def __init__(self, source: Source, folder: JudgeFolder | None, *, seed: int) -> None:
        self._source, self.folder, self._seed = source, folder, seed
        self._stored = Stored()
        self._judgments: list[Judgment] = []

    def load(self) -> Stored:
        """Return the stored judgments."""
        if self.folder:
            files = (self.folder.judgments, self.folder.next, self.folder.aside)
            if run := self.folder.run:
                # Labels that cannot be read must stop the command before it spends anything.
                read_labels(run)
            self._stored = Stored(*map(judgment_lines, files))
        return self._stored

    def hold(self, judgments: Mapping[str, Judgment]) -> None:
        """Keep judgments that cannot be in force yet; they are in their file already."""
        self._judgments = self._in_order(judgments)

    def finish(self, judgments: Mapping[str, Judgment], *, next_left: Sequence[Judgment]) -> None:
        """Put the judgments in force, score them, and set aside what nothing replaces.

        Parameters
        ----------
        judgments : by one judge
        next_left : the loaded ones of `next` that another judge is still to complete
        """
        self._judgments = self._in_order(judgments)
        folder, stored = self.folder, self._stored
        if folder is None:
            return
        scored = {one.index for one in self._judgments if isinstance(one, Scored)}
        left = set(map(id, next_left))
        done = [one for one in stored.next if id(one) not in left]
        others = (*stored.in_force, *done)
        added = [one for one in others if isinstance(one, Scored) and one.index not in scored]
        aside = [one for one in stored.aside if one.index not in scored]
        # Killed at any line, what is not yet replaced is still in one of the files.
        if added:
            write_judgments(folder.aside, _distinct([*stored.aside, *added]))
        write_judgments(folder.judgments, self._judgments)
        scores = with_bridged(self.scores, folder)
        write_atomic(folder.scores, dumps(scores.model_dump(mode="json"), indent=1) + "\n")
        if not next_left:
            folder.next.unlink(missing_ok=True)
        elif done:
            write_judgments(folder.next, next_left)
        if not (aside or added):
            folder.aside.unlink(missing_ok=True)
        elif len(aside) < len(stored.aside):
            write_judgments(folder.aside, _distinct([*aside, *added]))

    def _in_order(self, judgments: Mapping[str, Judgment]) -> list[Judgment]:
        annotated = (annotation.index for annotation in self._source.annotations)
        return [judgments[index] for index in annotated if index in judgments]

    @cached_property
    def scores(self) -> Scores:
        """The scores of the judgments that were finished."""
        captions = {caption.index: caption for caption in self._source.captions}
        run = self.folder and self.folder.run
        return summarise(
            self._source.annotations,
            self._judgments,
            captioned=len(self._source.captions),
            seed=self._seed,
            labels=labels_of(run, self._source.annotations, captions) if run else None,
        )
