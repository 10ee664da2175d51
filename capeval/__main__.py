"""`python -m capeval`."""

from capeval.cli import main

main()
