"""Sources that would break later are refused where they are loaded, in one line."""

import json
import shutil

import pytest
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForSeq2SeqLM

from lingraft.errors import LingraftError
from lingraft.models import source
from lingraft.pretrained.load import load_model


@pytest.fixture
def copied(tiny_source, tmp_path):
    """A copy of a family's tiny model, with values in its JSON files changed."""

    def made(family, file="config.json", **changes):
        folder = tmp_path / family
        shutil.copytree(tiny_source(family), folder)
        path = folder / file
        settings = json.loads(path.read_text()) if path.is_file() else {}
        path.write_text(json.dumps(settings | changes))
        return folder

    return made


def without(folder, *names):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    for name in names:
        del tensors[name]
    save_file(tensors, path, {"format": "pt"})
    return str(folder)


@pytest.mark.parametrize(
    ("file", "values"),
    [
        ("config.json", {"init_std": -0.5}),
        ("config.json", {"dropout": float("nan")}),
        ("config.json", {"decoder_start_token_id": "../x"}),
        ("generation_config.json", {"decoder_start_token_id": "../x"}),
        ("generation_config.json", {"repetition_penalty": "x"}),
        ("generation_config.json", {"repetition_penalty": -1.0}),
        ("generation_config.json", {"temperature": float("nan")}),
        ("generation_config.json", {"num_beams": "x"}),
        ("generation_config.json", {"num_beams": 0}),
        ("generation_config.json", {"suppress_tokens": [["x"]]}),
        ("generation_config.json", {"output_hidden_states": -0.5}),
        ("generation_config.json", {"decoder_start_token_id": 10**12}),
    ],
)
def test_a_value_that_breaks_later_is_refused_with_its_file(file, values, copied):
    name = str(copied("m2m_100", file, **values))
    with pytest.raises(LingraftError, match=r"config|generate"):
        source.load_model(name, device_map="meta")
    with pytest.raises(LingraftError, match=r"config|generate"):
        load_model(AutoModelForSeq2SeqLM, name)


def test_settings_that_published_models_have_are_taken(copied):
    values = {"temperature": 0.6, "max_length": 20, "chat_format": "x", "pad_token_id": -1}
    source.load_model(str(copied("llama", "generation_config.json", **values)))


def test_a_checkpoint_without_some_tensors_is_refused_but_for_a_pooler(copied):
    name = without(copied("m2m_100"), "model.decoder.layers.1.fc1.weight")
    for auto in (AutoModel, AutoModelForSeq2SeqLM):
        with pytest.raises(LingraftError, match="lack 1 tensors"):
            load_model(auto, name)
    pooler = load_model(AutoModel, str(copied("bert")))[1]["missing_keys"]
    assert {key.split(".")[0] for key in pooler} == {"pooler"}


@pytest.mark.parametrize(
    ("family", "tensor"),
    [("llama", "model.norm.weight"), ("bert", "bert.embeddings.LayerNorm.weight")],
)
def test_a_source_that_lacks_a_tensor_is_refused_before_text_is_read(
    family, tensor, copied, shorthand, command, tmp_path
):
    arguments = [*shorthand(tmp_path / "run", family)]
    arguments[arguments.index("--source") + 1] = without(copied(family), tensor)
    ended = command(*arguments)
    assert ended.status == 1
    assert f"lack 1 tensors of a {family} model" in ended.err
    assert not (tmp_path / "run" / "corpus").exists()


RETRIEVAL = ("analyze", "retrieval")


@pytest.mark.parametrize("arguments", [("check",), RETRIEVAL, ("adapt",)])
def test_a_shard_that_is_not_there_is_one_line_before_the_start(
    arguments, tiny_model, tiny_tokenizer, shorthand, command, tmp_path
):
    folder = tmp_path / "source"
    tiny_model("roberta").save_pretrained(folder, max_shard_size="50KB")
    tiny_tokenizer("roberta").save_pretrained(folder)
    shards = sorted(folder.glob("model-*.safetensors"))
    assert len(shards) > 2
    shards[1].unlink()
    line = [*arguments, folder]
    if arguments == ("adapt",):
        line = [*shorthand(tmp_path / "run")]
        line[line.index("--source") + 1] = folder
    if arguments == RETRIEVAL:
        (tmp_path / "eng-kor.tsv").write_text("one\ttwo\nthree\tfour\n")
        line += ["--pairs", tmp_path / "eng-kor.tsv", "--out", tmp_path / "out"]
    ended = command(*line)
    assert (ended.status, "Traceback" in ended.err) == (1, False)
    assert shards[1].name in ended.err
    assert not (tmp_path / "run" / "corpus").exists()
