"""The report: judged runs as one HTML file that opens from disk and needs nothing else."""
