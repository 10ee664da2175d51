"""The stored verdicts of one judge on one run: which count, who judged, and the signature."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from capeval.errors import InputError
from capeval.files.jsonl import read_bytes, text_in
from capeval.files.judgments import (
    caption_hash,
    load_judgments,
    load_tuna_results,
    reference_hash,
    unknown_video,
)
from capeval.runs.folder import JudgeFolder
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
from capeval.text import both_ends, one_line


def stored_judgments(
    path: Path,
    annotations: Sequence[Annotation],
    captions: Sequence[Caption] | None,
    *,
    ignore_unknown: bool = False,
    repeats: int | None = None,
) -> Sequence[Judgment]:
    """Return the stored judgments of one judge, outdated ones unscored.

    Parameters
    ----------
    path : their file
    captions : of the run that the file is in; None outside a run
    repeats : how many repeats of each video count; by default the number of the last request, or
        the most that a video has if it is unknown
    """
    known = {annotation.index: annotation for annotation in annotations}
    data = read_bytes(path)
    if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):  # after a byte order mark
        judgments: Sequence[Judgment] = load_tuna_results(
            path, text_in(data, path), annotations, ignore_unknown=ignore_unknown
        )
    else:
        stored = load_judgments(path, data, in_run=captions is not None)
        of_run = {caption.index: caption for caption in captions or ()}
        if captions is not None:
            stored = {index: one for index, one in stored.items() if index in of_run}
        strangers = [index for index in stored if index not in known]
        if strangers and not ignore_unknown:
            raise unknown_video(strangers[0], known, file=path)
        most = max((len(votes_of(judgment)) for judgment in stored.values()), default=1)
        repeats = repeats or JudgeFolder(path.parent).repeats or most or 1
        judgments = [
            in_force(one, changed_since(one, known[index], of_run.get(index)), repeats)
            for index, one in stored.items()
            if index in known
        ]
    if not judgments:
        raise InputError("has no judgments of these annotations", file=path)
    identities = {_identity_of(judgment) for judgment in judgments if isinstance(judgment, Scored)}
    if len(identities) > 1:
        raise InputError(
            f"mixes verdicts of {len(identities)} judges or settings "
            f"({'; '.join(sorted(map(str, identities)))}); judge it again to correct it",
            file=path,
        )
    return judgments


def in_force(judgment: Judgment, changed: str | None, repeats: int) -> Judgment:
    """Return a stored judgment as it counts today.

    It is unscored if its inputs have `changed`, as `changed_since` says, or if it has fewer than
    `repeats` repeats; of more, the first ones count.
    """
    if changed is not None:
        return _unscored(judgment, changed) if isinstance(judgment, Scored) else judgment
    if isinstance(judgment, Scored) and max(1, len(judgment.repeats)) == repeats:
        return judgment
    votes = votes_of(judgment)
    if len(votes) >= repeats:
        return scored_by(votes[:repeats], judgment)
    if not isinstance(judgment, Scored):
        return judgment
    return _unscored(
        judgment, f"it has {len(votes)} of {repeats} repeats; judge it with --repeats {repeats}"
    )


def changed_since(
    judgment: Judgment, annotation: Annotation, caption: Caption | None
) -> str | None:
    """Return how the inputs of a stored verdict have changed, or None.

    Only hashes stored with the verdict are compared: verdicts made elsewhere have none, and
    `caption` is None if the captions are unknown.
    """
    inputs = judgment.inputs
    if inputs and caption and inputs.caption != caption_hash(caption.caption):
        return "another caption of this video was judged; judge it again"
    if inputs and inputs.reference != reference_hash(annotation):
        return "it was judged against another annotation of this video; judge it again"
    return flaw_of(annotation, judgment) if isinstance(judgment, Scored) else None


def votes_of(judgment: Judgment) -> tuple[Verdict, ...]:
    if judgment.repeats or not isinstance(judgment, Scored):
        return judgment.repeats
    return (Verdict(**{name: getattr(judgment, name) for name in Verdict.model_fields}),)


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
    """Return the judgment of some repeats; its judge and video are those of `about`."""
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
    """The fields that verdicts must share to count as one result.

    Scores are computed from verdicts of one identity. The endpoint's name is part of it, its
    address is not (see `schema.endpoint_name`). The snapshots that answered are in the signature.
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
        """The command that continues with this judge, for a message.

        Verdicts do not record which options chose the judge, such as the folder of its prompts, and
        another judge would cost money and finish nothing.
        """
        judge = "" if self.judge == JudgeIdentity.judge else f" (judge: {self})"
        return f"the same `capeval judge` command as before{judge}"


def _identity_of(judgment: Judgment) -> JudgeIdentity:
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


def judged_by(judgments: Sequence[Judgment]) -> tuple[JudgeIdentity, list[str]]:
    """Return the judge of some judgments, and the snapshots that answered."""
    scored = [judgment for judgment in judgments if isinstance(judgment, Scored)]
    first = next(iter(scored or judgments), None)
    return _identity_of(first) if first else JudgeIdentity(), recorded("models", scored)


def addresses_of(judgments: Sequence[Judgment]) -> str | None:
    """Return the judge's addresses; a run may be finished at another address."""
    found = {one.provenance.base_url for one in judgments}
    return ", ".join(sorted(address for address in found if address)) or None


def recorded(name: str, scored: Sequence[Scored]) -> list[str]:
    """Return the values of a field of the provenance of some verdicts."""
    return sorted({value for judgment in scored for value in getattr(judgment.provenance, name)})


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


# ---- The signature: one line that says how a score was made, as in sacreBLEU ---------------------

VERSION = "v"
"""The part that names the version of capeval; it does not affect comparisons."""

_LIKE = ("judge", "endpoint", "prompts", "reasoning", "repeats", "data")
"""The parts of the signature that two scores must share to be comparable."""


def signature_text(parts: Mapping[str, str]) -> str:
    """Return the signature with these parts."""
    # Names come from endpoints: a separator or a line break in one would forge another part.
    safe = {name: one_line(value).replace("|", "/") for name, value in parts.items()}
    return "|".join(f"{name}:{value}" for name, value in safe.items())


def signature_parts(text: str) -> dict[str, str]:
    """Return the parts of a signature by name, in their order.

    >>> signature_parts("capeval:tuna-cap|judge:a|v:1")["judge"]
    'a'
    """
    parts = (part.partition(":") for part in text.split("|"))
    return {name: value for name, _, value in parts}


def unlikeness(signatures: Mapping[str, str]) -> list[str]:
    """List the differences between signatures that make scores incomparable.

    The judge, the name of its endpoint, its prompts, its reasoning effort, its repeats (the
    majority of three is another measure than one verdict) and the data count; the version of
    capeval does not.

    >>> unlikeness({"a": "capeval:x|judge:m|v:1", "b": "capeval:x|judge:n|v:2"})
    ['judge m vs. n']
    """
    parsed = [signature_parts(signature) for signature in signatures.values()]
    found = []
    for name in _LIKE:
        # Only some judges have a reasoning effort, or an endpoint that capeval.toml names.
        missing = "not set" if name in ("reasoning", "endpoint") else "unknown"
        values = dict.fromkeys(signature.get(name) for signature in parsed)
        if len(values) > 1:
            texts = (both_ends(value or missing, 60) for value in values)
            found.append(f"{name} {' vs. '.join(texts)}")
    return found
