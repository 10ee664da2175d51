"""Files of the benchmarks' own evaluation code: read, and written for submission."""
