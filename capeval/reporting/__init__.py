"""Tables, figures, the report and the leaderboard; the only package that rounds numbers."""
