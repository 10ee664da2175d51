"""Graded runs of multiple-choice benchmarks in ranked tables, beside published ones."""
