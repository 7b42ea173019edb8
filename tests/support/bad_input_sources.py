"""What test_bad_input.py does wrong with `lingraft sources`."""

from __future__ import annotations

import json

ROBERTA = "source"


def add(cases):
    """Put the cases into the table of bad_input_cases.py."""
    cases["a choice without candidates"] = sources(candidates=None)
    cases["a candidate that is named twice"] = sources(candidates=f"{ROBERTA},{ROBERTA}")
    cases["a candidate that is not there"] = sources(candidates=f"{ROBERTA},./gone")
    cases["a candidate of another family"] = another_family
    cases["a candidate without a tokenizer"] = without_tokenizer
    cases["a text of a model that is no candidate"] = sources("--source-text", "bert=en.txt")
    cases["a candidate's text that is not there"] = sources(
        "--source-text", f"{ROBERTA}=nowhere.txt"
    )
    cases["a choice without a text"] = sources(text=())
    cases["a choice with a recipe and a text"] = with_recipe("--text", "ko.txt")
    cases["a choice for several languages"] = several
    cases["a choice for a method that takes no source weights"] = with_recipe(
        "--set", "method.name=scratch"
    )
    cases["a choice that keeps each source's vocabulary"] = with_recipe(
        "--set", "tokenizer.kind=keep"
    )
    cases["a choice into somebody's folder"] = occupied
    cases["a choice into a file"] = sources("--out", "ko.txt")


def sources(*more, candidates=ROBERTA, text=("--text", "ko.txt", "--lang", "ko")):
    """A case of `lingraft sources --facts-only` of `source` and `ko.txt`."""

    def prepared(place):
        place.text()
        place.source()
        named = [] if candidates is None else ["--candidates", candidates]
        return ["sources", *named, *text, "--facts-only", *more]

    return prepared


def with_recipe(*more):
    def prepared(place):
        path = place.recipe()[1]
        return ["sources", path, "--candidates", ROBERTA, "--facts-only", *more]

    return prepared


def several(place):
    place.text()
    place.text("en.txt")
    place.source()
    stream = '[[streams]]\nname = "{0}"\nlanguage = "{0}"\ncorpus.text = ["{0}.txt"]\n'
    place.write(
        "recipe.toml",
        f'[source]\nmodel = "{ROBERTA}"\n' + "".join(map(stream.format, ["ko", "en"])),
    )
    return ["sources", "recipe.toml", "--candidates", ROBERTA, "--facts-only"]


def another_family(place):
    place.write("gpt/config.json", json.dumps({"model_type": "gpt2"}))
    return sources(candidates=f"{ROBERTA},gpt")(place)


def without_tokenizer(place):
    for path in place.source().glob("*token*"):
        path.unlink()
    for name in ("vocab.json", "merges.txt"):
        (place.folder / ROBERTA / name).unlink(missing_ok=True)
    place.text()
    return [
        "sources",
        "--candidates",
        ROBERTA,
        *("--text", "ko.txt"),
        "--lang",
        "ko",
        "--facts-only",
    ]


def occupied(place):
    place.write("mine/thesis.tex", "My thesis.")
    return sources("--out", "mine")(place)
