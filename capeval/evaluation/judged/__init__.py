"""Judged runs for whoever shows them: as a whole, or one video."""
