"""The report: judged runs as one self-contained HTML file."""
