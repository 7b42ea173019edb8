"""`lingraft adapt` straight from a dump, and from the corpus that was made of it."""

import bz2
import random

import pytest

PAGE = (
    "<page><title>{0}</title><ns>{1}</ns><id>{0}</id><revision><id>{0}</id>"
    "<text>{2}</text></revision></page>\n"
)
TINY = (
    "training.preset=xpt2021",
    "tokenizer.vocab_size=300",
    "--budget",
    "2steps",
    "training.batch={size=8, unit='sentences'}",
)
TINY += ("tokenizer.max_tokens=64", "hardware.row_tokens=64")
FILES = ("corpus/train.txt", "corpus/valid.txt", "corpus/test.txt", "model/model.safetensors")


@pytest.fixture
def dump(tmp_path, words):
    """A multistream dump of 150 articles, with a link, a template and a talk page in every ten."""
    rng = random.Random(5)
    streams = ['<mediawiki xml:lang="ko"><siteinfo><dbname>kowiki</dbname></siteinfo>\n']
    for start in range(1, 150, 10):
        pages = []
        for n in range(start, start + 10):
            parts = [" ".join(rng.choices(words, k=8)) for _ in range(3)]
            text = f"{parts[0]} [[{parts[1]}|바다]]. {{{{틀|{n}}}}}\n\n* {parts[2]}."
            pages.append(PAGE.format(n, int(n % 10 == 0), text))
        streams.append("".join(pages))
    path = tmp_path / "kowiki-latest-pages-articles-multistream.xml.bz2"
    path.write_bytes(b"".join(bz2.compress(s.encode()) for s in [*streams, "</mediawiki>"]))
    return path


@pytest.mark.slow
def test_a_dump_goes_straight_through_and_by_way_of_a_corpus_gives_the_same_model(
    command, dump, tiny_source, tmp_path
):
    made = command("data", "clean", dump, "--lang", "ko", "--out", tmp_path / "corpus")
    assert made.status == 0, made.err
    for name, text in (("straight", dump), ("by-way", tmp_path / "corpus")):
        start = ("adapt", "--source", tiny_source("roberta"), "--lang", "ko", "--text", text)
        ended = command(*start, "--out", tmp_path / name, *TINY)
        assert ended.status == 0, ended.err
    assert "is taken as it is" in ended.err
    lines = (tmp_path / "straight/corpus/train.txt").read_text("utf-8").splitlines()
    assert len(lines) > 200
    assert any(line.endswith(" 바다.") for line in lines)
    assert not any(mark in line for line in lines for mark in ("[[", "{{", "틀"))
    for name in FILES:
        straight, by_way = ((tmp_path / run / name).read_bytes() for run in ("straight", "by-way"))
        assert straight == by_way, name
