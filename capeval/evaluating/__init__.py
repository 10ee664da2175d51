"""The working folder as a whole: `eval`, `runs`, `check`, `cache`."""
