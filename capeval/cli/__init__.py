"""What users type; one file per command."""

from capeval.cli.app import main

__all__ = ["main"]
