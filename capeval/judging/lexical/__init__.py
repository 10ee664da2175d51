"""The lexical judge: built in and deterministic; a baseline and a smoke test, not a measurement."""

from capeval.judging.lexical.judge import LexicalJudge
from capeval.judging.lexical.matching import align
from capeval.judging.lexical.reference import LexicalReference

__all__ = ["LexicalJudge", "LexicalReference", "align"]
