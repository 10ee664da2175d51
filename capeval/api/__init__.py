"""The public functions: each is the only orchestration of the command with its name."""
