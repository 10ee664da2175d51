"""What a run is: its folder, captions, verdicts and scores, and whether these belong together."""
