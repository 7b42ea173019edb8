"""Text that a model writes itself follows the model's own probabilities."""

import json
from collections import Counter

import numpy as np
import pytest
import tiny_judged
import torch

from lingraft.corpus.readers.columns import model_parts
from lingraft.errors import DataError, UnsupportedModelError
from lingraft.evaluation import written
from lingraft.models.source import load_model
from lingraft.pipeline.fingerprints import corpus_fingerprint
from lingraft.pretrained.tokenizers import load_tokenizer
from lingraft.recipe.methods import recipe_from


def texts(path):
    return [json.loads(line)["text"] for line in path.read_text("utf-8").split("\n") if line]


@pytest.fixture
def writer(tmp_path, tiny_model, tiny_tokenizer):
    """A masked model of two words, one of which is three times as likely, and the words."""
    model, tokenizer = tiny_model("roberta", tie_word_embeddings=False), tiny_tokenizer("roberta")
    words = sorted(one for one in tokenizer.get_vocab() if one[:1] == "Ġ" and one[1:].isascii())
    ids = [*tokenizer.convert_tokens_to_ids(words[-2:]), tokenizer.mask_token_id]
    with torch.no_grad():
        model.lm_head.decoder.weight.zero_()
        for bias in (model.lm_head.bias, model.lm_head.decoder.bias):
            bias.fill_(-1e4)
            bias[ids] = torch.tensor([3.0, 1, 9]).log()
    model.save_pretrained(tmp_path / "writer")
    tokenizer.save_pretrained(tmp_path / "writer")
    return tmp_path / "writer", [word[1:] for word in words[-2:]]


def test_a_masked_model_writes_as_often_as_its_head_says(tmp_path, writer):
    folder, words = writer
    for name, seed in (("a", 0), ("again", 0), ("b", 1)):
        written.write(str(folder), 4_000, tmp_path / name, seed)
    sentences = [text.split() for text in texts(tmp_path / "a")]
    counts = Counter(word for sentence in sentences for word in sentence)
    assert counts.keys() == set(words)
    assert counts.total() >= 4_000
    assert counts[words[0]] / counts.total() == pytest.approx(0.75, abs=0.03)
    assert len({len(sentence) for sentence in sentences}) > 1
    assert (tmp_path / "a").read_bytes() == (tmp_path / "again").read_bytes()
    assert (tmp_path / "a").read_bytes() != (tmp_path / "b").read_bytes()


def test_a_causal_model_writes_by_its_probabilities(tmp_path, monkeypatch):
    monkeypatch.setattr(written, "LONGEST", 1)
    loaded = load_model(str(tiny_judged.save(tmp_path)))
    tokenizer = load_tokenizer(str(tmp_path))
    tokenizer.decode = lambda row, **_: row[0]
    batches = written._documents(loaded, tokenizer, np.random.default_rng(0))
    found = np.bincount([int(one) for _ in range(60) for one in next(batches)], minlength=312)
    with torch.no_grad():
        logits = loaded.model(torch.tensor([[tokenizer.bos_token_id]])).logits[0, -1]
    expected = logits.softmax(0).numpy()
    assert np.abs(found / found.sum() - expected).sum() < 0.15


def test_a_run_reads_what_a_model_wrote_and_knows_its_weights(
    tmp_path, writer, tiny_source, tiny_model, korean_text, command
):
    folder, words = writer
    texts_of = {"ko": str(korean_text), "en": f"model:{folder}#1500"}
    source = str(tiny_source("roberta"))
    command(
        *("adapt", "--source", source, "--out", tmp_path / "run"),
        *("--text", *(f"{language}={text}" for language, text in texts_of.items())),
        *("--budget", "2steps", "training.batch=500 tokens", "training.replay.en=0.1"),
        *("tokenizer.vocab_size=400", "tokenizer.max_tokens=64", "evaluation.samples=0"),
    ).well()
    read = (tmp_path / "run" / "corpus" / "en" / "train.txt").read_text("utf-8").split()
    assert len(read) > 500
    assert set(read) == set(words)
    streams = [
        {"name": name, "language": name, "corpus": {"text": [text]}}
        for name, text in texts_of.items()
    ]
    evaluated = json.loads((tmp_path / "run" / "evaluation" / "done.json").read_text("utf-8"))
    assert list(evaluated["result"]["streams"]) == ["ko"]
    recipe = recipe_from({"source": {"model": source}, "streams": streams})
    before = corpus_fingerprint(recipe)
    tiny_model("roberta").save_pretrained(folder)
    assert corpus_fingerprint(recipe) != before


def test_what_writes_nothing_is_refused(tmp_path, tiny_source, command):
    with pytest.raises(UnsupportedModelError, match="encoder–decoder"):
        written.write(str(tiny_source("t5")), 100, tmp_path / "a", 0)
    for text in ("model:", "model:m#", "model:m#0", "model:m#many"):
        with pytest.raises(DataError, match="name the model"):
            model_parts(text)
    assert model_parts("model:a/b#7") == ("a/b", 7)
    refused = command("data", "clean", "model:m", "--lang", "en", "--out", tmp_path / "corpus")
    assert "what `lingraft adapt` replays" in refused.err
