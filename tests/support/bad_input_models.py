"""What test_bad_input.py does wrong with known models and `finetune --restore-source`."""

from __future__ import annotations

import json
import pickle
import shutil
import tomllib

import tomli_w


def add(cases):
    """Put the cases into the table of bad_input_cases.py."""
    cases["a known model that is not on the Hub"] = lambda place: place.adapt(
        "--source", "hyperclova"
    )
    for spelt, said in NAMES.items():
        cases[f"a model by a name that is {said}"] = named(spelt)
    cases["the root of the disk as a model"] = root
    for wrong, values in CONFIGURATIONS.items():
        cases[wrong] = configured(values)
    cases["a pickle in the place of weights"] = pickled("adapt")
    cases["an evaluation of a pickle in the place of weights"] = pickled("evaluate")
    cases["an evaluation of a model with fewer rows than its tokenizer has pieces"] = short
    cases["a vocabulary of a thousand million"] = lambda place: place.adapt(
        "--set", "tokenizer.vocab_size=1000000000"
    )
    for key in ("tokenizer.max_tokens", "hardware.row_tokens"):
        cases[f"{key} that no memory holds"] = too_long(key)
    cases["an architecture that no memory holds"] = huge
    cases["a source's parts put back into no run"] = lambda place: RESTORE
    cases["a source's parts put back into two runs"] = lambda place: [*RESTORE, "other"]
    cases["a source's parts put back where no weights were kept"] = restored(without_weights)
    cases["a source's parts put back where the source is gone"] = restored(without_source)
    cases["a source's parts put back where nothing trained"] = restored(untrained)
    cases["the parts of another source than the run's"] = with_another_source


RESTORE = ["finetune", "run", "--restore-source", "--task", "glue-sst2"]


NAMES = {" ": "empty", "hub:x": "a data set's", "~nosuchuser/x": "in the home of nobody"}
CONFIGURATIONS = {
    "a setting of another type than the model's": {"use_cache": 3},
    "a truth value in the place of the number of layers": {"num_hidden_layers": True},
    "a thousand million layers": {"num_hidden_layers": 1_000_000_000},
    "a number format that does not exist": {"dtype": "x"},
    "a kind of layer that does not exist": {"layer_types": ["x", "x"]},
    "a model that reads two tokens": {"max_position_embeddings": 2},
    "a source without a padding token's id": {"pad_token_id": None},
    "sizes of which no memory holds the tensors": {"vocab_size": 1_000_000_000},
}


def root(place):
    for name in ("train.tsv", "dev.tsv"):
        place.write(f"data/{name}", "sentence\tlabel\n" + "good\t1\nbad\t0\n" * 4)
    return ["finetune", "/", "--task", "glue-sst2", "--data", "data"]


def named(spelt):
    return lambda place: place.adapt("--source", spelt)


def too_long(key):
    return lambda place: place.adapt("--set", f"{key}=100000000000000")


def configured(values):
    """A case of `lingraft adapt` of a source whose config.json has such values."""

    def prepared(place):
        source = place.source()
        settings = json.loads((source / "config.json").read_text()) | values
        (source / "config.json").write_text(json.dumps(settings))
        return place.adapt()

    return prepared


def pickled(command):
    """A case of a checkpoint that holds a pickle of something else than tensors."""

    def prepared(place):
        source = place.source("bert")
        (source / "model.safetensors").unlink()
        with (source / "pytorch_model.bin").open("wb") as file:
            pickle.dump({"weights": shutil.rmtree}, file, protocol=2)
        adapt = place.adapt()
        return adapt if command == "adapt" else ["evaluate", "source", "--text", "ko.txt"]

    return prepared


def short(place):
    from transformers import AutoModelForMaskedLM

    model = AutoModelForMaskedLM.from_pretrained(place.source())
    model.resize_token_embeddings(300)
    model.save_pretrained(place.folder / "source")
    place.adapt()
    return ["evaluate", "source", "--text", "ko.txt"]


def huge(place):
    model = 'architecture = { model_type = "modernbert", hidden_size = 12000000 }'
    method = '[training]\nmethod = "scratch"\n[tokenizer]\nalgorithm = "unigram"\nvocab_size = 300'
    place.recipe(method, source=model)
    return ["adapt", "recipe.toml", "--out", "run"]


def restored(change):
    """A case of `lingraft finetune run --restore-source`, after `change` of that folder."""

    def prepared(place):
        change(place.run())
        return RESTORE

    return prepared


def untrained(run):
    recipe = tomllib.loads((run / "recipe.toml").read_text("utf-8"))
    del recipe["phases"]
    recipe["training"] = {"method": "untrained"}
    (run / "recipe.toml").write_text(tomli_w.dumps(recipe), "utf-8")


def without_weights(run):
    for phase in ("phase-1", "phase-2"):
        shutil.rmtree(run / phase / "best")


def without_source(run, place="./moved"):
    text = (run / "recipe.toml").read_text("utf-8")
    line = next(line for line in text.splitlines() if line.startswith("model = "))
    (run / "recipe.toml").write_text(text.replace(line, f'model = "{place}"'), "utf-8")


def with_another_source(place):
    place.source("bert")
    without_source(place.run(), "source")
    return RESTORE
