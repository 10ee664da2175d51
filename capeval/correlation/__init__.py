"""Compare metrics with human ratings: join, group, correlate, test."""
