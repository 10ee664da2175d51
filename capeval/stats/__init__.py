"""Pure numbers: no files, no models."""
