"""The leaderboard: as tables of the terminal, as JSON, and as files."""
