"""Multiple-choice benchmarks: questions, answer selection, grading and temporal diagnostics."""
