"""The folder of a corpus: what is refused, what is deleted, and what stays."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from corpus_jobs import Killed, corpus, die_at, made, settings, text

from lingraft.corpus.engine import plan as planning
from lingraft.corpus.engine import steps
from lingraft.errors import DataError

PAGE = '<!doctype html>\n<meta name="generator" content="lingraft">\n'


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def leave_unfinished(out: Path, sources: list[str], **changes: Any) -> None:
    """A job that is killed when it has written two shards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps.Write, "run", die_at(3, steps.Write.run))
        with pytest.raises(Killed):
            made(corpus(sources, **changes), out)
    assert list(out.glob("work/train/*.jsonl"))


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


def test_files_of_the_user_are_never_overwritten_as_shards(tmp_path: Path, sources: list[str]):
    (tmp_path / "out" / "train").mkdir(parents=True)
    own = tmp_path / "out" / "train" / "mine.jsonl"
    own.write_text('{"text": "x"}\n')
    for force in (False, True):
        with pytest.raises(DataError, match=r"holds no corpus of lingraft|is no shard"):
            made(corpus(sources), tmp_path / "out", settings(force=force))
    assert own.is_file()


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


def test_a_source_inside_the_corpus_is_never_replaced(tmp_path: Path, sources: list[str]):
    out = tmp_path / "out"
    made(corpus(sources), out)
    before = text(out)
    inside = corpus([str(out / "train" / "00000.jsonl")])
    for force in (False, True):
        with pytest.raises(DataError, match=r"00000\.jsonl: is a source inside .*another --out"):
            made(inside, out, settings(force=force))
    assert text(out) == before


@pytest.mark.parametrize("call", range(1, 5))
def test_a_kill_while_one_corpus_takes_the_place_of_another_loses_nothing(
    tmp_path: Path, sources: list[str], monkeypatch: pytest.MonkeyPatch, call: int
):
    out, other = tmp_path / "out", corpus(sources, min_characters=40)
    made(corpus(sources), out)
    with monkeypatch.context() as patch:
        patch.setattr(planning.shutil, "rmtree", die_at(call, shutil.rmtree))
        with pytest.raises(Killed):
            made(other, out, settings(force=True))
    expected = made(other, tmp_path / "straight")
    assert made(other, out, settings(force=True)) == expected
    assert text(out) == text(tmp_path / "straight")


def test_an_unfinished_corpus_gives_way_unless_a_cluster_may_be_at_work(
    tmp_path: Path, sources: list[str]
):
    out, other = tmp_path / "out", corpus(sources, min_characters=40)
    leave_unfinished(out, sources)
    log = out / "work" / "logs" / "clean" / "executor.pik"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"")
    with pytest.raises(DataError, match="of other sources or settings"):
        made(other, out, settings(20_000))
    log.unlink()
    assert made(other, out, settings(20_000)) == made(other, tmp_path / "new", settings(20_000))
    assert text(out) == text(tmp_path / "new")
