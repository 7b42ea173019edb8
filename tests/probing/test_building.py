"""The models of a probe: layers taken out, the source's vocabulary put back."""

import json
import shutil

import pytest
import torch
from tiny_shapes import ENCODERS
from transformers import AutoModelForMaskedLM, AutoTokenizer

from lingraft.errors import DataError
from lingraft.models.families import FAMILIES
from lingraft.probing.building import build, check_source
from lingraft.probing.models import Probed
from lingraft.rundir import Run


@pytest.fixture
def built(tmp_path):
    """Builds models of a run: `built(run, "phase-1.itl.target-vocab")` is model and folder."""

    def made(run, label):
        probed = Probed.of(run)
        variant = next(one for one in probed.variants() if one.label == label)
        folder = tmp_path / label
        build(probed, variant, folder)
        model, info = AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
        assert not any(info.values())
        return model, folder

    return made


@torch.no_grad()
def logits(model):
    ids = torch.randint(5, 300, (2, 12), generator=torch.Generator().manual_seed(0))
    return model.eval()(input_ids=ids, attention_mask=torch.ones_like(ids)).logits


def settings(folder):
    """What config.json says; a key that is null is as good as none."""
    found = json.loads((folder / "config.json").read_text())
    return {key: value for key, value in found.items() if value is not None}


@pytest.mark.parametrize("family", ENCODERS)
def test_a_frozen_body_without_new_layers_and_with_the_source_s_vocabulary_is_the_source(
    family, adapted, tiny_source, built
):
    source = AutoModelForMaskedLM.from_pretrained(tiny_source(family))
    put_back, folder = built(adapted(family), "phase-1.no-itl.source-vocab")
    assert torch.equal(logits(put_back), logits(source))
    assert put_back.state_dict().keys() == source.state_dict().keys()
    for name, tensor in source.state_dict().items():
        assert torch.equal(put_back.state_dict()[name], tensor), name
    _, untouched = built(adapted(family), "source")
    names = sorted(path.name for path in untouched.iterdir())
    assert names == sorted(path.name for path in folder.iterdir())
    for name in set(names) - {"config.json"}:
        assert (folder / name).read_bytes() == (untouched / name).read_bytes(), name
    assert settings(folder) == settings(untouched)
    # the others are not
    for label in ("phase-1.itl.source-vocab", "phase-2.no-itl.source-vocab"):
        assert not torch.equal(logits(built(adapted(family), label)[0]), logits(source)), label


@pytest.mark.parametrize("family", ["roberta", "modernbert"])
@pytest.mark.parametrize("layers", ["itl", "no-itl"])
@pytest.mark.parametrize("vocabulary", ["target", "source"])
def test_all_that_is_not_taken_out_or_put_back_is_as_the_phase_left_it(
    family, layers, vocabulary, adapted, tiny_source, built
):
    run, record = adapted(family), FAMILIES[family]
    left = AutoModelForMaskedLM.from_pretrained(run / "phase-2" / "best").state_dict()
    source = AutoModelForMaskedLM.from_pretrained(tiny_source(family)).state_dict()
    model, folder = built(run, f"phase-2.{layers}.{vocabulary}-vocab")
    first = 1 if layers == "no-itl" else 0
    assert model.config.num_hidden_layers == (2 if layers == "no-itl" else 4)
    of_vocabulary = {record.word_embeddings, record.decoder, *record.output_bias}
    for name, tensor in model.state_dict().items():
        if name in of_vocabulary:
            expected = (left if vocabulary == "target" else source)[name]
        elif name.startswith(f"{record.layers}."):
            index, rest = name.removeprefix(f"{record.layers}.").split(".", 1)
            expected = left[f"{record.layers}.{int(index) + first}.{rest}"]
        else:
            expected = left[name]
        assert torch.equal(tensor, expected), name
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    theirs = run / "tokenizer" if vocabulary == "target" else tiny_source(family)
    text = "The quick brown fox, 나는 학교에"
    wanted = AutoTokenizer.from_pretrained(theirs)(text)["input_ids"]
    assert AutoTokenizer.from_pretrained(folder)(text)["input_ids"] == wanted
    assert model.config.vocab_size == len(model.get_input_embeddings().weight)


@pytest.mark.parametrize("family", ["roberta", "modernbert"])
@pytest.mark.parametrize("vocabulary", ["target", "source"])
def test_the_floor_has_the_shape_and_the_tokenizer_but_no_weight_of_the_model(
    family, vocabulary, adapted, tiny_source, built
):
    run = adapted(family)
    model, folder = built(run, f"random.{vocabulary}-vocab")
    trained = run / "phase-1" / "best" if vocabulary == "target" else tiny_source(family)
    shaped = AutoModelForMaskedLM.from_pretrained(trained).state_dict()
    assert {n: t.shape for n, t in model.state_dict().items()} == {
        name: tensor.shape for name, tensor in shaped.items()
    }
    drawn = [name for name, tensor in shaped.items() if tensor.dim() == 2]
    assert drawn
    assert not any(torch.equal(model.state_dict()[name], shaped[name]) for name in drawn)
    theirs = run / "tokenizer" if vocabulary == "target" else tiny_source(family)
    text = "The quick brown fox, 나는 학교에"
    wanted = AutoTokenizer.from_pretrained(theirs)(text)["input_ids"]
    assert AutoTokenizer.from_pretrained(folder)(text)["input_ids"] == wanted


def test_another_source_than_the_run_s_is_refused(adapted, tiny_source, tiny_model, tmp_path):
    run = adapted("roberta")
    with pytest.raises(DataError, match=r"is a bert of 2 layers.*from a roberta of 2 layers"):
        check_source(Probed.of(run, str(tiny_source("bert"))), "phase-1")
    shutil.copytree(tiny_source("roberta"), tmp_path / "deeper")
    tiny_model("roberta", num_hidden_layers=3).save_pretrained(tmp_path / "deeper")
    with pytest.raises(DataError, match="is a roberta of 3 layers"):
        check_source(Probed.of(run, str(tmp_path / "deeper")), "phase-1")
    with pytest.raises(DataError, match="--source says where"):
        check_source(Probed.of(run, "./gone"), "phase-1")
    check_source(Probed.of(run, str(tiny_source("roberta"))), "phase-1")
    trained = AutoModelForMaskedLM.from_pretrained(tiny_source("roberta"))
    trained.roberta.encoder.layer[0].output.dense.weight.data.mul_(1.01)
    trained.save_pretrained(tmp_path / "trained")
    with pytest.raises(DataError, match="its weights are not those that"):
        check_source(Probed.of(run, str(tmp_path / "trained")), "phase-1")


def test_a_command_that_makes_weights_again_is_one_that_a_shell_takes(tmp_path):
    run = Run(tmp_path / "my runs" / "ko")
    with pytest.raises(DataError) as caught:
        Probed(run, None, "m", None).weights("phase-1")
    assert f"(lingraft adapt '{run.recipe_path}' --out '{run.path}')" in str(caught.value)
