"""Rows of a source that no training made: named before the start, mended, or refused."""

import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from lingraft.errors import DataError
from lingraft.models import damage
from lingraft.models.source import load_model

LONG, NAN, ZERO = 100, 101, 102


@pytest.fixture
def damaged(tiny_source, tmp_path):
    """A tiny RoBERTa with one row of each kind of damage, and with more of them on request."""

    def made(*more):
        folder = tmp_path / "damaged"
        shutil.copytree(tiny_source("roberta"), folder)
        path = folder / "model.safetensors"
        tensors = load_file(path)
        rows_VD = tensors["roberta.embeddings.word_embeddings.weight"]
        rows_VD[[LONG, *more]] *= 1e4
        rows_VD[NAN, 3], rows_VD[ZERO], rows_VD[1] = float("nan"), 0.0, 0.0
        save_file(tensors, path, {"format": "pt"})
        return folder

    return made


def test_damaged_rows_get_the_mean_of_the_sound_ones(damaged, tiny_source, tiny_tokenizer):
    tokenizer = tiny_tokenizer("roberta")
    before_VD = load_model(str(tiny_source("roberta"))).model.get_input_embeddings().weight.detach()
    loaded = load_model(str(damaged()))
    mended = damage.mend("x", loaded, tokenizer)
    assert mended == {LONG: "30 times too long", NAN: "not finite", ZERO: "zero"}
    after_VD = loaded.model.get_input_embeddings().weight.detach()
    sound = [i for i in range(len(before_VD)) if i not in mended]
    assert torch.equal(after_VD[sound[2:]], before_VD[sound[2:]])  # <pad> is zero, and stays so
    assert not after_VD[1].any()
    for index in mended:
        torch.testing.assert_close(after_VD[index], after_VD[sound].mean(0))
    assert damage.mend("x", loaded, tokenizer) == {}
    *_, line = damage.described(mended, tokenizer)
    assert (
        f"1 row of the source's pieces: zero ({ZERO} '{tokenizer.convert_ids_to_tokens(ZERO)}')"
        in line
    )


def test_a_matrix_with_many_damaged_rows_is_refused(damaged, tiny_tokenizer):
    loaded = load_model(str(damaged(110, 111, 112)))
    with pytest.raises(DataError, match="5 of the 320 rows"):
        damage.mend("x", loaded, tiny_tokenizer("roberta"))
