"""What whoever reads the numbers of a report must know first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from capeval.errors import InputError
from capeval.evaluation.judged.run import JudgedRun
from capeval.evaluation.scores.file import TOLERANCE
from capeval.files.text import parse_json, read_text
from capeval.reporting.numbers import percent, thousands
from capeval.reporting.report.data import Shown
from capeval.schema import Scored

__all__ = ["LEAST_COVERAGE", "notices", "why_stored_differs"]

LEAST_COVERAGE = 0.99
"""A run of a smaller share of the videos is no score of the set, as for `capeval leaderboard`."""


def notices(shown: Sequence[Shown], stale: Mapping[str, str]) -> list[str]:
    """Return a sentence for each thing that keeps numbers from being what they seem.

    `stale` says by letter in what a run's stored scores differ from its verdicts.
    """
    several = len(shown) > 1
    found = []
    scored = {one.letter: _scored(one.run) for one in shown}
    if len({frozenset(indexes) for indexes in scored.values()}) > 1:
        each = ", ".join(f"{letter} {thousands(len(of))}" for letter, of in scored.items())
        common = len(set.intersection(*scored.values()))
        found.append(
            f"The runs were scored on unlike sets of videos ({each}; {thousands(common)} in all "
            "of them): their scores, charts and findings are not of the same videos, only the "
            "paired differences are."
        )
    for one in shown:
        counts = one.run.scores.counts
        who = f"{one.letter} is" if several else "This run is"
        if counts.annotated and counts.scored < LEAST_COVERAGE * counts.annotated:
            found.append(
                f"{who} scored on {thousands(counts.scored)} of {thousands(counts.annotated)} "
                f"annotated videos ({percent(counts.scored / counts.annotated)}%), less than "
                f"{100 * LEAST_COVERAGE:g}%: this is no score of the whole set."
            )
        if one.letter in stale:
            whose = f"of {one.letter} " if several else ""
            found.append(
                f"The scores.json beside the verdicts {whose}is not theirs: "
                f"{stale[one.letter]}. This page is computed from the verdicts."
            )
    return found


def why_stored_differs(run: JudgedRun) -> str | None:
    """Return in what the `scores.json` beside a run's verdicts differs from them; None where it
    does not, or there is none.
    """
    stored = run.file.with_name("scores.json")
    if run.file.name != "judgments.jsonl" or not stored.is_file():
        return None
    try:
        held = parse_json(read_text(stored), file=stored)
    except InputError:
        return "it cannot be read"
    if not isinstance(held, dict):
        return "it holds no scores"
    made = run.scores.model_dump(mode="json", include={"counts", "overall", "by"})
    return _differing(made, held, ())


def _scored(run: JudgedRun) -> set[str]:
    known = {annotation.index for annotation in run.annotations}
    return {j.index for j in run.judgments.values() if isinstance(j, Scored)} & known


def _differing(made: object, held: object, path: tuple[str, ...]) -> str | None:
    """Return the first value of `made` that `held` has otherwise.

    Ends of intervals depend on the seed, and are passed over.
    """
    if isinstance(made, dict):
        there = held if isinstance(held, dict) else {}
        if path[:1] == ("by",) and there.keys() - made.keys():
            return f"{'.'.join(path)} has other buckets"
        for name, value in made.items():
            if name in ("low", "high") and not isinstance(value, dict):
                continue
            if why := _differing(value, there.get(name), (*path, name)):
                return why
        return None
    if isinstance(made, float) and isinstance(held, int | float):
        same = abs(made - held) <= TOLERANCE
    else:
        same = made == held
    return None if same else f"{'.'.join(path)} is {_told(held)} there and {_told(made)} here"


def _told(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value) if isinstance(value, int) else "missing"
