"""What is wrong about fine-tuning with cross-attention plugged in."""

import json

import lingraft
from lingraft.models import cross_attention, loading
from lingraft.models.families import FAMILIES

OWN = """
name = "words"
kind = "tagging"
labels = ["N", "V"]
files = { train = "train.jsonl", dev = "train.jsonl" }
translations = { train = "other.jsonl" }
"""
CALL = ["finetune", "source", "--plug", "in", "--seeds", "1", "--task"]


def veco(place):
    """The source with cross-attention."""
    folder = place.source()
    model = lingraft.load(folder)
    cross_attention.insert(model, FAMILIES["roberta"], model.config.num_hidden_layers)
    loading.save(model, folder)


def pawsx(veco=veco, translated=True, more=()):
    """A case of PAWS-X in Korean, with translations or without."""

    def prepared(place):
        veco(place)
        row = {"sentence1": "a", "sentence2": "b"}
        if translated:
            row |= {"translation": "a", "translation_pair": "b"}
        rows = [json.dumps({"id": i, **row, "label": str(i % 2)}) + "\n" for i in range(4)]
        for split in ("train", "dev", "test"):
            place.write(f"data/{split}-ko.jsonl", "".join(rows))
        return [*CALL, "pawsx", "--data", "data", "--train-language", "ko", *more]

    return prepared


def words(*more, tagged=False):
    """A case of a tagging task of one's own with translations."""

    def prepared(place):
        veco(place)
        row = {"id": "0", "words": ["a", "b"]}
        with_tags = json.dumps(row | {"tags": ["N", "V"]}) + "\n"
        place.write("train.jsonl", with_tags)
        place.write("other.jsonl", with_tags if tagged else json.dumps(row) + "\n")
        place.write("words.toml", OWN)
        return [*CALL, "words.toml", *more]

    return prepared


def plugged_out(place):
    place.source()
    return ["finetune", "source", "--task", "pawsx-ko", "--data", "data", "--teacher", "source"]


def add(cases):
    cases |= {
        "a model without cross-attention that is plugged in": pawsx(lambda p: p.source()),
        "a plug that is neither in nor out": pawsx(more=("--plug", "on")),
        "a plugged-in training without translations": pawsx(translated=False),
        "translations without tags and without a teacher": words(),
        "a teacher that was not fine-tuned": words("--teacher", "source"),
        "a teacher without anything to tag": words("--teacher", "source", tagged=True),
        "a teacher of a model that is plugged out": plugged_out,
        "a temperature without a teacher": words("--set", "plug_in.temperature=2"),
    }
