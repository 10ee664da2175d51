"""Weighted precision, recall and F1 from verdicts, with breakdowns, intervals and a signature."""

from capeval.scoring.aggregate import DRAWS, score_judgments
from capeval.scoring.counts import GROUPS, MEASURES, Reference, measures
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
    "measures",
    "score_judgments",
]
