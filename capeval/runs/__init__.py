"""Runs: finding them, reading them, and whether their captions, verdicts and scores match."""
