"""How OpenMP's threads wait for each other. Must be said before torch loads its OpenMP library."""

from __future__ import annotations

import os
import sys

CHOICES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
"""What a user may have set: OpenMP's own, GNU's, and that of LLVM and Intel."""


def wait_passively() -> None:
    """Let threads that wait sleep, where the user has not chosen and torch is not loaded yet.

    By default they spin. On a machine with other work a spinning thread takes the core from the one
    that it waits for (docs/performance.md has the figures). No number changes.
    """
    if "torch" not in sys.modules and not any(name in os.environ for name in CHOICES):
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
