"""Comparisons of runs: `capeval compare` and `capeval leaderboard`."""
