"""One video of one or several judged runs, with everything that explains its score."""
