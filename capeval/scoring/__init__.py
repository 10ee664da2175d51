"""Weighted precision, recall and F1 from verdicts, with breakdowns, intervals and a signature."""

from capeval.scoring.aggregate import DRAWS, score_judgments
from capeval.scoring.counts import GROUPS, MEASURES, fits, flaw_of, measures, weight_counts
from capeval.scoring.result import Bucket, Estimate, Scores, TypeScores
from capeval.scoring.signature import signature
from capeval.stats import FEWEST

__all__ = [
    "DRAWS",
    "FEWEST",
    "GROUPS",
    "MEASURES",
    "Bucket",
    "Estimate",
    "Scores",
    "TypeScores",
    "fits",
    "flaw_of",
    "measures",
    "score_judgments",
    "signature",
    "weight_counts",
]
