"""Worker processes end with the one that started them, also while they load what they need.

OpenMP's threads: what is said of them, unless the user has or torch is there already.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lingraft import processes
from lingraft.processes import COUNT

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")

WORKING = """
import os, time
from lingraft import processes
if __name__ == "__main__":
    pool = processes.pool(1)
    print(pool.submit(os.getpid).result(), flush=True)
    time.sleep(60)
"""
LOADING = """
import os, sys, time
from pathlib import Path
from lingraft import processes

class Slow:  # a task whose modules take a minute to load, and tell when they are being loaded
    def __reduce__(self):
        return exec, ("import os, time; print(os.getpid(), flush=True); time.sleep(60)",)

    def __call__(self):
        pass

if __name__ == "__main__":
    processes.pool(1).submit(Slow())
    time.sleep(60)
"""

INTERRUPTED = """
import os, sys, time
from lingraft import processes
if __name__ == "__main__":
    pool = processes.pool(2)
    tasks = [pool.submit(time.sleep, 60) for _ in range(8)]
    if "working" in sys.argv:
        time.sleep(3)
    print(os.getpid(), flush=True)
    try:
        tasks[0].result()
    except KeyboardInterrupt:
        pool.shutdown(cancel_futures=True)
        sys.exit(130)
"""


def runs(number):
    """Whether a process is there and is no zombie."""
    try:
        stat = Path(f"/proc/{number}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


@linux
@pytest.mark.parametrize("script", [WORKING, LOADING], ids=["working", "loading a task"])
def test_workers_end_at_once_when_the_process_that_started_them_is_killed(script, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(script)
    with subprocess.Popen([sys.executable, path], stdout=subprocess.PIPE, text=True) as process:
        worker = int(process.stdout.readline())
        process.kill()
        process.wait()
    killed = time.monotonic()
    while runs(worker):
        if time.monotonic() > killed + 2:
            os.kill(worker, signal.SIGKILL)
            pytest.fail("the worker lived on")
        time.sleep(0.02)


@linux
@pytest.mark.parametrize("when", ["working", "starting"])
def test_ctrl_c_ends_workers_without_a_word(when, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(INTERRUPTED)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "start_new_session": True}
    process = subprocess.Popen([sys.executable, path, when], text=True, **pipes)
    with process:
        process.stdout.readline()
        time.sleep(0.3)  # it is about to wait for its workers
        os.killpg(process.pid, signal.SIGINT)
        try:
            said = process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # else the test would wait for it for ever
            raise
    assert (process.returncode, *said) == (130, "", "")


@pytest.fixture
def quota(monkeypatch, tmp_path):
    """A machine of eight cores, torch not loaded, nothing chosen: `quota(what cpu.max holds)`."""
    monkeypatch.setattr(processes, "visible_cores", lambda: 8)
    monkeypatch.setattr(processes, "QUOTA", str(tmp_path / "cpu.max"))
    monkeypatch.setattr(processes, "limited", False)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setenv(COUNT, "so that it is put back")
    monkeypatch.delenv(COUNT)
    return (tmp_path / "cpu.max").write_text


@pytest.mark.parametrize(
    ("says", "cores"),
    [("250000 100000", 2), ("50000 100000", 1), ("900000 100000", 8), ("max 100000", 8), ("", 8)],
)
def test_a_container_s_quota_counts_in_whole_cores(says, cores, quota):
    assert processes.cores() == 8  # there is no such file outside of containers
    quota(says)
    assert processes.cores() == cores
    processes.stay_within_quota()
    assert os.environ.get(COUNT) == (str(cores) if cores < 8 else None)
    assert processes.limited is (cores < 8)
