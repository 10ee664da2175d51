"""Judging captions: which judge, at what cost, and the run's files."""
