"""Scores of stored verdicts: made, read, and held against those stored."""
