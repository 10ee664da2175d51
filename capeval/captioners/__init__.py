"""Captioners: models that turn the frames of a video into a caption, and the catalogue of them."""
