"""OpenMP's threads: how many, and how they wait. Must be said before torch loads its library."""

from __future__ import annotations

import os
import sys

COUNT = "OMP_NUM_THREADS"
WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
"""Variables that a user may have set: OpenMP's own, GNU's, and that of LLVM and Intel."""
QUOTA = "/sys/fs/cgroup/cpu.max"
"""Quota of a container: microseconds of processor time in so many microseconds, or "max"."""
limited = False
"""Whether the number of threads is `stay_within_quota`'s, not the user's."""


def wait_passively() -> None:
    """Let threads that wait sleep, where the user has not chosen and torch is not loaded yet.

    By default they spin. On a machine with other work a spinning thread takes the core from the one
    that it waits for. No number changes.
    """
    if "torch" not in sys.modules and not any(name in os.environ for name in WAITING):
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"


def stay_within_quota() -> None:
    """Start no more threads than a container's quota gives cores; otherwise as `wait_passively`.

    torch starts one for each core that it sees, and in a container with `--cpus 4` or a limit of
    Kubernetes it sees all of the machine's: they use the quota up and all are stopped together.
    """
    global limited
    if "torch" not in sys.modules and COUNT not in os.environ and cores() < visible_cores():
        os.environ[COUNT] = str(cores())
        limited = True


def leave_to_jobs() -> None:
    """Take this machine's quota out of what jobs of a cluster inherit: theirs is another."""
    if limited:
        os.environ.pop(COUNT, None)


def visible_cores() -> int:
    """Return the number of cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cores() -> int:
    """Return how many of the cores this process may use at a time, in whole ones."""
    try:
        with open(QUOTA, encoding="ascii") as file:  # noqa: PTH123 - a kernel file, not a path of ours
            time, period = map(int, file.read().split())
    except (OSError, ValueError):  # no container, or "max"
        return visible_cores()
    return max(1, min(visible_cores(), time // period))
