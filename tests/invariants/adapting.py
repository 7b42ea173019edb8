"""One process of a distributed `lingraft adapt`, for each way to divide the weights.

`adapting.py FOLDER ARGUMENTS…` runs `lingraft ARGUMENTS… --out FOLDER/SHARDING`. A process that is
not the first fails if Python opened, made, moved or deleted anything for writing in FOLDER.
"""

import faulthandler
import os
import sys

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate"}


def watch(folder):
    """What this process changes in a folder from now on."""
    found = []

    def hook(event, arguments):
        writes = event in CHANGES or (event == "open" and arguments[2] & WRITING)
        if writes and str(arguments[0]).startswith(folder):
            found.append((event, arguments))

    sys.addaudithook(hook)
    return found


def main(folder, *arguments):
    from lingraft.cli import app as cli

    faulthandler.dump_traceback_later(240, exit=True)  # torchrun then ends its peer
    first = os.environ["RANK"] == "0"
    changed = watch(folder)
    for sharding in ("none", "fsdp2"):
        out = f"{folder}/{sharding}"
        sys.argv = ["lingraft", *arguments, "--out", out, f"hardware.sharding={sharding}"]
        try:
            cli.main()
        except SystemExit as ended:
            if ended.code:
                raise
    assert bool(changed) is first, changed


if __name__ == "__main__":
    main(*sys.argv[1:])
