"""Weighted precision, recall and F1 from verdicts, with breakdowns, intervals and a signature."""

from capeval.scoring.aggregate import DRAWS, score_judgments
from capeval.scoring.counts import GROUPS, MEASURES, Reference, fits, flaw_of, measures
from capeval.scoring.result import Bucket, Estimate, Scores, TypeScores
from capeval.scoring.signature import Signature
from capeval.stats import FEWEST

__all__ = [
    "DRAWS",
    "FEWEST",
    "GROUPS",
    "MEASURES",
    "Bucket",
    "Estimate",
    "Reference",
    "Scores",
    "Signature",
    "TypeScores",
    "fits",
    "flaw_of",
    "measures",
    "score_judgments",
]
