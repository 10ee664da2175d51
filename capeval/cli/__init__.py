"""The command line."""

from capeval.cli.app import main

__all__ = ["main"]
