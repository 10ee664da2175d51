"""Metrics held against people."""
