import json
from pathlib import Path

import pytest


def read(out: Path) -> dict[str, dict[str, str]]:
    lines = [line for path in out.glob("*/*.jsonl") for line in path.read_text().splitlines()]
    return {row["id"]: row for row in map(json.loads, lines)}


@pytest.fixture
def make(command, source, tmp_path):
    """Runs `lingraft data clean` of the source in this process; the folder and how it ended."""

    def run(*more, out="out"):
        ended = command("data", "clean", source, "--lang", "ko", "--out", tmp_path / out,
            "valid=0.1", "test=0.1", *more,
        )  # fmt: skip
        return tmp_path / out, ended

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
    (tmp_path / "a.jsonl").write_text(
        '{"text": "가", "label": "x"}\n{"text": "나", "label": "y"}\n'
    )
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


PAIRS = [("pairs", "pairs.tsv"), ("lexicon", "lexicon.tsv")]


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
    ("kind", "name", "text", "expected"),
    [
        ("pairs", "pairs.tsv", "I go.\t나는 간다.\nsame\tsame\n", "나는 간다.\tI go.\n"),
        ("lexicon", "lexicon.tsv", "house\t집\nhouse\t집\n", "집\thouse\n"),
    ],
)
def test_pairs_come_out_checked_with_the_new_language_first(
    aligned, tmp_path, kind, name, text, expected
):
    ended = aligned(kind, text, "--json")
    assert ended.status == 0, ended.err
    assert (tmp_path / "out" / name).read_text("utf-8") == expected
    assert json.loads(ended.out)["kept"] == 1


@pytest.mark.parametrize(("option", "name"), PAIRS)
def test_pairs_are_never_written_over_their_source(aligned, tmp_path, option, name):
    (tmp_path / "out").mkdir()
    ended = aligned(option, "house\t집\n", "--force", name=f"out/{name}")
    assert ended.status == 1
    assert f"{name}: is the text that is read; choose" in ended.err
    assert (tmp_path / "out" / name).read_text("utf-8") == "house\t집\n"


@pytest.mark.parametrize(
    ("kind", "name", "text", "more", "says"),
    [
        (
            "pairs",
            "in.jsonl",
            '{"en": "I go.", "ko": "나는 간다."}\n',
            "[1,0]",
            "is for .tsv files",
        ),
        ("lexicon", "in.tsv", "house\t집\n", "[5,2]", r"a lexicon has two, [0,1] or [1,0]"),
    ],
)
def test_columns_that_are_not_read_are_refused(aligned, tmp_path, kind, name, text, more, says):
    ended = aligned(kind, text, f"columns={more}", name=name)
    assert ended.status == 1
    assert says in ended.err
    assert not list(tmp_path.glob("out/*.tsv"))
