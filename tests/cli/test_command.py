"""`lingraft demo`: its own files, its recipe, and what it says.

`lingraft adapt` straight from a dump, and from the corpus that was made of it.
"""

from __future__ import annotations

import bz2
import json
import random
from pathlib import Path

import pytest

from lingraft.pipeline import demo
from lingraft.recipe.methods import read_recipe


def read(out: Path) -> dict[str, dict[str, str]]:
    lines = [line for path in out.glob("*/*.jsonl") for line in path.read_text().splitlines()]
    return {row["id"]: row for row in map(json.loads, lines)}


@pytest.fixture
def make(command, source, tmp_path):
    """Runs `lingraft data clean` of the source in this process; the folder and how it ended."""

    def run(*more, out="out"):
        more = ("--lang", "ko", "--out", tmp_path / out, "valid=0.1", "test=0.1", *more)
        return tmp_path / out, command("data", "clean", source, *more)

    return run


def test_the_command_makes_shards_counts_and_a_page_and_says_where(make):
    out, ended = make()
    assert ended.status == 0, ended.err
    assert ended.out.splitlines()[-4:-2] == [f"corpus: {out}", f"report: {out / 'report.html'}"]
    assert (out / "report.html").is_file()
    splits = json.loads((out / "corpus.json").read_text())["result"]["splits"]
    assert all(splits[name]["sentences"] > 0 for name in ("train", "valid", "test"))
    assert "corpus: pass clean took" in ended.err


def test_sentences_of_the_tasks_that_are_given_are_dropped(make, source, tmp_path):
    text = json.loads(source.read_text().splitlines()[4])["text"].splitlines()[0]
    (tmp_path / "a.jsonl").write_text('{"text": "a", "label": "x"}\n{"text": "b", "label": "y"}\n')
    (tmp_path / "b.jsonl").write_text(json.dumps({"text": text, "label": "x"}) + "\n")
    task = tmp_path / "mood.toml"
    files = 'files = { train = "a.jsonl", dev = "b.jsonl" }'
    task.write_text(f'name = "mood"\nkind = "classification"\n{files}\n')
    plain, _ = make(out="plain")
    assert text in read(plain)["4"]["text"]
    out, ended = make("--task", task)
    assert ended.status == 0, ended.err
    result = json.loads((out / "corpus.json").read_text())["result"]
    assert result["dropped"]["occurs in an evaluation"] == 1
    assert text not in read(out)["4"]["text"]
    again = make("--task", task)[1]
    assert again.status == 0, again.err


@pytest.fixture
def aligned(command, tmp_path):
    """Runs `lingraft data pairs` or `lexicon` of a text into a folder `out`."""

    def run(kind, text, *more, name="in.tsv"):
        path = tmp_path / name
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
        return command("data", kind, path, "--lang", "en", "ko", "--out", tmp_path / "out", *more)

    return run


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("pairs", "I go.\t나는 간다.\nsame\tsame\n", "나는 간다.\tI go.\n"),
        ("lexicon", "house\t집\nhouse\t집\n", "집\thouse\n"),
    ],
)
def test_pairs_come_out_checked_the_new_language_first(aligned, tmp_path, kind, text, expected):
    out = tmp_path / "out" / f"{kind}.tsv"
    ended = aligned(kind, text, "--json").well()
    assert out.read_text("utf-8") == expected
    assert json.loads(ended.out)["kept"] == 1
    over = aligned(kind, text, "--force", name=f"out/{out.name}")
    assert f"{out.name}: is the text that is read; choose" in over.err
    assert out.read_text("utf-8") == text


@pytest.mark.parametrize(
    ("kind", "name", "text", "more", "says"),
    [
        ("pairs", "in.jsonl", '{"en": "I", "ko": "나"}\n', "[1,0]", "is for .tsv files"),
        ("lexicon", "in.tsv", "house\t집\n", "[5,2]", r"a lexicon has two, [0,1] or [1,0]"),
    ],
)
def test_columns_that_are_not_read_are_refused(aligned, tmp_path, kind, name, text, more, says):
    ended = aligned(kind, text, f"columns={more}", name=name)
    assert ended.status == 1
    assert says in ended.err
    assert not list(tmp_path.glob("out/*.tsv"))


ROOT = Path(__file__).resolve().parents[2]


def test_the_demos_recipe_is_that_of_the_clone_on_its_own_files() -> None:
    own = demo.recipe(method="xpt")
    theirs = read_recipe(ROOT / "recipes/demo-xpt.toml")
    paths = [own.source.model, *own.corpus.text]
    found = [str(Path(path).relative_to(ROOT)) for path in paths if path]
    assert found == [theirs.source.model, *theirs.corpus.text]
    assert own.model_copy(update={"source": theirs.source, "corpus": theirs.corpus}) == theirs


def test_the_demos_files_are_copied_once(command, tmp_path) -> None:
    target = tmp_path / "files"
    said = command("demo", "--files-to", target).well()
    assert said.out.splitlines() == [
        f"source: {target / 'source'}",
        f"text:   {target / demo.TEXT}",
        "next:   Make a model of them:",
        f"        lingraft adapt --source {target / 'source'} --text {target / demo.TEXT} "
        "--lang ko --budget 5m --out runs/mine",
    ]
    assert (target / demo.TEXT).read_bytes() == (ROOT / "demo" / demo.TEXT).read_bytes()
    assert json.loads((target / "source/config.json").read_text())["model_type"] == "modernbert"
    again = command("demo", "--files-to", target)
    assert again.status == 1
    assert "choose another --files-to" in again.err


PAGE = (
    "<page><title>{0}</title><ns>{1}</ns><id>{0}</id><revision><id>{0}</id>"
    "<text>{2}</text></revision></page>\n"
)
TINY = ("training.preset=xpt2021", "tokenizer.vocab_size=300", "--budget", "2steps")
TINY += ("training.batch={size=8, unit='sentences'}", "tokenizer.max_tokens=64")
TINY += ("hardware.row_tokens=64",)
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
def test_a_dump_and_a_corpus_of_it_give_the_same_model(command, dump, tiny_source, tmp_path):
    command("data", "clean", dump, "--lang", "ko", "--out", tmp_path / "corpus").well()
    for name, text in (("straight", dump), ("by-way", tmp_path / "corpus")):
        start = ("adapt", "--source", tiny_source("roberta"), "--lang", "ko", "--text", text)
        ended = command(*start, "--out", tmp_path / name, *TINY).well()
    assert "is taken as it is" in ended.err
    lines = (tmp_path / "straight/corpus/train.txt").read_text("utf-8").splitlines()
    assert len(lines) > 200
    assert any(line.endswith(" 바다.") for line in lines)
    assert not any(mark in line for line in lines for mark in ("[[", "{{", "틀"))
    for name in FILES:
        straight, by_way = ((tmp_path / run / name).read_bytes() for run in ("straight", "by-way"))
        assert straight == by_way, name
