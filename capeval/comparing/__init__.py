"""Runs compared with each other: `capeval compare` and `capeval leaderboard`."""
