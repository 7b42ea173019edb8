"""The most memory that this process has held. It loads nothing, which would be measured too."""

from __future__ import annotations

import sys
from pathlib import Path


def peak_bytes() -> int | None:
    """Bytes of main memory; None where they are not known.

    On Linux that is the high-water mark of this program, never of the one that started it.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        marks = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        return int(marks[0].split()[1]) * 1024 if marks else None
    if sys.platform == "darwin":
        import resource

        return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return None
