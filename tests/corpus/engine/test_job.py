import errno
import functools
import gzip
import json
import logging
import multiprocessing
import os
import random
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from corpus_jobs import Killed, corpus, die_at, documents, made, settings, text

from lingraft.corpus import stage
from lingraft.corpus.engine import decisions, job, steps
from lingraft.corpus.readers import documents as readers
from lingraft.corpus.split import SPLITS
from lingraft.errors import DataError
from lingraft.recipe import Corpus, Repetition

WORDS = ["사람", "학교", "바다", "하늘", "책상", "나무", "구름", "시간", "마음", "노래", "도시"]
ALL_STEPS: dict[str, Any] = {
    "mask_personal_data": True,
    "repetition": Repetition(),
    "near_duplicates": True,
    "max_train_sentences": 150,
}


def sentence(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=12)) + "."


def parts_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """An entry for each part that is read from here on."""
    read: list[int] = []
    original = steps.Read.run

    def counted(self: steps.Read, *arguments: Any) -> Any:
        read.append(1)
        yield from original(self, *arguments)

    monkeypatch.setattr(steps.Read, "run", counted)
    return read


def of_stage(section: Corpus, out: Path) -> tuple[dict[str, Any], dict[str, str]]:
    out.mkdir()
    result = stage.prepare(section, "ko", out)
    return result, {split: (out / f"{split}.txt").read_text() for split in SPLITS}


@pytest.mark.parametrize("changes", [{}, ALL_STEPS, {"deduplicate": False}])
def test_the_corpus_is_that_of_the_stage_however_it_is_cut(
    tmp_path: Path, sources: list[str], changes: dict[str, Any]
):
    section = corpus(sources, **changes)
    expected, sentences = of_stage(section, tmp_path / "stage")
    for part_bytes in (2_500, 10**9):
        result = made(section, tmp_path / str(part_bytes), settings(part_bytes))
        assert text(tmp_path / str(part_bytes)) == sentences
        assert {key: result[key] for key in expected} == expected
        assert result["parts"] == {2_500: 19, 10**9: 1}[part_bytes]


@pytest.mark.slow
def test_two_processes_make_the_same_shards_as_one(tmp_path: Path, sources: list[str]):
    section = corpus(sources, **ALL_STEPS)
    one = made(section, tmp_path / "one", settings(20_000))
    two = made(section, tmp_path / "two", settings(20_000, processes=2))
    assert one == two
    for split in SPLITS:
        assert documents(tmp_path / "one", split) == documents(tmp_path / "two", split)


def test_what_is_known_of_a_document_stays_with_it(tmp_path: Path, sources: list[str]):
    result = made(corpus(sources, mask_personal_data=True), tmp_path / "out")
    found = {row["id"]: row for split in SPLITS for row in documents(tmp_path / "out", split)}
    assert found["kowiki:25"]["title"] == "25"
    assert found["kowiki:25"]["revision"] == 25
    assert found["mail"]["url"] == "http://a.kr/1"
    assert "<email>" in found["mail"]["text"]
    assert result["domains"] == {"a.kr": 1}
    assert result["changed"] == {"e-mail address": 1}


def test_the_buckets_of_hashes_change_nothing(
    tmp_path: Path, sources: list[str], monkeypatch: pytest.MonkeyPatch
):
    section = corpus(sources)
    one = made(section, tmp_path / "one")
    monkeypatch.setattr(decisions, "AT_ONCE", 50)
    assert made(section, tmp_path / "many") == one
    assert text(tmp_path / "many") == text(tmp_path / "one")


def test_a_shard_shows_what_was_dropped_from_it(
    tmp_path: Path, sources: list[str], caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.DEBUG, logger="lingraft"):
        result = made(corpus(sources, **ALL_STEPS), tmp_path / "out")
    assert "left out: broken JSON: broken" in caplog.text
    assert result["samples"]["wrong script"] == ["All of this is English."]
    assert all(1 <= len(texts) <= 3 for texts in result["samples"].values())
    assert {"duplicate", "near duplicate", "repeated lines", "broken JSON"} <= set(
        result["samples"]
    )
    lengths = sum(result["lengths"].values())
    assert lengths == sum(counts["sentences"] for counts in result["splits"].values()) > 100
    assert set(result["letters_by_script"]) == {"Hang", "Latn"}


@pytest.mark.parametrize(
    ("step", "call"),
    [("Read", 4), ("Kept", 4), ("Write", 3), ("Store", 1), ("Decide", 1)],
)
def test_a_killed_run_goes_on_without_losing_or_repeating_anything(
    tmp_path: Path,
    sources: list[str],
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    call: int,
):
    section = corpus(sources, **ALL_STEPS)
    expected = made(section, tmp_path / "whole")
    with monkeypatch.context() as patch:
        kind = getattr(steps, step)
        patch.setattr(kind, "run", die_at(call, kind.run))
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


def test_a_finished_corpus_is_not_made_again(
    tmp_path: Path,
    sources: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    section = corpus(sources)
    caplog.set_level("INFO", logger="lingraft")
    first = made(section, tmp_path / "out")
    assert "is whole" not in caplog.text
    monkeypatch.setattr(job, "_run_here", None)
    assert made(section, tmp_path / "out") == first
    assert f"{tmp_path / 'out'} is whole; --force" in caplog.text


def test_a_full_disk_is_one_line_and_keeps_the_parts_that_are_done(
    tmp_path: Path, sources: list[str], monkeypatch: pytest.MonkeyPatch
):
    section = corpus(sources)
    save, calls = steps.np.save, 0

    def full(path: Path, array: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        save(path, array)

    with monkeypatch.context() as patch:
        patch.setattr(steps.np, "save", full)
        with pytest.raises(
            DataError, match="No space left on device; make room, then run the same"
        ):
            made(section, tmp_path / "out")
    assert len(list((tmp_path / "out/work/parts").glob("*.json"))) == 2
    assert made(section, tmp_path / "out") == made(section, tmp_path / "other")


@pytest.mark.parametrize("processes", [1, 2])
def test_a_dump_that_is_cut_short_is_one_line_and_keeps_the_parts_that_are_done(
    tmp_path: Path, sources: list[str], processes: int
):
    dump = Path(sources[2])
    whole = dump.read_bytes()
    dump.write_bytes(whole[:-200])
    with pytest.raises(DataError, match=r"kowiki.xml.bz2: is cut short"):
        made(corpus(sources), tmp_path / "out", settings(20_000, processes))
    assert list((tmp_path / "out/work/parts").iterdir())
    dump.write_bytes(whole)
    made(corpus(sources), tmp_path / "out", settings(20_000))
    made(corpus(sources), tmp_path / "straight", settings(20_000))
    assert text(tmp_path / "out") == text(tmp_path / "straight")


def test_a_broken_file_that_is_replaced_costs_nothing_of_what_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(5):
        rng = random.Random(number)
        lines = [json.dumps({"id": f"{number}-{n}", "text": sentence(rng)}) for n in range(30)]
        (folder / f"{number}.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    section = corpus([str(folder)], near_duplicates=True)
    whole = made(section, tmp_path / "whole", settings(100))
    good = (folder / "3.jsonl.gz").read_bytes()
    (folder / "3.jsonl.gz").write_bytes(good[:-100])
    with pytest.raises(DataError, match="is cut short"):
        made(section, tmp_path / "out", settings(100))
    (folder / "3.jsonl.gz").write_bytes(good)
    read = parts_read(monkeypatch)
    assert made(section, tmp_path / "out", settings(100)) == whole
    assert text(tmp_path / "out") == text(tmp_path / "whole")
    assert len(read) == 2  # the broken one, and the one behind it


def test_a_worker_that_is_killed_ends_the_run_with_one_line(
    tmp_path: Path, sources: list[str], monkeypatch: pytest.MonkeyPatch
):
    spawn = multiprocessing.get_context("spawn")
    dying = functools.partial(ProcessPoolExecutor, 2, spawn, os._exit, (1,))
    monkeypatch.setattr(job.workers, "pool", lambda _: dying())
    with pytest.raises(DataError, match=r"a worker process was killed.*fewer --jobs"):
        made(corpus(sources), tmp_path / "out", settings(processes=2))


def test_a_finished_corpus_goes_into_a_run_as_it_is(
    tmp_path: Path, sources: list[str], monkeypatch: pytest.MonkeyPatch
):
    section = corpus(sources, near_duplicates=True)
    result = made(section, tmp_path / "corpus")
    monkeypatch.setattr(readers, "read", None)
    again = section.model_copy(update={"text": (str(tmp_path / "corpus"),)})
    taken, sentences = of_stage(again, tmp_path / "run")
    assert sentences == text(tmp_path / "corpus")
    assert taken == {key: result[key] for key in taken}


def test_part_of_a_finished_corpus_is_the_part_of_its_sources(tmp_path: Path, sources: list[str]):
    """Places of sentences count before anything is left out, so the order is that of the stage."""
    made(corpus(sources, near_duplicates=True), tmp_path / "corpus")
    expected = of_stage(
        corpus(sources, near_duplicates=True, max_train_sentences=60), tmp_path / "stage"
    )
    section = corpus([str(tmp_path / "corpus")], max_train_sentences=60)
    result, found = of_stage(section, tmp_path / "run")
    assert found == expected[1]
    assert result["subset"] == expected[0]["subset"]
    assert result["splits"] == expected[0]["splits"]


def test_no_split_holds_a_near_duplicate_of_anothers_document(tmp_path: Path):
    """A source is nearly the other one, line by line; each line is a document."""
    rng = random.Random(3)
    lines = [[rng.choice(WORDS) for _ in range(60)] for _ in range(40)]
    for name, end in (("a", "끝."), ("b", "그리고 끝.")):
        (tmp_path / f"{name}.txt").write_text("".join(" ".join(w) + f" {end}\n" for w in lines))
    names = [str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]
    for near in (False, True):
        section = corpus(names, valid=0.3, test=0.3, near_duplicates=near, split_sentences=False)
        out = tmp_path / str(near)
        made(section, out)
        sides: dict[str, set[str]] = {}
        for split in SPLITS:
            for row in documents(out, split):
                sides.setdefault(" ".join(row["text"].split()[:60]), set()).add(split)
        torn = sum(len(found) > 1 for found in sides.values())
        assert len(sides) == 40
        assert (torn == 0) == near


def test_a_finished_corpus_is_cleaned_again_with_other_settings(tmp_path: Path, sources: list[str]):
    made(corpus(sources), tmp_path / "corpus")
    section = corpus([str(tmp_path / "corpus")], min_characters=40)
    _, found = of_stage(section, tmp_path / "run")
    whole = text(tmp_path / "corpus")
    for split in SPLITS:
        kept = [line for line in whole[split].splitlines() if len(line) >= 40]
        assert found[split].splitlines() == kept


def test_a_finished_corpus_is_cleaned_again_where_the_evaluation_has_changed(
    tmp_path: Path, sources: list[str], caplog: pytest.LogCaptureFixture
):
    evaluation = tmp_path / "evaluation.txt"
    evaluation.write_text("그런 문장은 어디에도 없다\n")
    made(corpus(sources, decontaminate=(str(evaluation),)), tmp_path / "corpus")
    moved = evaluation.rename(tmp_path / "moved.txt")
    known = text(tmp_path / "corpus")["train"].splitlines()
    section = corpus([str(tmp_path / "corpus")], decontaminate=(str(moved),))
    with caplog.at_level(logging.INFO, logger="lingraft"):
        _, found = of_stage(section, tmp_path / "same")
    assert "is taken as it is" in caplog.text
    assert found["train"].splitlines() == known
    moved.write_text(known[0] + "\n")
    _, found = of_stage(section, tmp_path / "changed")
    assert found["train"].splitlines() == known[1:]


def test_what_a_finished_corpus_holds_out_stays_held_out_where_it_is_cleaned_again(
    tmp_path: Path, sources: list[str]
):
    made(corpus(sources, test=0.3), tmp_path / "corpus")
    held_out = set(text(tmp_path / "corpus")["test"].splitlines())
    more = tmp_path / "more.txt"
    more.write_text("\n".join(f"새로운 문장 {n}번이 여기에 있다." for n in range(40)))
    for number, texts in enumerate(([], [str(more)])):
        section = Corpus(text=(str(tmp_path / "corpus"), *texts), min_characters=5)
        _, found = of_stage(section, tmp_path / f"run-{number}")
        assert held_out <= set(found["test"].splitlines())
    made(Corpus(text=(str(tmp_path / "corpus"), str(more))), tmp_path / "larger")
    assert held_out <= set(text(tmp_path / "larger")["test"].splitlines())


def test_a_finished_corpus_is_cleaned_again_by_its_own_columns(tmp_path: Path):
    rng = random.Random(0)
    raw = tmp_path / "raw.jsonl"
    rows = [{"name": f"d{n}", "body": sentence(rng), "lang": "ko"} for n in range(100)]
    raw.write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns: dict[str, Any] = {"text_column": "body", "id_column": "name", "where": {"lang": "ko"}}
    made(corpus([str(raw)], **columns), tmp_path / "corpus")
    section = corpus([str(tmp_path / "corpus")], min_characters=5, **columns)
    _, found = of_stage(section, tmp_path / "run")
    assert found == text(tmp_path / "corpus")


def test_finished_corpora_that_do_not_agree_are_refused(tmp_path: Path, sources: list[str]):
    for share in (0.2, 0.3):
        made(corpus(sources, test=share), tmp_path / str(share))
    with pytest.raises(DataError, match="were made with different corpus"):
        of_stage(Corpus(text=(str(tmp_path / "0.2"), str(tmp_path / "0.3"))), tmp_path / "run")


def test_a_corpus_of_which_a_shard_is_missing_is_refused(tmp_path: Path, sources: list[str]):
    made(corpus(sources), tmp_path / "corpus")
    min((tmp_path / "corpus" / "train").iterdir()).unlink()
    for changes in ({}, {"max_train_sentences": 20}):
        section = corpus([str(tmp_path / "corpus")], **changes)
        (tmp_path / "run").mkdir(exist_ok=True)
        with pytest.raises(DataError, match=r"train: holds \d+ sentences, and corpus.json says"):
            stage.prepare(section, "ko", tmp_path / "run")
