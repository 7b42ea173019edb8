from __future__ import annotations

import numpy as np
import pytest

from lingraft.errors import DataError
from lingraft.tokenizer import shards
from lingraft.tokenizer.frame import kept_ids
from lingraft.tokenizer.shards import Tokens, encode, special_ids_around

FAMILIES = ["bert", "roberta", "xlm-roberta", "electra", "modernbert"]


@pytest.fixture
def text_path(tmp_path, tiny_text):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(tiny_text) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_are_what_the_tokenizer_gives(family, tiny_tokenizer, tiny_text, text_path, tmp_path):
    tokenizer = tiny_tokenizer(family)
    counts = encode(tokenizer, text_path, tmp_path, "train", 512)
    tokens = Tokens.open(tmp_path, "train")
    expected = [tokenizer(line)["input_ids"] for line in tiny_text]
    assert [row.tolist() for row in tokens.rows(range(len(tokens)))] == expected
    assert counts == {
        "sentences": len(tiny_text),
        "tokens": sum(map(len, expected)),
        "cut": 0,
        "empty": 0,
    }
    assert tokens.lengths.tolist() == list(map(len, expected))
    assert tokens.lengths.dtype == np.int32


def test_long_sentences_are_cut_without_losing_a_token(
    tiny_tokenizer, tiny_text, text_path, tmp_path
):
    tokenizer = tiny_tokenizer("roberta")
    counts = encode(tokenizer, text_path, tmp_path, "train", 10)
    tokens = Tokens.open(tmp_path, "train")
    rows = tokens.rows(range(len(tokens)))
    assert tokens.lengths.max() == 10
    assert all(row[0] == tokenizer.cls_token_id for row in rows)
    assert all(row[-1] == tokenizer.sep_token_id for row in rows)
    whole = [tokenizer(line, add_special_tokens=False)["input_ids"] for line in tiny_text]
    assert [i for row in rows for i in row[1:-1]] == [i for line in whole for i in line]
    assert counts["cut"] == sum(len(line) > 8 for line in whole)
    assert counts["sentences"] == len(rows) == sum(-(-len(line) // 8) for line in whole)


@pytest.mark.parametrize("family", ["xlm-roberta", "mbart", "t5", "mt5", "deberta-v2"])
def test_special_tokens_that_are_pieces_of_unigram_are_unknown_in_a_text(
    family, tiny_tokenizer, tmp_path
):
    tokenizer = tiny_tokenizer(family)
    text = "a <s> <mask> </s> <pad> [MASK] en_XX <extra_id_0> dog"
    (tmp_path / "text.txt").write_text(f"{text}\n", encoding="utf-8")
    encode(tokenizer, tmp_path / "text.txt", tmp_path, "train", 512)
    before, after = special_ids_around(tokenizer.backend_tokenizer)
    row = Tokens.open(tmp_path, "train").rows([0])[0].tolist()
    found = row[len(before) : len(row) - len(after)]
    special = {*tokenizer.all_special_ids, *kept_ids(tokenizer).values()} - {tokenizer.unk_token_id}
    assert not {*found} & special
    assert tokenizer.unk_token_id in found
    assert tokenizer.convert_ids_to_tokens([found[0], found[-1]]) == ["▁a", "▁dog"]


def test_empty_lines_are_counted_and_only_line_feeds_end_a_line(tiny_tokenizer, tmp_path):
    (tmp_path / "text.txt").write_bytes("a\u2028b\n\nc".encode())
    found = encode(tiny_tokenizer("roberta"), tmp_path / "text.txt", tmp_path, "train", 64)
    assert (found["sentences"], found["empty"]) == (2, 1)


@pytest.mark.parametrize("name", ["train.bin", "train.offsets.npy"])
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_a_file_cut_short_is_one_line(name, share, tiny_tokenizer, text_path, tmp_path):
    encode(tiny_tokenizer("roberta"), text_path, tmp_path, "train", 64)
    data = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(data[: int(len(data) * share) // 4 * 4])
    with pytest.raises(DataError, match="again") as error:
        Tokens.open(tmp_path, "train")
    assert "\n" not in str(error.value)


def test_a_subset_counts_its_own_rows_alone(tiny_tokens):
    tokens = tiny_tokens(30)
    some = tokens.subset(np.array([4, 5, 29]))
    expected = np.bincount(np.concatenate(tokens.rows([4, 5, 29])), minlength=320)
    assert some.counts(320).tolist() == expected.tolist()
    assert tokens.counts(320).tolist() == np.bincount(tokens.ids, minlength=320).tolist()


def test_the_files_do_not_depend_on_how_much_is_read_at_once(
    tiny_tokenizer, text_path, tmp_path, monkeypatch
):
    tokenizer = tiny_tokenizer("roberta")
    counts = encode(tokenizer, text_path, tmp_path, "whole", 10)
    monkeypatch.setattr(shards, "CHUNK_LINES", 2)
    assert encode(tokenizer, text_path, tmp_path, "parts", 10) == counts
    for end in ("bin", "offsets.npy", "documents.npy", "json"):
        whole, parts = (tmp_path / f"{name}.{end}" for name in ("whole", "parts"))
        assert whole.read_bytes() == parts.read_bytes()


def test_a_document_is_its_rows_wherever_lines_are_cut_or_empty(
    tiny_tokenizer, tmp_path, monkeypatch
):
    monkeypatch.setattr(shards, "CHUNK_LINES", 2)
    lines = ["one two three four five six seven eight", "nine", "", "ten", "", "eleven"]
    (tmp_path / "train.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    # The third document has no token: it is the empty line before the last.
    np.save(tmp_path / "train.documents.npy", np.array([0, 2, 4, 5]))
    out = tmp_path / "out"
    out.mkdir()
    tokenizer = tiny_tokenizer("roberta")
    encode(tokenizer, tmp_path / "train.txt", out, "ko-train", 10)
    tokens = Tokens.open(out, "ko-train")
    texts = [
        tokenizer.decode([i for row in tokens.rows(d) for i in row], skip_special_tokens=True)
        for d in tokens.documents()
    ]
    assert texts == [lines[0] + lines[1], "ten", "eleven"]
    assert len(tokens.documents()[0]) > 2
