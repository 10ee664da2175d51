"""Find and read runs; check whether their captions, verdicts and scores match."""
