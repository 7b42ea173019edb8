"""A corpus part by part: the same however it is cut or killed; and its folder."""

import errno
import functools
import logging
import multiprocessing
import os
import random
import shutil
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dill
import pytest
from corpus_jobs import Killed, corpus, die_at, documents, made, settings, text
from datatrove.executor import ray as ray_module, slurm as slurm_module

from lingraft.corpus import stage
from lingraft.corpus.engine import decisions, job, passes, plan as planning
from lingraft.corpus.readers import documents as readers
from lingraft.corpus.split import SPLITS
from lingraft.errors import DataError, RecipeError
from lingraft.recipe import Corpus

WORDS = ["사람", "학교", "바다", "하늘", "책상", "나무", "구름", "시간", "마음", "노래", "도시"]


def parts_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """An entry for each part that is read from here on."""
    read: list[int] = []
    original = passes._documents

    def counted(*arguments: Any) -> Any:
        read.append(1)
        yield from original(*arguments)

    monkeypatch.setattr(passes, "_documents", counted)
    return read


def of_stage(section: Corpus, out: Path) -> tuple[dict[str, Any], dict[str, str]]:
    out.mkdir()
    result = stage.prepare(section, "ko", out)
    return result, {split: (out / f"{split}.txt").read_text() for split in SPLITS}


@pytest.mark.parametrize("changes", [{}, {"near_duplicates": True}, {"deduplicate": False}])
def test_the_corpus_is_that_of_the_stage_however_it_is_cut(
    tmp_path: Path, sources: list[str], monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
):
    section = corpus(sources, **changes)
    expected, sentences = of_stage(section, tmp_path / "stage")
    for part_bytes in (2_500, 10**9):
        monkeypatch.setattr(decisions, "AT_ONCE", part_bytes // 50)
        result = made(section, tmp_path / str(part_bytes), settings(part_bytes))
        assert text(tmp_path / str(part_bytes)) == sentences
        assert {key: result[key] for key in expected} == expected
        assert (result["parts"] == 1) == (part_bytes == 10**9)


def test_a_corpus_shows_what_was_dropped_from_it(
    tmp_path: Path, sources: list[str], caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.DEBUG, logger="lingraft"):
        result = made(corpus(sources, near_duplicates=True), tmp_path / "out")
    assert "left out: broken JSON: broken" in caplog.text
    assert result["samples"]["wrong script"] == ["All of this is English."]
    assert all(1 <= len(texts) <= 3 for texts in result["samples"].values())
    assert {"duplicate", "near duplicate", "broken JSON"} <= set(result["samples"])
    assert set(result["letters_by_script"]) == {"Hang"}


@pytest.mark.parametrize(
    ("function", "call"), [("_documents", 4), ("_kept", 4), ("write_json", 3), ("Decider", 1)]
)
def test_a_killed_run_goes_on_without_losing_or_repeating_anything(
    tmp_path: Path, sources: list[str], monkeypatch: pytest.MonkeyPatch, function: str, call: int
):
    section = corpus(sources, near_duplicates=True)
    expected = made(section, tmp_path / "whole")
    with monkeypatch.context() as patch:
        where = decisions if function == "Decider" else passes
        patch.setattr(where, function, die_at(call, getattr(where, function)))
        with pytest.raises(Killed):
            made(section, tmp_path / "out")
    assert not (tmp_path / "out" / "corpus.json").exists()
    cleaned = len(list((tmp_path / "out/work/parts").glob("*.json")))
    read = parts_read(monkeypatch)
    assert made(section, tmp_path / "out") == expected
    assert text(tmp_path / "out") == text(tmp_path / "whole")
    assert len(read) == expected["parts"] - cleaned
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        ".lock", "corpus.json", "test", "train", "valid",
    ]  # fmt: skip
    assert not list((tmp_path / "out").rglob("*.partial"))
    assert made(section, tmp_path / "out") == expected
    assert len(read) == expected["parts"] - cleaned


def test_a_full_disk_is_one_line_and_keeps_the_parts_that_are_done(
    tmp_path: Path, sources: list[str], monkeypatch: pytest.MonkeyPatch
):
    section = corpus(sources)
    save, calls = passes.np.save, 0

    def full(path: Path, array: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        save(path, array)

    with monkeypatch.context() as patch:
        patch.setattr(passes.np, "save", full)
        with pytest.raises(DataError, match="No space left on device; make room, then run the"):
            made(section, tmp_path / "out")
    assert len(list((tmp_path / "out/work/parts").glob("*.json"))) == 2
    assert made(section, tmp_path / "out") == made(section, tmp_path / "other")


@pytest.mark.parametrize("processes", [1, 2])
def test_a_broken_file_that_is_replaced_costs_nothing_of_what_is_done(
    tmp_path: Path, sources: list[str], monkeypatch: pytest.MonkeyPatch, processes: int
):
    dump = Path(sources[2])
    whole = dump.read_bytes()
    dump.write_bytes(whole[:-200])
    with pytest.raises(DataError, match=r"kowiki.xml.bz2: .*cut short"):
        made(corpus(sources), tmp_path / "out", settings(20_000, processes))
    done = len(list((tmp_path / "out/work/parts").glob("*.json")))
    dump.write_bytes(whole)
    read = parts_read(monkeypatch)
    result = made(corpus(sources), tmp_path / "out", settings(20_000, processes))
    assert processes == 2 or len(read) == result["parts"] - done < result["parts"]
    assert made(corpus(sources), tmp_path / "straight", settings(20_000)) == result
    assert text(tmp_path / "out") == text(tmp_path / "straight")


def test_a_worker_that_is_killed_ends_the_run_with_one_line(
    tmp_path: Path, sources: list[str], monkeypatch: pytest.MonkeyPatch
):
    spawn = multiprocessing.get_context("spawn")
    dying = functools.partial(ProcessPoolExecutor, 2, spawn, os._exit, (1,))
    monkeypatch.setattr(job, "pool", lambda _: dying())
    with pytest.raises(DataError, match=r"a worker process was killed.*fewer --jobs"):
        made(corpus(sources), tmp_path / "out", settings(processes=2))


def test_a_finished_corpus_goes_into_a_run_as_it_is_or_a_part_of_it(
    tmp_path: Path, sources: list[str], monkeypatch: pytest.MonkeyPatch
):
    """Places of sentences count before anything is left out, so the order is that of the stage."""
    part = {"near_duplicates": True, "max_train_sentences": 60}
    expected = of_stage(corpus(sources, **part), tmp_path / "stage")
    section = corpus(sources, near_duplicates=True)
    result = made(section, tmp_path / "corpus")
    monkeypatch.setattr(readers, "read", None)
    again = Corpus(text=(str(tmp_path / "corpus"),))
    taken, sentences = of_stage(again, tmp_path / "run")
    assert sentences == text(tmp_path / "corpus")
    assert taken == {key: result[key] for key in taken}
    again = Corpus(text=(str(tmp_path / "corpus"),), max_train_sentences=60)
    taken, sentences = of_stage(again, tmp_path / "part")
    assert sentences == expected[1]
    assert taken["subset"] == expected[0]["subset"]
    assert taken["splits"] == expected[0]["splits"]


def test_a_finished_corpus_that_was_made_in_another_way_is_refused(
    tmp_path: Path, sources: list[str]
):
    evaluation = tmp_path / "evaluation.txt"
    evaluation.write_text("그런 문장은 어디에도 없다\n")
    made(corpus(sources, decontaminate=(str(evaluation),)), tmp_path / "corpus")
    folder, moved = str(tmp_path / "corpus"), evaluation.rename(tmp_path / "moved.txt")
    section = Corpus(text=(folder,), decontaminate=(str(moved),))
    assert stage.finished_corpus(section, "ko") == tmp_path / "corpus"
    moved.write_text("다른 문장\n")
    for changes, message in (
        ({"decontaminate": (str(moved),)}, "made with another corpus.decontaminate"),
        ({"min_characters": 40}, "made with another corpus.min_characters; leave that out"),
        ({"text": (folder, sources[1])}, "must be the only text"),
    ):
        with pytest.raises(DataError, match=message):
            stage.finished_corpus(Corpus(**{"text": (folder,), **changes}), "ko")
    with pytest.raises(DataError, match="another language"):
        stage.finished_corpus(Corpus(text=(folder,)), "en")
    min((tmp_path / "corpus" / "train").iterdir()).unlink()
    for most in (None, 20):
        (tmp_path / f"run-{most}").mkdir()
        section = Corpus(text=(folder,), max_train_sentences=most)
        with pytest.raises(DataError, match=r"train: holds \d+ sentences, and corpus.json says"):
            stage.prepare(section, "ko", tmp_path / f"run-{most}")


def test_no_split_holds_a_near_duplicate_of_anothers_document(tmp_path: Path):
    """A source is nearly the other one, line by line; each line is a document."""
    rng = random.Random(3)
    lines = [[rng.choice(WORDS) for _ in range(60)] for _ in range(40)]
    for name, end in (("a", "끝."), ("b", "그리고 끝.")):
        (tmp_path / f"{name}.txt").write_text("".join(" ".join(w) + f" {end}\n" for w in lines))
    names = [str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]
    for near in (False, True):
        section = corpus(names, valid=0.3, test=0.3, near_duplicates=near, split_sentences=False)
        made(section, tmp_path / str(near))
        sides: dict[str, set[str]] = {}
        for split in SPLITS:
            for row in documents(tmp_path / str(near), split):
                sides.setdefault(" ".join(row["text"].split()[:60]), set()).add(split)
        assert len(sides) == 40
        assert any(len(found) > 1 for found in sides.values()) != near


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("thesis.tex", "x"),
        ("corpus.json", '{"name": "mine"}'),
        ("work/notes.txt", "x"),
        ("work/plan.json", "[]"),
        ("train/mine.jsonl", '{"text": "x"}\n'),
    ],
)
def test_a_folder_of_other_things_is_refused_and_left_as_it_is(
    tmp_path: Path, sources: list[str], name: str, content: str
):
    out = tmp_path / "out"
    (out / name).parent.mkdir(parents=True)
    (out / name).write_text(content)
    before = contents(out)
    for force in (False, True):
        with pytest.raises(DataError, match="holds no corpus of lingraft"):
            made(corpus(sources), out, settings(force=force))
    assert contents(out) == before


def test_a_source_inside_the_corpus_is_never_replaced(tmp_path: Path, sources: list[str]):
    out = tmp_path / "out"
    made(corpus(sources), out)
    before = text(out)
    for force in (False, True):
        with pytest.raises(DataError, match=r"00000\.jsonl: is a source inside .*another --out"):
            made(corpus([str(out / "train/00000.jsonl")]), out, settings(force=force))
    assert text(out) == before


@pytest.mark.parametrize("call", range(1, 5))
def test_another_corpus_is_replaced_by_force_alone_and_by_a_kill_not_lost(
    tmp_path: Path, sources: list[str], monkeypatch: pytest.MonkeyPatch, call: int
):
    out, other = tmp_path / "out", corpus(sources, min_characters=40, valid=0)
    made(corpus(sources), out)
    before = text(out)
    with pytest.raises(DataError, match=r"of other sources or settings.*--force"):
        made(other, out)
    assert text(out) == before
    with monkeypatch.context() as patch:
        patch.setattr(planning.shutil, "rmtree", die_at(call, shutil.rmtree))
        with pytest.raises(Killed):
            made(other, out, settings(force=True))
    assert made(other, out, settings(force=True)) == made(other, tmp_path / "straight")
    assert text(out) == text(tmp_path / "straight")
    assert not list(out.glob("valid/*"))


OPTIONS: dict[str, Any] = {"partition": "cpu", "time": "2:00:00", "mem_per_cpu_gb": 4}
SLURM = job.JobSettings("slurm", 8, OPTIONS, 4_000)


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
        job.make(section, "ko", tmp_path / "out", job.JobSettings("slurm", None, options))


def test_ray_listens_here_alone_and_gets_no_secret(tmp_path, section, monkeypatch):
    seen: list[dict[str, str]] = []
    monkeypatch.setattr(
        ray_module.RayPipelineExecutor, "run", lambda _: seen.append({**os.environ})
    )
    ray = SimpleNamespace(is_initialized=lambda: True)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    assert job.make(section, "ko", tmp_path / "out", job.JobSettings("ray")) is None
    assert "HF_TOKEN" not in seen[0]
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(DataError, match=r"needs the package ray; run: .*lingraft\[ray\]"):
        job.make(section, "ko", tmp_path / "other", job.JobSettings("ray"))
