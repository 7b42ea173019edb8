"""Stops a step at each of its file operations, in processes of its own (test_rundir)."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import sys
from pathlib import Path

from lingraft.rundir import Step

EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"}


def build(step, inputs):
    """Make the step in one go."""
    if not step.is_kept(inputs, replace=True, mend=""):
        with step.building(inputs["fingerprint"]) as (folder, result):
            (folder / "data").write_text(inputs["fingerprint"])
            (folder / "more").mkdir()
            (folder / "more" / "data").write_text(inputs["fingerprint"])
            result["n"] = inputs["fingerprint"]


def grow(step, inputs):
    """Make the step in place, with a checkpoint on the way."""
    if not step.is_kept(inputs, replace=True, mend=""):
        step.begin(inputs)
        for number in range(3):
            place = step.path / f"checkpoint-{number}"
            if not place.is_dir():
                partial = step.path / "partial"
                partial.mkdir(exist_ok=True)
                (partial / "data").write_text(inputs["fingerprint"])
                partial.rename(place)
        step.finish(inputs["fingerprint"], {"n": inputs["fingerprint"]}, 1.0)


def worked(work, step, made_of, number=0, which=signal.SIGKILL):
    """Do the work in a process that gets a signal at a file operation; how the process ended."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    left = number

    def count(event, arguments):
        nonlocal left
        if event in EVENTS and str(step.path.parent) in str(arguments[0]):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), which)

    sys.addaudithook(count)
    with contextlib.suppress(KeyboardInterrupt):
        work(step, {"fingerprint": made_of, "seed": 1})
        os._exit(0)
    os._exit(130)


def whole(step):
    """What finished work is made of, its files too; 'half' where they are not, else ''."""
    made_of = step.fingerprint()
    if made_of is None:
        return ""
    files = [path.read_text() for path in step.path.rglob("data")]
    is_whole = set(files) == {made_of} and len(files) in (2, 3) and step.result() == {"n": made_of}
    return made_of if is_whole else "half"


def stopped(work, which, folder):
    """Put a step in the place of another, stopped at every file operation, and then once more.

    Returns:
        For each operation how the two processes ended, what stood then, and what stands at the end.
    """
    for number in itertools.count(1):
        step = Step(folder / str(number) / "step")
        step.path.parent.mkdir(parents=True)
        worked(work, step, "old")
        ends, states = [], []
        for again in (number, number // 2 + 1):
            ends.append(worked(work, step, "new", again, which))
            states.append(whole(step))
        if ends[0] == 0:
            return
        worked(work, step, "new")
        left = [path.name for path in step.path.parent.rglob("*") if "partial" in path.name]
        yield {"ends": ends, "states": states, "end": whole(step), "left": left}


if __name__ == "__main__":
    for work, which in itertools.product((build, grow), (2, 9, 15)):
        place = Path(sys.argv[1]) / f"{work.__name__}-{which}"
        found = list(stopped(work, which, place))
        print(json.dumps({"work": work.__name__, "signal": which, "found": found}))
