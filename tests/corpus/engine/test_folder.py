"""The folder of a corpus: what is refused, what is deleted, and what stays."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from corpus_jobs import Killed, corpus, die_at, made, settings, text

from lingraft.corpus.engine import job, parts, shards
from lingraft.corpus.engine import plan as planning
from lingraft.errors import DataError

PAGE = '<!doctype html>\n<meta name="generator" content="lingraft">\n'


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def leave_unfinished(out: Path, sources: list[str], **changes: Any) -> None:
    """A job that is killed when it has written two shards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "write", die_at(3, shards.write))
        with pytest.raises(Killed):
            made(corpus(sources, **changes), out)
    assert list(out.glob("train/*.jsonl"))


def test_a_folder_with_another_corpus_is_left_alone_unless_it_may_be_overwritten(
    tmp_path: Path, sources: list[str]
):
    made(corpus(sources), tmp_path / "out")
    before = text(tmp_path / "out")
    other = corpus(sources, min_characters=40)
    with pytest.raises(DataError, match=r"of other sources or settings.*--force"):
        made(other, tmp_path / "out")
    assert text(tmp_path / "out") == before
    made(other, tmp_path / "out", settings(force=True))
    assert text(tmp_path / "out") != before


def test_a_corpus_that_was_moved_with_its_evaluations_is_the_same(
    tmp_path: Path, sources: list[str]
):
    (tmp_path / "out" / "evaluations").mkdir(parents=True)
    (tmp_path / "out" / "evaluations" / "task.txt").write_text("그런 문장은 어디에도 없다\n")
    made(corpus(sources, decontaminate=(str(tmp_path / "out" / "evaluations"),)), tmp_path / "out")
    moved = (tmp_path / "out").rename(tmp_path / "moved")
    before = contents(moved)
    made(corpus(sources, decontaminate=(str(moved / "evaluations"),)), moved)
    assert contents(moved) == before


def test_an_unfinished_corpus_goes_on_where_all_was_moved(
    tmp_path: Path, sources: list[str], monkeypatch: pytest.MonkeyPatch
):
    place = tmp_path / "place"
    place.mkdir()
    shutil.copytree(tmp_path / "sources", place / "sources")
    (place / "task.txt").write_text("그런 문장은 어디에도 없다\n")
    monkeypatch.chdir(place)
    changes: dict[str, Any] = {"decontaminate": ("task.txt",)}
    write, cleaned = parts.write, []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "write", die_at(3, parts.write))
        with pytest.raises(Killed):
            made(corpus(["sources"], **changes), Path("out"))
    done = {path.name for path in Path("out/work/parts").iterdir()}
    monkeypatch.chdir(place.rename(tmp_path / "moved"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "write", lambda *args: cleaned.append(args[3].name) or write(*args))
        made(corpus(["sources"], **changes), Path("out"))
    assert done
    assert not done.intersection(cleaned)
    made(corpus(["sources"], **changes), tmp_path / "straight")
    assert text(Path("out")) == text(tmp_path / "straight")


def test_shards_that_belong_to_no_corpus_are_not_read_with_the_new_one(
    tmp_path: Path, sources: list[str]
):
    out = tmp_path / "out"
    made(corpus(sources), out)
    (out / "corpus.json").unlink()
    other = corpus(sources, min_characters=40)
    with pytest.raises(DataError, match=r"00000\.jsonl: belongs to no finished corpus"):
        made(other, out)
    made(other, out, settings(part_bytes=1_000_000, force=True))
    assert all(len(line) >= 40 for line in text(out)["train"].splitlines())


def test_files_of_the_user_are_never_overwritten_as_shards(tmp_path: Path, sources: list[str]):
    (tmp_path / "out" / "train").mkdir(parents=True)
    own = tmp_path / "out" / "train" / "mine.jsonl"
    own.write_text('{"text": "x"}\n')
    for force in (False, True):
        with pytest.raises(DataError, match=r"mine\.jsonl: belongs to no finished corpus"):
            made(corpus(sources), tmp_path / "out", settings(force=force))
    assert own.is_file()


@pytest.mark.parametrize("name", ["clear_work", "clear_partial", "remove_work"])
def test_deleting_an_old_corpus_may_be_interrupted(
    tmp_path: Path, sources: list[str], monkeypatch: pytest.MonkeyPatch, name: str
):
    out = tmp_path / "out"
    leave_unfinished(out, sources)
    other = corpus(sources, min_characters=40)
    with monkeypatch.context() as patch:
        patch.setattr(planning.Folder, name, die_at(1, getattr(planning.Folder, name)))
        with pytest.raises(Killed):
            made(other, out, settings(force=True))
    made(other, out, settings(part_bytes=1_000_000, force=True))
    assert all(len(line) >= 40 for line in text(out)["train"].splitlines())


@pytest.mark.parametrize("call", range(1, 5))
def test_a_job_goes_on_where_the_deletion_of_its_work_was_killed(
    tmp_path: Path, sources: list[str], monkeypatch: pytest.MonkeyPatch, call: int
):
    """It must not miss a shard that is said to be written, or half of a part."""
    out, section = tmp_path / "out", corpus(sources)
    expected = made(section, tmp_path / "whole")
    leave_unfinished(out, sources)
    rmtree, calls = shutil.rmtree, 0

    def half(folder: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            next(path for path in sorted(folder.rglob("*")) if path.is_file()).unlink()
            raise Killed
        rmtree(folder)

    with monkeypatch.context() as patch:
        if call < 4:
            patch.setattr(planning.shutil, "rmtree", half)
        else:
            patch.setattr(planning.Folder, "remove_work", die_at(1, planning.Folder.remove_work))
        with pytest.raises(Killed):
            made(section, out, settings(force=True))
    assert made(section, out) == expected
    assert text(out) == text(tmp_path / "whole")
    assert not list(out.rglob("*.partial"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("thesis.tex", "x"),
        ("corpus.json", '{"name": "mine"}'),
        ("corpus.json", "mine"),
        ("work/notes.txt", "x"),
        ("work/plan.json", "[]"),
        ("report.html", "<p>mine"),
        ("train", "x"),
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


def test_what_a_corpus_may_find_in_its_folder_is_no_other_thing(tmp_path: Path, sources: list[str]):
    """The texts of tasks, the page of a corpus that was deleted, empty folders."""
    out = tmp_path / "out"
    for name in ("evaluations", "train", "work"):
        (out / name).mkdir(parents=True)
    (out / "evaluations" / "nsmc.json").write_text("[]")
    (out / "report.html").write_text(PAGE)
    assert made(corpus(sources), out)["documents"] > 0
    assert (out / "evaluations" / "nsmc.json").is_file()


def test_files_of_others_beside_a_corpus_are_not_deleted_with_it(
    tmp_path: Path, sources: list[str]
):
    out = tmp_path / "out"
    made(corpus(sources), out)
    others = [out / name for name in ("notes.txt", "half.partial", "mine/a.partial", "train/.mine")]
    for path in others:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    made(corpus(sources, min_characters=40), out, settings(force=True))
    assert [path.read_text() for path in others] == ["mine"] * len(others)
    (out / "work").mkdir()
    (out / "work" / "plan.json").write_text("{}")
    with pytest.raises(DataError, match="work: holds files that are not lingraft's"):
        made(corpus(sources), out, settings(force=True))
    assert (out / "corpus.json").is_file()
    assert (out / "work" / "plan.json").read_text() == "{}"


def test_a_source_inside_the_corpus_is_never_replaced(tmp_path: Path, sources: list[str]):
    out = tmp_path / "out"
    made(corpus(sources), out)
    before = text(out)
    inside = corpus([str(out / "train" / "00000.jsonl")])
    for force in (False, True):
        with pytest.raises(DataError, match=r"00000\.jsonl: is a source inside .*another --out"):
            made(inside, out, settings(force=force))
    assert text(out) == before


def test_what_tasks_of_a_cluster_have_half_written_stays_until_all_is_done(
    tmp_path: Path, sources: list[str], monkeypatch: pytest.MonkeyPatch
):
    out = tmp_path / "out"
    leave_unfinished(out, sources)
    log = out / "work" / "logs" / "clean" / "executor.pik"
    log.parent.mkdir()
    log.write_bytes(b"")
    half = [out / "work" / "parts" / "00000.1.partial", out / "train" / ".00000.jsonl.1.partial"]
    half[0].mkdir()
    half[1].touch()
    monkeypatch.setattr(job, "_hand_over", lambda *arguments: None)
    chosen = job.Settings(job.Cluster("slurm"), settings().part_bytes)
    assert job.make(corpus(sources), "ko", out, chosen) is None
    assert all(path.exists() for path in half)
    made(corpus(sources), out)
    assert not any(path.exists() for path in half)


def test_a_part_that_another_task_has_made_meanwhile_is_no_error(tmp_path: Path):
    """A second call while a cluster is at work starts tasks twice, and so may its scheduler."""
    part = tmp_path / "part"
    with parts.fresh_folder(part) as partial:
        (partial / "ours").touch()
        part.mkdir()
        (part / "theirs").touch()
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == [
        "part",
        "part/theirs",
    ]


def test_a_task_that_comes_when_all_is_done_does_nothing(tmp_path: Path, sources: list[str]):
    made(corpus(sources), tmp_path / "out")
    before = contents(tmp_path / "out")
    job.run_task(planning.Folder(tmp_path / "out"), "clean", 0)
    assert contents(tmp_path / "out") == before


def test_an_unfinished_corpus_gives_way_unless_a_cluster_may_be_at_work(
    tmp_path: Path, sources: list[str]
):
    out, other = tmp_path / "out", corpus(sources, min_characters=40)
    leave_unfinished(out, sources)
    log = out / "work" / "logs" / "clean" / "executor.pik"
    log.parent.mkdir()
    log.write_bytes(b"")
    with pytest.raises(DataError, match="of other sources or settings"):
        made(other, out, settings(20_000))
    shutil.rmtree(log.parent)
    assert made(other, out, settings(20_000)) == made(other, tmp_path / "new", settings(20_000))
    assert text(out) == text(tmp_path / "new")
