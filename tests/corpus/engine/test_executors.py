import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dill
import pytest
from corpus_jobs import settings
from datatrove.executor import ray as ray_module
from datatrove.executor import slurm as slurm_module

from lingraft.corpus.engine import job
from lingraft.errors import DataError, RecipeError
from lingraft.recipe import Corpus

OPTIONS: dict[str, Any] = {"partition": "cpu", "time": "2:00:00", "mem_per_cpu_gb": 4}
SLURM = job.Settings("slurm", 8, OPTIONS, 4_000)


@pytest.fixture
def section(sources: list[str]) -> Corpus:
    return Corpus(text=tuple(sources), valid=0.1, test=0.1, near_duplicates=True)


@pytest.mark.slow
def test_slurm_gets_a_chain_of_jobs_whose_tasks_make_the_corpus(
    tmp_path: Path, section: Corpus, monkeypatch: pytest.MonkeyPatch
):
    """A fake sbatch; then the tasks are run from the pickled executors, as its jobs would."""
    scripts: list[tuple[str, tuple[str, ...]]] = []
    monkeypatch.setenv("HF_TOKEN", "secret")

    def sbatch(script: str, retriever: Any, *arguments: str) -> str:
        assert "HF_TOKEN" not in os.environ
        scripts.append((script, arguments))
        return str(100 + len(scripts))

    monkeypatch.setattr(slurm_module, "launch_slurm_job", sbatch)
    monkeypatch.setattr(slurm_module, "expand_slurm_nodelist", lambda nodes: [nodes])
    monkeypatch.setenv("SLURM_NODELIST", "node")
    out = tmp_path / "out"
    assert job.make(section, "ko", out, SLURM) is None
    jobs = [script for script, _ in scripts if "launch_pickled_pipeline" in script]
    names = ("clean", "decide", "write")
    for name, script in zip(names, jobs, strict=True):
        assert f"#SBATCH --job-name=lingraft-{name}\n" in script
        assert "#SBATCH --partition=cpu" in script
    waits = [" ".join(arguments) for script, arguments in scripts if script in jobs]
    assert ["--dependency=afterok:" in wait for wait in waits] == [False, True, True]
    for name in names:
        with (out / "work/logs" / name / "executor.pik").open("rb") as file:
            executor = dill.load(file)
        for rank in range(executor.world_size):
            executor._run_for_rank(rank)
    whole = job.make(section, "ko", tmp_path / "here", settings(4_000))
    assert job.make(section, "ko", out, SLURM) == whole
    for path in (tmp_path / "here").rglob("*.jsonl"):
        assert (out / path.relative_to(tmp_path / "here")).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time": "1:00:00"}, "--executor slurm: .*'partition'"),
        (OPTIONS | {"partiton": "cpu"}, "unexpected keyword argument 'partiton'"),
    ],
)
def test_options_of_a_cluster_are_checked(tmp_path, section, options, message):
    with pytest.raises(RecipeError, match=message):
        job.make(section, "ko", tmp_path / "out", job.Settings("slurm", None, options))


def test_ray_listens_here_alone_and_gets_no_secret(tmp_path, section, monkeypatch):
    seen: list[dict[str, str]] = []
    monkeypatch.setattr(
        ray_module.RayPipelineExecutor, "run", lambda _: seen.append({**os.environ})
    )
    ray = SimpleNamespace(is_initialized=lambda: True)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    assert job.make(section, "ko", tmp_path / "out", job.Settings("ray")) is None
    assert "HF_TOKEN" not in seen[0]
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(DataError, match=r"needs the package ray; run: .*lingraft\[ray\]"):
        job.make(section, "ko", tmp_path / "other", job.Settings("ray"))
