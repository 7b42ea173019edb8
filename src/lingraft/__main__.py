"""`python -m lingraft`."""

from lingraft.cli import main

main()
