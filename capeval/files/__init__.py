"""File formats: files are written whole or not at all, and every mistake in one is one line."""
