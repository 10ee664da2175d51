"""Make benchmarks: annotations of videos, and multiple-choice questions about them."""
