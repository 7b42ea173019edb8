import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dill
import pytest
from datatrove.executor import ray as ray_module
from datatrove.executor import slurm as slurm_module

from lingraft.corpus.engine import job
from lingraft.corpus.engine.job import Cluster
from lingraft.errors import DataError, RecipeError
from lingraft.recipe import Corpus


@pytest.fixture
def section(sources: list[str]) -> Corpus:
    return Corpus(
        text=tuple(sources), valid=0.1, test=0.1, near_duplicates=True, max_train_sentences=100
    )


SLURM = Cluster("slurm", 8, {"partition": "cpu", "time": "2:00:00", "mem_per_cpu_gb": 4})


@pytest.mark.slow
def test_slurm_gets_a_chain_of_jobs_whose_tasks_make_the_corpus(
    tmp_path: Path, section: Corpus, monkeypatch: pytest.MonkeyPatch
):
    """A fake sbatch; then the tasks are run from the pickled executors, as its jobs would."""
    scripts: list[tuple[str, tuple[str, ...]]] = []

    def sbatch(script: str, retriever: Any, *arguments: str) -> str:
        scripts.append((script, arguments))
        return str(100 + len(scripts))

    monkeypatch.setattr(slurm_module, "launch_slurm_job", sbatch)
    monkeypatch.setattr(slurm_module, "expand_slurm_nodelist", lambda nodes: [nodes])
    monkeypatch.setenv("SLURM_NODELIST", "node")
    out = tmp_path / "out"
    chosen = job.Settings(SLURM, 4_000)
    assert job.make(section, "ko", out, chosen) is None
    jobs = [script for script, _ in scripts if "launch_pickled_pipeline" in script]
    names = ("clean", "decide", "write")
    for name, script in zip(names, jobs, strict=True):
        assert f"#SBATCH --job-name=lingraft-{name}\n" in script
    assert "#SBATCH --array=0-11%8" in jobs[0]
    assert all("#SBATCH --partition=cpu" in script for script in jobs)
    waits = [" ".join(arguments) for script, arguments in scripts if script in jobs]
    assert "dependency" not in waits[0]
    assert all("--dependency=afterok:" in wait for wait in waits[1:])
    for name in names:
        with (out / "work/logs" / name / "executor.pik").open("rb") as file:
            executor = dill.load(file)
        for rank in range(executor.world_size):
            executor._run_for_rank(rank)
    whole = job.make(section, "ko", tmp_path / "here", job.Settings(part_bytes=4_000))
    assert job.make(section, "ko", out, chosen) == whole
    for path in (tmp_path / "here").rglob("*.jsonl"):
        assert (out / path.relative_to(tmp_path / "here")).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("slurm", {"time": "1:00:00"}, "--executor slurm: needs executor.partition"),
        (
            "slurm",
            {"partiton": "cpu"},
            "executor.partiton is none of its options",
        ),
        ("ray", {"logging_dir": "x"}, "--executor ray: executor.logging_dir is none"),
    ],
)
def test_options_of_a_cluster_are_checked(
    tmp_path: Path, section: Corpus, kind: Any, options: dict[str, Any], message: str
):
    chosen = job.Settings(Cluster(kind, None, options))
    with pytest.raises(RecipeError, match=message):
        job.make(section, "ko", tmp_path / "out", chosen)


def test_ray_that_is_not_installed_is_one_line(tmp_path: Path, section: Corpus, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(DataError, match=r"ray: needs the package ray; run: .*lingraft\[ray\]"):
        job.make(section, "ko", tmp_path / "out", job.Settings(Cluster("ray")))


@pytest.mark.parametrize("cluster", [SLURM, Cluster("ray")])
def test_no_job_inherits_a_secret_and_ray_listens_here_alone(
    tmp_path: Path, section: Corpus, monkeypatch: pytest.MonkeyPatch, cluster: Cluster
):
    seen: list[dict[str, str]] = []
    started: list[dict[str, Any]] = []
    for module, name in ((ray_module, "Ray"), (slurm_module, "Slurm")):
        monkeypatch.setattr(
            getattr(module, f"{name}PipelineExecutor"), "run", lambda _: seen.append({**os.environ})
        )
    ray = SimpleNamespace(is_initialized=bool, init=lambda **asked: started.append(asked))
    monkeypatch.setitem(sys.modules, "ray", ray)
    for name in ("HF_TOKEN", "WANDB_API_KEY", "TOKENIZERS_PARALLELISM"):
        monkeypatch.setenv(name, "false")
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    assert job.make(section, "ko", tmp_path / "out", job.Settings(cluster)) is None
    (environment,) = seen
    assert not {"HF_TOKEN", "WANDB_API_KEY"} & environment.keys()
    assert "TOKENIZERS_PARALLELISM" in environment
    assert os.environ["HF_TOKEN"] == "false"
    assert started == ([{"include_dashboard": False}] if cluster.kind == "ray" else [])
