"""Rows, pairs, blocks and documents on disk: nothing lost, nothing twice."""

import functools

import causal_tokenizers
import numpy as np
import pytest

from lingraft.errors import DataError
from lingraft.recipe import Tokenizer as Section
from lingraft.tokenizer import documents, extension, shards
from lingraft.tokenizer.documents import Documents
from lingraft.tokenizer.files import kind_of
from lingraft.tokenizer.frame import kept_ids
from lingraft.tokenizer.pairs import Blocks, Edges, TokenPairs, fitted, neighbours, translations
from lingraft.tokenizer.shards import Tokens, encode, special_ids_around
from tests.support.vocabulary_kinds import keys_of

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
    sizes = list(map(len, expected))
    assert counts == {"sentences": len(sizes), "tokens": sum(sizes), "cut": 0, "empty": 0}
    assert tokens.lengths.tolist() == sizes
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
    with pytest.raises(DataError, match="again"):
        Tokens.open(tmp_path, "train")


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


EDGES = Edges(1, 1)


def tokens_of(*documents):
    """Rows of so many tokens of text, special ones (0 and 2) around; text ids count from 10."""
    rows, starts, following = [], [], 10
    for document in documents:
        starts.append(len(rows))
        for size in document:
            rows.append([0, *range(following, following + size), 2])
            following += size
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.uint64)
    lengths = np.array([len(row) for row in rows], np.int32)
    ids = np.array([token for row in rows for token in row], np.uint16)
    return Tokens(ids, offsets, lengths, np.array(starts))


def test_a_document_of_two_rows_is_a_translation_and_others_are_left_out():
    tokens = tokens_of([3, 4], [2], [1, 1, 1], [5, 6])
    assert translations(tokens).tolist() == [[[0, 1], [1, 2]], [[6, 7], [7, 8]]]


def test_stretches_are_filled_with_whole_rows_and_never_cross_a_document():
    tokens = tokens_of([3, 3, 4, 2, 5], [8], [2, 2], [9, 9, 9])
    found = neighbours(tokens, EDGES, 8)  # six tokens of text
    # 3+3 | 4+2 | 5: an odd number, so that the last pairs with the one before; 2+2 is one stretch
    expected = [[0, 2, 4], [2, 4, 5], [8, 9, 10], [9, 10, 11]]
    assert found.tolist() == [[[a, b], [b, c]] for a, b, c in expected]


@pytest.mark.parametrize("longest", [None, 9, 30])
def test_lengths_are_those_of_what_is_read(longest):
    tokens = tokens_of([3, 9], [9, 1], [2, 2])
    pairs = TokenPairs(tokens, translations(tokens), EDGES, 7, longest)
    rows = pairs.rows(np.arange(3))
    sides = 2 if longest is None else 1
    read = [sum(map(len, rows[i : i + sides])) for i in range(0, len(rows), sides)]
    assert pairs.lengths.tolist() == read
    assert all(row[0] == 0 and row[-1] == 2 for row in rows)
    if longest is None:
        assert max(map(len, rows)) == 7
    else:
        assert max(read) <= longest
        assert all((row == 2).sum() == 2 and (row == 0).sum() == 1 for row in rows)
    some = pairs.subset(np.array([2, 0]))
    assert len(some) == 2
    assert some.lengths.tolist() == [read[2], read[0]]
    chosen = [row.tolist() for row in some.rows([1])]
    assert chosen == [row.tolist() for row in rows[:sides]]


def test_of_two_texts_the_longer_one_is_cut_until_both_fit():
    texts = np.array([[10, 2], [2, 10], [7, 7], [3, 3]])
    assert fitted(texts, 8).tolist() == [[6, 2], [2, 6], [4, 4], [3, 3]]


def test_a_block_has_the_sentences_of_the_text_with_their_ends_and_one_beginning():
    blocks = Blocks.of(tokens_of([2, 1], [3]), EDGES, 12)
    (row,) = blocks.rows(np.arange(len(blocks)))
    assert row.tolist() == [0, 10, 11, 2, 12, 2, 13, 14, 15, 2]  # over the end of a document


def test_blocks_are_as_full_as_whole_sentences_make_them_and_lose_none():
    drawn = np.random.default_rng(0)
    tokens = tokens_of(*drawn.integers(1, 9, (30, 5)).tolist())
    blocks = Blocks.of(tokens, EDGES, 20)
    assert blocks.lengths.max() <= 20
    assert blocks.lengths[1:].min() > 0
    following = tokens.lengths[blocks.bounds[1:, 0]] - EDGES.before
    assert (blocks.lengths[:-1] + following > 20).all()
    joined = np.concatenate(blocks.rows(np.arange(len(blocks))))
    alone = np.concatenate(tokens.rows(np.arange(len(tokens))))
    assert joined[joined != 0].tolist() == alone[alone != 0].tolist()
    assert (joined == 0).sum() == len(blocks)
    lengths = [len(row) for row in blocks.rows(np.arange(len(blocks)))]
    assert blocks.lengths.tolist() == lengths


TEXTS = ["나는 학교에 가서\n친구를 만나고", "바다", "The cat sat on the mat.\nIt slept.\nAgain."]


@pytest.fixture
def corpus(tmp_path):
    """TEXTS as the corpus stage writes them."""
    lines = [text.split("\n") for text in TEXTS]
    path = tmp_path / "train.txt"
    path.write_text("".join(f"{line}\n" for text in lines for line in text), encoding="utf-8")
    starts = np.cumsum([0, *map(len, lines)])[:-1]
    np.save(path.with_suffix(".documents.npy"), starts)
    return path


def test_a_document_is_its_lines_with_a_newline_between(corpus):
    assert list(documents.read(corpus)) == TEXTS


def test_lines_are_read_with_their_ends_within_a_document(corpus):
    assert list(documents.lines_within(corpus)) == [
        *("나는 학교에 가서\n", "\n친구를 만나고", "바다"),
        *("The cat sat on the mat.\n", "\nIt slept.\n", "\nAgain."),
    ]


@pytest.mark.parametrize("kind", ["replace", "extend"])
@pytest.mark.parametrize("family", ["qwen", "llama-3", "llama-2", "gemma", "gpt2"])
def test_pieces_are_learnt_as_the_model_reads_documents(family, kind, tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("바다가 맑다.\n하늘이 맑다.\n하늘이 높다.\n" * 9, encoding="utf-8")
    source = causal_tokenizers.build(family)
    read = functools.partial(documents.reader_for(Section(action=kind), kind_of(source)), path)
    section = Section(**keys_of(kind), vocab_size=700, new_pieces=99)
    ours, _ = extension.make(section, source, read, pad_id=None, seed=0, causal=True)
    ends = {piece for piece in ours.get_vocab() if piece not in source.get_vocab()}
    ends = {piece for piece in ends if "\n" in piece or "Ċ" in piece}
    if family in ("qwen", "llama-3"):  # a full stop takes the end of the line along
        assert ends
        assert all(piece.endswith(".Ċ") for piece in ends)
    else:
        assert not ends
    if family == "llama-2":  # a word behind the end of a line has no space before it
        assert "하늘이" in ours.get_vocab()


@pytest.mark.parametrize("family", ["llama", "gpt2"])
@pytest.mark.parametrize("at_once", [1, 20, 1 << 20])
def test_a_row_is_a_document_as_the_tokenizer_reads_it_and_its_end(
    family, at_once, corpus, tiny_tokenizer, tmp_path, monkeypatch
):
    monkeypatch.setattr(documents, "AT_ONCE", at_once)
    tokenizer = tiny_tokenizer(family)
    counts = documents.encode(tokenizer, corpus, tmp_path, "train", 16)
    tokens = Tokens.open(tmp_path, "train")
    rows = [row.tolist() for row in tokens.rows(range(len(tokens)))]
    assert rows == [[*tokenizer(text)["input_ids"], tokenizer.eos_token_id] for text in TEXTS]
    assert [row[0] == tokenizer.bos_token_id for row in rows] == [family == "llama"] * 3
    assert tokens.starts.tolist() == [0, 1, 2]
    pieces = [-(-(len(row) - 1) // 16) for row in rows]
    assert sum(number > 1 for number in pieces) == 2
    tokens_and_pieces = {"tokens": sum(map(len, rows)), "pieces": sum(pieces)}
    assert counts == {"sentences": 3, "cut": 2, "empty": 0} | tokens_and_pieces


@pytest.mark.parametrize("prefix", [[], [0]], ids=["bare", "bos"])
@pytest.mark.parametrize("context", [1, 2, 7, 8, 15, 16, 40])
def test_pieces_read_the_context_at_most_and_predict_every_token_but_the_first_once(
    context, prefix, tiny_tokens
):
    tokens = tiny_tokens(30, 1, 17)
    pieces = Documents.of(tokens, context, prefix)
    rows = pieces.rows(range(len(pieces)))
    assert [len(row) - 1 for row in rows] == pieces.lengths.tolist()
    assert pieces.lengths.max() <= context
    for number, whole in enumerate(tokens.rows(range(30))):
        own = [row for row, owner in zip(rows, pieces.owners, strict=True) if owner == number]
        assert [t for row in own for t in row[1:].tolist()] == whole[1:].tolist()
        read = [t for row in own for t in row[len(prefix) : -1].tolist()]
        between = np.arange(1, len(whole) - 1) % context > 0  # the end of a piece is not read
        assert read == (whole[1:-1][between].tolist() if prefix else whole[:-1].tolist())
        assert all(row[: len(prefix)].tolist() == prefix for row in own)
        assert all(len(row) == context + 1 for row in own[:-1])
