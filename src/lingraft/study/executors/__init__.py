"""Who runs a study's cells: processes of this machine, or jobs of Slurm.

An executor is a `Start` of `study.processes`: it is given a cell's folder and returns a handle that
is asked now and then whether it has ended. Everywhere a cell is the same command on the same
folder, and the study's own process alone writes results.jsonl, from what lies in the folders. So
two cells never write one file, and a cell goes on from its checkpoint on whichever machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft import threads
from lingraft.errors import RecipeError
from lingraft.study import processes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lingraft.study.processes import Start

EXECUTORS = ("local", "slurm")


def check_named(
    kind: str, options: Mapping[str, object], executors: Sequence[str] = EXECUTORS
) -> None:
    """Refuse an executor that is not known, and options of jobs where there are none.

    Raises:
        RecipeError: it is not, or there are.
    """
    if kind not in executors:
        raise RecipeError(
            f"--executor: must be {', '.join(executors[:-1])} or {executors[-1]}; got {kind}"
        )
    if kind == "local" and options:
        raise RecipeError(
            f"--executor-option {next(iter(options))}: is for jobs of a cluster; name it too "
            f"(--executor {' or '.join(executors[1:])})"
        )


def start_of(kind: str, options: Mapping[str, str]) -> Start:
    """How cells are started.

    Args:
        kind: of `EXECUTORS`.
        options: of every job: Slurm's (partition, time, gres).

    Raises:
        RecipeError: there is no such executor, or it has no such option.
        DataError: Slurm's commands are not here.
    """
    check_named(kind, options)
    if kind == "slurm":
        from lingraft.study.executors.slurm import Slurm

        threads.leave_to_jobs()
        return Slurm(options)
    return processes.start
