"""The three stages, the pipeline that composes them, and the judges."""
