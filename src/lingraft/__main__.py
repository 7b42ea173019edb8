"""`python -m lingraft`."""

from lingraft.cli.app import main

main()
