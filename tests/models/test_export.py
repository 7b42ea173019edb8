import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_shapes import ENCODERS
from transformers import AutoConfig, Starcoder2Config, Starcoder2ForSequenceClassification

from lingraft.errors import DataError
from lingraft.models.export import (
    check_reload,
    dtype_of,
    save,
    settings_for_4_57,
    vocabulary_settings,
    write_model,
)
from lingraft.models.families import FAMILIES
from lingraft.models.graft import VocabularyTensors, rebuild
from lingraft.models.loading import load
from lingraft.models.plans import layer_plan
from lingraft.pretrained import checksums
from lingraft.recipe import Tokenizer
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.vocabulary import Vocabulary

SENTENCE = "문서를 열고 형식을 선택한 다음 폴더에 저장합니다."
# Nothing of lingraft can be imported here: -I leaves out PYTHONPATH and the current folder, and an
# installed copy is hidden by the finder in front of all others.
STRANGER = """
import json, sys, warnings
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "lingraft":
            raise ImportError("lingraft is not here")
sys.meta_path.insert(0, Hidden())
try:
    import lingraft
except ImportError:
    hidden = True
else:
    hidden = False
import torch
from pathlib import Path
from transformers import AutoModelForMaskedLM, AutoTokenizer
answers = {}
for folder in sorted(Path(sys.argv[1]).iterdir()):
    model, info = AutoModelForMaskedLM.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True
    )
    tokenizer = AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(sys.argv[2], return_tensors="pt")
    with torch.no_grad():
        logits = model.eval()(**batch).logits
    torch.save(logits, folder / "logits.pt")
    answers[folder.name] = {
        "class": type(model).__name__,
        "info": {key: sorted(map(str, value)) for key, value in info.items()},
        "inputs": sorted(batch),
        "ids": batch["input_ids"][0].tolist(),
        "text": tokenizer.decode(batch["input_ids"][0], skip_special_tokens=True),
        "mask": tokenizer.mask_token_id,
    }
modules = [name for name in sys.modules if name.partition(".")[0] == "lingraft"]
print(json.dumps({"hidden": hidden, "modules": modules, "answers": answers}))
"""


def grafted(family, model, tokenizer):
    """The tiny model with a Korean vocabulary and a layer at each end."""
    vocabulary = Vocabulary.of(tokenizer)
    generator = torch.Generator().manual_seed(2)
    width = model.get_input_embeddings().weight.shape[1]
    rows = torch.randn(vocabulary.size, width, generator=generator)
    target, _ = rebuild(
        model,
        FAMILIES[family],
        layer_plan(2, 1, 1, "random"),
        config_changes=vocabulary_settings(model.config, vocabulary),
        seed=0,
        vocabulary=VocabularyTensors(rows, torch.randn(vocabulary.size, generator=generator)),
    )
    return target.eval()


@pytest.fixture(scope="module")
def exported(tiny_model, tiny_tokenizer, tiny_text, tmp_path_factory):
    """Models and tokenizers of all families, each written to a folder of its name."""
    root, made = tmp_path_factory.mktemp("exported"), {}
    for family in ENCODERS:
        record = FAMILIES[family]
        tokenizer = tokenizer_files.train(
            Tokenizer(vocab_size=380, character_coverage=1.0),
            tiny_tokenizer(family),
            lambda: tiny_text,
            pad_id=1 if record.pad_decides_positions else None,
            seed=0,
        )
        model = grafted(family, tiny_model(family), tokenizer)
        write_model(model, root / family)
        tokenizer_files.save(tokenizer, root / family)
        made[family] = (model, tokenizer)
    return root, made


@pytest.fixture(scope="module")
def stranger(exported):
    """What a process without lingraft found in the folders."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", STRANGER, str(exported[0]), SENTENCE],
        capture_output=True,
        text=True,
        check=False,
        cwd=exported[0],
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_the_stranger_cannot_import_lingraft(stranger):
    assert stranger["hidden"]
    assert stranger["modules"] == []
    assert set(stranger["answers"]) == set(ENCODERS)


@pytest.mark.parametrize("family", ENCODERS)
@pytest.mark.slow
def test_an_export_loads_without_lingraft_and_gives_equal_logits(family, exported, stranger):
    root, made = exported
    model, tokenizer = made[family]
    answer = stranger["answers"][family]
    assert answer["class"] == type(model).__name__
    assert not any(answer["info"].values()), answer["info"]
    assert {"missing_keys", "unexpected_keys", "mismatched_keys"} <= answer["info"].keys()
    assert answer["ids"] == tokenizer(SENTENCE)["input_ids"]
    assert (answer["text"], answer["mask"]) == (SENTENCE, tokenizer.mask_token_id)
    with torch.no_grad():
        expected = model(**tokenizer(SENTENCE, return_tensors="pt")).logits
    torch.testing.assert_close(torch.load(root / family / "logits.pt"), expected)


@pytest.mark.parametrize("family", ENCODERS)
def test_an_export_holds_safetensors_and_no_code(family, exported):
    names = {path.name for path in (exported[0] / family).iterdir()} - {"logits.pt"}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= names
    assert not [name for name in names if name.endswith((".bin", ".py", ".pt"))]
    config = json.loads((exported[0] / family / "config.json").read_text())
    assert "auto_map" not in config
    assert config["num_hidden_layers"] == 4


@pytest.mark.parametrize("family", ENCODERS)
def test_the_special_ids_of_the_config_are_those_of_the_tokenizer(family, exported):
    root, made = exported
    _, tokenizer = made[family]
    config = json.loads((root / family / "config.json").read_text())
    assert config["vocab_size"] == len(tokenizer)
    for key, index in (
        ("pad_token_id", tokenizer.pad_token_id),
        ("bos_token_id", tokenizer.cls_token_id),
        ("eos_token_id", tokenizer.sep_token_id),
    ):
        assert config.get(key, index) == index
    assert config["pad_token_id"] == tokenizer.pad_token_id
    assert config.get("tokenizer_class") is None


def test_ids_that_the_source_leaves_empty_stay_empty(tiny_model, exported):
    source = tiny_model("bert", bos_token_id=None, eos_token_id=None)
    changes = vocabulary_settings(source.config, Vocabulary.of(exported[1]["bert"][1]))
    assert changes.keys() == {"vocab_size", "tokenizer_class", "pad_token_id"}


def test_a_faithful_checkpoint_passes_the_check(exported):
    root, made = exported
    for family in ENCODERS:
        check_reload(made[family][0], root / family)


def changed(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / checksums.FILE).unlink()


def test_a_changed_weight_is_found(tiny_model, tmp_path):
    model = tiny_model("bert")
    write_model(model, tmp_path)
    changed(tmp_path, lambda tensors: tensors["bert.embeddings.LayerNorm.weight"].mul_(1.01))
    with pytest.raises(DataError, match="the exported checkpoint gives other logits"):
        check_reload(model, tmp_path)


def test_a_weight_that_is_not_a_number_is_found(tiny_model, tmp_path):
    model = tiny_model("bert")
    write_model(model, tmp_path)
    changed(tmp_path, lambda tensors: tensors["cls.predictions.bias"].fill_(float("nan")))
    with pytest.raises(DataError, match="gives other logits"):
        check_reload(model, tmp_path)


@pytest.mark.parametrize("name", ["bert.encoder.layer.1.output.dense.bias", "stray"])
def test_a_missing_or_stray_tensor_is_found(name, tiny_model, tmp_path):
    model = tiny_model("bert")
    write_model(model, tmp_path)
    if name == "stray":
        changed(tmp_path, lambda tensors: tensors.update(stray=torch.zeros(2)))
    else:
        changed(tmp_path, lambda tensors: tensors.pop(name))
    with pytest.raises(DataError, match=r"not load cleanly|lack 1 tensors") as caught:
        check_reload(model, tmp_path)
    assert name in str(caught.value)


def test_a_tokenizer_that_transformers_reads_otherwise_beside_the_model_is_found(
    tiny_model, tiny_tokenizer, tmp_path
):
    model = tiny_model("qwen2")
    write_model(model, tmp_path)
    tokenizer_files.save(tiny_tokenizer("qwen2"), tmp_path)
    check_reload(model, tmp_path)
    tokenizer_files.save(tiny_tokenizer("gpt2"), tmp_path)
    with pytest.raises(DataError, match=r"gives other ids .* loads a Qwen2Tokenizer beside this"):
        check_reload(model, tmp_path)


@pytest.mark.parametrize("family", ["bert", "roberta", "deberta-v2"])
def test_an_untied_head_has_the_bias_that_trained_under_both_names(family, tiny_model, tmp_path):
    model = tiny_model(family, tie_word_embeddings=False)  # 4.57's BERT reads the first of them
    first, last = FAMILIES[family].output_bias
    trained = model.get_parameter(last).detach().clone()
    assert not model.get_parameter(first).equal(trained)
    write_model(model, tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    assert stored[first].equal(trained)
    assert stored[last].equal(trained)


def test_the_mask_token_of_eurobert_s_config_is_that_of_the_new_vocabulary(tiny_model, exported):
    vocabulary = Vocabulary.of(exported[1]["bert"][1])
    changes = vocabulary_settings(tiny_model("eurobert", mask_token_id=300).config, vocabulary)
    assert changes["mask_token_id"] == vocabulary.specials["mask"] != 300
    assert "mask_token_id" not in vocabulary_settings(tiny_model("bert").config, vocabulary)


def test_the_older_transformers_finds_modernberts_thetas_and_rhythm(tiny_model, tmp_path):
    rope = {
        "full_attention": {"rope_type": "default", "rope_theta": 80_000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 5_000.0},
    }
    kinds = ["full_attention", "sliding_attention", "sliding_attention"] * 2
    model = tiny_model("modernbert", num_hidden_layers=6, layer_types=kinds, rope_parameters=rope)
    write_model(model, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["global_rope_theta"] == 80_000.0
    assert config["local_rope_theta"] == 5_000.0
    assert config["global_attn_every_n_layers"] == 3
    assert config["layer_types"] == kinds
    check_reload(model, tmp_path)


@pytest.mark.parametrize(
    ("kinds", "rhythm"),
    [
        ("gggg", 1),
        ("glgl", 2),
        ("gllgll", 3),
        ("glll", 4),
        ("ggllgllgg", 4),  # gllgllg with a layer at each end: no rhythm fits, 4 errs in two layers
    ],
)
def test_the_rhythm_of_global_layers_is_the_nearest_one(kinds, rhythm):
    names = {"g": "full_attention", "l": "sliding_attention"}
    config = {"model_type": "modernbert", "layer_types": [names[kind] for kind in kinds]}
    assert settings_for_4_57(config)["global_attn_every_n_layers"] == rhythm


def test_a_model_without_a_record_keeps_its_base_in_the_older_transformers_too(tmp_path):
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "vocab_size": 32}
    shape |= {"num_attention_heads": 2, "num_key_value_heads": 2}
    rope = {"rope_type": "linear", "factor": 2.0, "rope_theta": 5e5}
    config = Starcoder2Config(**shape, rope_parameters=rope)
    assert config.model_type not in FAMILIES
    write_model(Starcoder2ForSequenceClassification(config), tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    assert (written["rope_theta"], written["rope_scaling"]) == (
        5e5,
        {"rope_type": "linear", "factor": 2.0},
    )
    assert written["rope_parameters"]["rope_theta"] == 5e5
    by_kind = {"full_attention": {"rope_type": "default", "rope_theta": 5e5}}
    assert settings_for_4_57({"model_type": "starcoder2", "rope_parameters": by_kind}) == {}
    assert settings_for_4_57({"model_type": "mpnet"}) == {}


@pytest.mark.parametrize("family", ["llama", "t5"])
def test_settings_of_generation_without_effect_are_written_as_they_are(
    family, tiny_model, tmp_path
):
    model = tiny_model(family)
    plain = tmp_path / "plain"
    model.save_pretrained(plain)
    save(model, tmp_path / "same")
    name = "generation_config.json"
    assert (tmp_path / "same" / name).read_bytes() == (plain / name).read_bytes()
    told = json.loads((plain / name).read_text()) | {"temperature": 0.9, "length_penalty": 0.6}
    (plain / name).write_text(json.dumps(told))
    changed, _ = load(str(plain))
    changed.generation_config.update(eos_token_id=5)
    save(changed, tmp_path / "changed")
    again = load(str(tmp_path / "changed"))[0].generation_config
    assert (again.temperature, again.length_penalty, again.eos_token_id) == (0.9, 0.6, 5)
    assert changed.generation_config.temperature == 0.9


@pytest.mark.parametrize("family", ["roberta", "llama", "gemma2", "t5"])
def test_numbers_are_stored_as_the_source_has_them(family, tiny_model, tmp_path):
    model = tiny_model(family).eval()
    ids = torch.arange(5, 25).view(2, 10)
    inputs = {"input_ids": ids} | ({"decoder_input_ids": ids} if family == "t5" else {})
    with torch.no_grad():
        expected = model(**inputs).logits
    model.config.save_pretrained(tmp_path / "source")
    config = json.loads((tmp_path / "source" / "config.json").read_text()) | {"dtype": "bfloat16"}
    (tmp_path / "source" / "config.json").write_text(json.dumps(config))
    source = AutoConfig.from_pretrained(tmp_path / "source")
    write_model(model, tmp_path / "made", dtype_of(source))
    check_reload(model, tmp_path / "made")
    stored = load_file(tmp_path / "made" / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.bfloat16}
    again = type(model).from_pretrained(tmp_path / "made", dtype="auto").eval()
    assert again.dtype == torch.bfloat16
    with torch.no_grad():
        logits = again.float()(**inputs).logits
    assert (logits - expected).abs().mean() < 1e-2
    assert dtype_of(source, "fp32") == dtype_of(None) == torch.float32
