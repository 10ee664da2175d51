"""The words that people read for the labels of files: one manner for all that shows verdicts."""

from __future__ import annotations

from collections.abc import Mapping

from capeval.schema import HumanLabel, Relation

VERDICT_WORDS: Mapping[Relation, str] = {
    "entailment": "entailed",
    "lack": "lacking",
    "contradiction": "contradicted",
}
"""Of a judge's relations."""

LABEL_WORDS: Mapping[HumanLabel, str] = {
    "entailment": "entailed",
    "lack": "lacking",
    "contradiction": "contradicted",
    "covered": "covered",
    "not covered": "not covered",
}
"""Of people's labels too, some of whom only say whether an element is covered."""
