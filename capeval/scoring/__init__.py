"""Weighted precision, recall and F1 from verdicts, with breakdowns, intervals and a signature."""

from capeval.scoring.aggregate import score_judgments
from capeval.scoring.counts import GROUPS, MEASURES, AnnotationArrays, measures
from capeval.scoring.score_parts import Bucket, Estimate, TypeScores
from capeval.scoring.scores import Scores
from capeval.scoring.signature import Signature
from capeval.stats import FEWEST_FOR_FAILURES, FEWEST_VIDEOS

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
    "score_judgments",
]
