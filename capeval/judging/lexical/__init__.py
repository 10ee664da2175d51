"""The lexical judge: built in and deterministic; a baseline and a smoke test, not a measurement."""

from capeval.judging.lexical.judge import LexicalJudge

__all__ = ["LexicalJudge"]
