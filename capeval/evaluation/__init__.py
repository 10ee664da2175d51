"""Puts the rooms together: captions in, judged, scored and stored as a run."""
