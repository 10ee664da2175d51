"""Weighted precision, recall and F1 from verdicts, with breakdowns, intervals and a signature."""
