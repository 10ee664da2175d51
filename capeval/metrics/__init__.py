"""Caption metrics other than a judge's scores: baselines, and controls that every table needs."""
