"""Stored scores of all runs side by side, and the paper's own tables."""
