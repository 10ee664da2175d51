"""Models that run in this process: their files, what identifies them, and the device."""
