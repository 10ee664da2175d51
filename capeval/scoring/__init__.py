"""Weighted precision, recall and F1 from verdicts, with breakdowns, intervals and a signature."""

from capeval.scoring.counts import GROUPS, MEASURES, AnnotationArrays, measures
from capeval.scoring.scores import Bucket, Estimate, Scores, TypeScores
from capeval.scoring.verdicts import Signature
from capeval.stats.values import FEWEST_FOR_FAILURES, FEWEST_VIDEOS

__all__ = [
    "FEWEST_FOR_FAILURES",
    "FEWEST_VIDEOS",
    "GROUPS",
    "MEASURES",
    "AnnotationArrays",
    "Bucket",
    "Estimate",
    "Scores",
    "Signature",
    "TypeScores",
    "measures",
]
