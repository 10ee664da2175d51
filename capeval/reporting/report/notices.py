"""What whoever reads the numbers of a report must know first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from capeval.reporting.numbers import percent, thousands
from capeval.reporting.report.data import Shown
from capeval.runs.judged_run import JudgedRun
from capeval.schema import Scored

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


def _scored(run: JudgedRun) -> set[str]:
    known = {annotation.index for annotation in run.annotations}
    return {j.index for j in run.judgments.values() if isinstance(j, Scored)} & known
