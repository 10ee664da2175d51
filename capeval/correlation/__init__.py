"""Metrics compared with human ratings: join, group, correlate, test."""
