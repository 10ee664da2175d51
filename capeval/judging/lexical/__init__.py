"""The lexical judge: embedded and deterministic, a baseline and a smoke test, not a measurement."""

from capeval.judging.lexical.alignment import align
from capeval.judging.lexical.judge import LexicalJudge
from capeval.judging.lexical.reference import Reference

__all__ = ["LexicalJudge", "Reference", "align"]
