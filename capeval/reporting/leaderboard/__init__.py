"""The leaderboard of all judged runs."""
