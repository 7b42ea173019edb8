"""Processes of their own, forked from a server that has loaded torch and lingraft once."""

import multiprocessing
import os
import runpy
import sys
from pathlib import Path

import pytest

NAMES = ("cli.app", "pipeline.adapt", "pipeline.standalone", "finetuning.run")
PRELOADED = [f"lingraft.{name}" for name in NAMES]


def forked(script, *job):
    """Start a script of tests; what it finds as `JOB` under the name "forked" is `job`.

    Returns:
        The process, which has been started.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=runpy.run_path, args=(str(script), {"JOB": job}, "forked"))
    with pytest.MonkeyPatch.context() as patch:  # the server keeps the variables of its start
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("HF_HUB_OFFLINE", "1")
        process.start()
    return process


def write_output_to(path):
    """Send what this process says, its libraries too, to a file."""
    with Path(path).open("w", encoding="utf-8") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
