"""Benchmarks: figures and ratios measured in one run; `scripts/bench` prints them."""
