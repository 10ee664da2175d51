"""Making a benchmark: annotations and questions are drafted, checked, filtered and reviewed."""
