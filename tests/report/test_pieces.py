import pytest

from lingraft.report import vocabulary
from lingraft.report.pieces import readable, running
from lingraft.report.variants import labelled
from lingraft.tokenizer.state import BYTE_OF
from tests.support.vocabulary_kinds import keys_of

LETTERS = {byte: letter for letter, byte in BYTE_OF.items()}


def in_bytes(data):
    return "".join(LETTERS[byte] for byte in data)


def test_byte_level_pieces_are_shown_as_the_text_they_stand_for():
    assert readable(in_bytes(" 문서".encode()), "byte-bpe") == "▁문서"


def test_the_byte_alphabet_is_that_of_gpt_2():
    assert readable("Ġthe", "byte-bpe") == "▁the"
    assert len(BYTE_OF) == 256


def test_bytes_that_are_no_whole_character_are_shown_as_hexadecimal():
    assert readable(in_bytes("문".encode()[:2]), "byte-bpe") == "‹eb ac›"


def test_latin_pieces_of_other_tokenizers_are_left_alone():
    assert readable("▁café", "unigram") == "▁café"
    assert readable("é", "unigram") == "é"


@pytest.mark.parametrize(
    ("kind", "pieces"),
    [
        ("unigram", ["▁표의", "▁병합", "하면"]),
        ("wordpiece", ["표의", "병합", "##하면"]),
        ("byte-bpe", ["▁표의", "▁병합", "하면"]),
    ],
)
def test_pieces_in_a_row_make_the_sentence(kind, pieces):
    assert "".join(running(piece, kind) for piece in pieces) == " 표의 병합하면"


@pytest.mark.parametrize("kind", ["source", "replace", "extend", "keep"])
def test_a_source_s_piece_is_read_as_the_new_ones_are_where_the_tokenizer_is_of_its_kind(
    build, kind
):
    builder = build(tokenizer=keys_of(kind)).whole()
    path = builder.run.stage("graft").path / "provenance.tsv"
    path.write_text("head\n319\tĠF\texact\t275\tĠf\n", encoding="utf-8")
    main = labelled([builder.run])[0]
    found = vocabulary.provenance(main, main.result("graft"), "byte-bpe")
    assert "▁F ← ▁f" in [row.cells[-1].text for row in found.rows]
