"""One video in one or several judged runs, with everything that explains its score."""
