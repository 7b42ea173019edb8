"""The folder of a corpus: what is refused, what is deleted, and what stays."""

import shutil
from pathlib import Path

import pytest
from corpus_jobs import Killed, corpus, die_at, made, settings, text

from lingraft.corpus.engine import plan as planning
from lingraft.errors import DataError


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
