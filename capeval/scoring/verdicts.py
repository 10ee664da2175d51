"""The stored verdicts of one judge on one run: which of them count, who judged, their scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from capeval.errors import InputError
from capeval.files.annotations import annotations_hash
from capeval.files.jsonl import first_line
from capeval.files.judgments import (
    TABLE_SUFFIXES,
    caption_hash,
    load_element_table,
    load_judgments,
    load_tuna_results,
    reference_hash,
    unknown_video,
)
from capeval.runs.folder import JudgeFolder
from capeval.runs.resolve import find_judgments
from capeval.schema import (
    Annotation,
    Caption,
    Explanations,
    Judgment,
    Relation,
    Relations,
    Scored,
    Unscored,
    Verdict,
    flaw_of,
)
from capeval.scoring import Scores, Signature, score_judgments
from capeval.version import __version__


def stored_judgments(
    path: str | Path,
    annotations: Sequence[Annotation],
    *,
    ignore_unknown: bool = False,
    repeats: int | None = None,
) -> tuple[Sequence[Judgment], int]:
    """Return the stored judgments as they count today, all by one judge, and how many captions
    there are.

    Parameters
    ----------
    repeats : how many repeats of each video count; by default the number last asked for, or the
        most that a video has where that is not known
    """
    path = find_judgments(path)
    if path.suffix.lower() in TABLE_SUFFIXES:
        judgments: Sequence[Judgment] = load_element_table(
            path, annotations, ignore_unknown=ignore_unknown
        )
        captioned = len(judgments)
    elif _is_list(path):
        judgments = load_tuna_results(path, annotations, ignore_unknown=ignore_unknown)
        captioned = len(judgments)
    else:
        folder = JudgeFolder(path.parent)
        known = {annotation.index: annotation for annotation in annotations}
        stored = load_judgments(path, in_run=folder.run is not None)
        captioned = len(stored.keys() & known.keys())
        captions: dict[str, Caption] = {}
        if folder.run:
            captions = {caption.index: caption for caption in folder.run.read_captions()}
            captioned = len(captions.keys() & known.keys())
            stored = {index: one for index, one in stored.items() if index in captions}
        strangers = [index for index in stored if index not in known]
        if strangers and not ignore_unknown:
            raise unknown_video(strangers[0], known, file=path)
        most = max((len(votes_of(judgment)) for judgment in stored.values()), default=1)
        repeats = repeats or folder.repeats or most or 1
        judgments = [
            in_force(one, changed_since(one, known[index], captions.get(index)), repeats)
            for index, one in stored.items()
            if index in known
        ]
    if not judgments:
        raise InputError("has no judgments of these annotations", file=path)
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


def in_force(judgment: Judgment, changed: str | None, repeats: int) -> Judgment:
    """Return a stored judgment as it counts today.

    It is unscored if what was judged has `changed` since, as `changed_since` says, or if it has
    fewer than `repeats` repeats; of more, the first ones count.
    """
    if changed is None:
        return first_repeats(judgment, repeats)
    return _unscored(judgment, changed) if isinstance(judgment, Scored) else judgment


def changed_since(
    judgment: Judgment, annotation: Annotation, caption: Caption | None
) -> str | None:
    """Return what has changed since a verdict was stored, or None.

    Only what was stored with the verdict is compared: verdicts made elsewhere carry no hashes, and
    `caption` is None where the captions are not known.
    """
    inputs = judgment.inputs
    if inputs and caption and inputs.caption != caption_hash(caption):
        return "another caption of this video was judged; judge it again"
    if inputs and inputs.reference != reference_hash(annotation):
        return "it was judged against another annotation of this video; judge it again"
    return flaw_of(annotation, judgment) if isinstance(judgment, Scored) else None


def votes_of(judgment: Judgment) -> tuple[Verdict, ...]:
    """Return the finished repeats of a judgment."""
    if judgment.repeats or not isinstance(judgment, Scored):
        return judgment.repeats
    return (Verdict(**{name: getattr(judgment, name) for name in Verdict.model_fields}),)


def first_repeats(judgment: Judgment, repeats: int) -> Judgment:
    """Return a judgment by its first repeats alone; one that has fewer is unscored."""
    if isinstance(judgment, Scored) and max(1, len(judgment.repeats)) == repeats:
        return judgment
    votes = votes_of(judgment)
    if len(votes) < repeats:
        if not isinstance(judgment, Scored):
            return judgment
        return _unscored(
            judgment, f"it has {len(votes)} of {repeats} repeats; judge it with --repeats {repeats}"
        )
    return scored_by(votes[:repeats], judgment)


def _unscored(judgment: Judgment, reason: str) -> Unscored:
    return Unscored(
        index=judgment.index,
        reason=reason,
        repeats=judgment.repeats,
        inputs=judgment.inputs,
        usage=judgment.usage,
        provenance=judgment.provenance,
    )


def scored_by(votes: Sequence[Verdict], about: Judgment) -> Scored:
    """Return the judgment that some repeats give; whose and of what it is, `about` says."""
    first = votes[0]
    relations = majority([vote.relations for vote in votes])
    return Scored(
        index=about.index,
        candidate_events=first.candidate_events,
        matches=first.matches,
        relations=relations,
        explanations=_explanations(relations, votes),
        notes=first.notes,
        repeats=tuple(votes) if len(votes) > 1 else (),
        inputs=about.inputs,
        usage=about.usage,
        provenance=about.provenance,
    )


def majority(
    votes: Sequence[Sequence[Sequence[Relation]]],
) -> tuple[tuple[Relation, ...], ...]:
    """Return the most frequent label of each element; a tie goes to the earliest repeat.

    >>> majority([[["lack"]], [["entailment"]], [["entailment"]]])
    (('entailment',),)
    >>> majority([[["lack"]], [["entailment"]]])
    (('lack',),)
    """
    return tuple(
        # Among equals, most_common keeps the order of first occurrence.
        tuple(Counter(labels).most_common(1)[0][0] for labels in zip(*events, strict=True))
        for events in zip(*votes, strict=True)
    )


def _explanations(relations: Relations, votes: Sequence[Verdict]) -> Explanations:
    """Return for each element the explanation of the earliest repeat that gave its relation."""
    explained = [(v.relations, v.explanations) for v in votes if v.explanations is not None]
    if not explained:
        return None
    return tuple(
        tuple(
            next((texts[e][k] for given, texts in explained if given[e][k] == relation), "")
            for k, relation in enumerate(event)
        )
        for e, event in enumerate(relations)
    )


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


def signature_of(annotations: Sequence[Annotation], judgments: Sequence[Judgment]) -> str:
    """Return the signature of scores from the judgments of one judge."""
    identity, models = judged_by(judgments)
    return str(
        Signature.of_scores(
            judge="+".join(models) or identity.judge,
            prompts=identity.prompts or "none",
            reasoning=identity.reasoning,
            repeats=identity.repeats,
            data_hash=annotations_hash(tuple(annotations)),
            annotated=len(annotations),
            version=__version__,
        )
    )


def judged_by(judgments: Sequence[Judgment]) -> tuple[JudgeIdentity, list[str]]:
    """Return the judge of some judgments, and the snapshots that answered."""
    scored = [judgment for judgment in judgments if isinstance(judgment, Scored)]
    first = next(iter(scored or judgments), None)
    return identity_of(first) if first else JudgeIdentity(), _recorded("models", scored)


def addresses_of(judgments: Sequence[Judgment]) -> str | None:
    """Return where the judge was called; a run may be finished at another address."""
    found = {one.provenance.base_url for one in judgments}
    return ", ".join(sorted(address for address in found if address)) or None


def _recorded(name: str, scored: Sequence[Scored]) -> list[str]:
    return sorted({value for judgment in scored for value in getattr(judgment.provenance, name)})


INTERVAL = "t interval over videos, corrected for skewness (Hall, 1992)"
"""The method of the intervals, as scores.json records it."""


def summarise(
    annotations: Sequence[Annotation],
    judgments: Sequence[Judgment],
    *,
    captioned: int,
) -> Scores:
    """Score the judgments of one judge; what is known of the judge is read from them."""
    scored = [judgment for judgment in judgments if isinstance(judgment, Scored)]
    identity, models = judged_by(judgments)
    return score_judgments(
        annotations,
        judgments,
        captioned=captioned,
        signature=signature_of(annotations, judgments),
        settings={
            "judge": identity.judge,
            "baseline": identity.baseline,
            "base_url": addresses_of(scored or judgments),
            "prompts": identity.prompts,
            **({"reasoning": identity.reasoning} if identity.reasoning else {}),
            "repeats": identity.repeats,
            "models": models,
            "fingerprints": _recorded("fingerprints", scored),
            "left_off": _recorded("left_off", scored),
            "data": annotations_hash(tuple(annotations)),
            "interval": {"level": 0.95, "method": INTERVAL},
        },
    )


def snapshots_notice(name: str, models: Sequence[str], addresses: str | None = None) -> str | None:
    """Return a notice if several snapshots of the judge answered, or it was called at several
    addresses.
    """
    if len(models) > 1:
        return f"{name}: {len(models)} snapshots of the judge answered: {', '.join(models)}"
    if addresses and ", " in addresses:
        return (
            f"{name}: judged at several addresses ({addresses}), which count as one judge unless "
            "[endpoints] in capeval.toml names them"
        )
    return None
