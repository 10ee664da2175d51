"""Metrics, wherever they come from, held against people."""
