"""Metric against people: joined, grouped, correlated, compared."""
