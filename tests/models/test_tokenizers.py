"""A source's tokenizer is read as tokenizer.json holds it, whatever class its other files name."""

from __future__ import annotations

import json
import shutil

import pytest
import sentencepiece
from tiny_tokenizers import TEXT
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from lingraft.errors import UnsupportedModelError
from lingraft.pretrained.tokenizers import LINES, load_tokenizer
from lingraft.tokenizer import files

WORDS = "In 1234567 ＦＵＬＬ Ünï naïve CAFÉ"


def changed(path, change):
    state = json.loads(path.read_text("utf-8"))
    change(state)
    path.write_text(json.dumps(state), "utf-8")


def folded(state):
    """A RoBERTa that folds case and width."""
    steps = [{"type": "NFKC"}, {"type": "Lowercase"}]
    state["normalizer"] = {"type": "Sequence", "normalizers": steps}


SOURCES = {
    "a RoBERTa that lower-cases": ("roberta", "RobertaTokenizer", folded),
    "a WordPiece called a RoBERTa": ("bert", "RobertaTokenizer", lambda state: None),
}


@pytest.fixture
def source(tiny_source, tmp_path):
    """A copy of a tiny source whose files name a class, and whose tokenizer.json says otherwise."""

    def made(family, kind, change):
        folder = shutil.copytree(tiny_source(family), tmp_path / "source")
        changed(folder / "tokenizer.json", change)
        changed(folder / "tokenizer_config.json", lambda c: c.update(tokenizer_class=kind))
        return folder

    return made


@pytest.mark.parametrize("name", SOURCES)
def test_ids_are_those_of_the_file_and_stay_so_when_it_is_saved(name, source, tmp_path, caplog):
    folder = source(*SOURCES[name])
    written = Tokenizer.from_file(str(folder / "tokenizer.json"))
    texts = [*LINES, *TEXT, WORDS]
    expected = [written.encode(text).ids for text in texts]
    stock = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    assert [stock(text)["input_ids"] for text in texts] != expected, "the case shows nothing"
    tokenizer = files.load(folder)
    assert [tokenizer(text)["input_ids"] for text in texts] == expected
    assert SOURCES[name][1] in caplog.text
    files.save(tokenizer, tmp_path / "saved")
    again = AutoTokenizer.from_pretrained(tmp_path / "saved", trust_remote_code=False)
    assert [again(text)["input_ids"] for text in texts] == expected
    assert again.unk_token_id == written.token_to_id(str(tokenizer.unk_token))


def sentencepiece_model(folder, name, **options):
    folder.mkdir(exist_ok=True)
    with (folder / name).open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(TEXT),
            model_writer=file,
            vocab_size=400,
            hard_vocab_limit=False,
            num_threads=1,
            minloglevel=2,
            **options,
        )
    return folder


def test_a_sentencepiece_model_alone_is_read_as_sentencepiece_does_or_refused(tmp_path):
    mistral = sentencepiece_model(
        tmp_path / "mistral",
        "tokenizer.model",
        model_type="bpe",
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
    )
    (mistral / "config.json").write_text('{"model_type": "mistral"}')
    with pytest.raises(UnsupportedModelError, match=r"other pieces than tokenizer\.model"):
        load_tokenizer(str(mistral))
    xlmr = sentencepiece_model(tmp_path / "xlmr", "sentencepiece.bpe.model", model_type="unigram")
    (xlmr / "config.json").write_text('{"model_type": "xlm-roberta"}')
    assert load_tokenizer(str(xlmr)).tokenize("The dog sleeps")
