"""`python -m capeval`."""

from __future__ import annotations

from capeval.cli import main

main()
