"""Documents on disk and in pieces: nothing lost, nothing twice, special tokens at the ends."""

import functools

import causal_tokenizers
import numpy as np
import pytest

from lingraft.recipe import Tokenizer as Section
from lingraft.tokenizer import documents, extension
from lingraft.tokenizer.documents import Documents
from lingraft.tokenizer.files import kind_of
from lingraft.tokenizer.shards import Tokens
from tests.support.vocabulary_kinds import keys_of

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
    assert counts == {
        "sentences": 3,
        "tokens": sum(map(len, rows)),
        "cut": sum(number > 1 for number in pieces),
        "empty": 0,
        "pieces": sum(pieces),
    }
    assert counts["cut"] == 2


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
