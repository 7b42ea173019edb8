"""Slurm's commands as scripts that start jobs on this machine, at once and without limits."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SBATCH = """#!/bin/sh
number=$(( $(cat count 2>/dev/null || echo 0) + 1 ))
echo $number > count
cat > $number.sh
if grep -q -- --partition=none $number.sh; then
  echo "sbatch: error: invalid partition specified: none" >&2
  exit 1
fi
# As sbatch reads a line: cut at spaces and #, without quotes and backslashes.
eval "log=$(sed -n 's/^#SBATCH --output=//p' $number.sh)"
eval "where=$(sed -n 's/^#SBATCH --chdir=//p' $number.sh)"
script=$PWD/$number.sh
(cd "$where" && exec setsid sh "$script") >>"$log" 2>&1 </dev/null &
echo $! > $number.pid
echo "$number;fake"
"""
SQUEUE = """#!/bin/sh
for file in *.pid; do
  grep -qs '^State:[[:space:]]*[^Z]' /proc/$(cat $file)/status && echo ${file%.pid}
done
exit 0
"""
SCANCEL = """#!/bin/sh
case "$*" in
  *PENDING*) exit 0 ;;
  *TERM*) wish=TERM ;;
  *) wish=KILL ;;
esac
for job; do :; done
kill -$wish $(cat $job.pid)
"""
SACCT = "#!/bin/sh\necho OUT_OF_MEMORY\n"


class FakeSlurm:
    """A folder on the path."""

    def __init__(self, folder: Path, monkeypatch) -> None:
        self.folder = folder
        folder.mkdir()
        scripts = {"sbatch": SBATCH, "squeue": SQUEUE, "scancel": SCANCEL, "sacct": SACCT}
        for name, text in scripts.items():
            path = folder / name
            path.write_text(text.replace("#!/bin/sh\n", f"#!/bin/sh\ncd {folder}\n", 1))
            path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    @property
    def submitted(self) -> int:
        """How many jobs there were."""
        count = self.folder / "count"
        return int(count.read_text()) if count.is_file() else 0

    def kill(self, job: str) -> None:
        """End a job as Slurm does when its memory is over."""
        os.kill(int((self.folder / f"{job}.pid").read_text()), signal.SIGKILL)
