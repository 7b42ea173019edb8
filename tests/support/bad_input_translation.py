"""What test_bad_input.py does wrong with translators and translations."""

from __future__ import annotations

import json

import bad_input_translators
from tiny_tokenizers import build
from tiny_translators import varied


def add(cases):
    """Put the cases into the table of bad_input_cases.py."""
    cases["a translator that is an encoder"] = encoder
    cases["a language where the translator has none"] = translated("--target-language", "de")
    cases["a translator that asks for a search that is code on the Hub"] = contrastive
    cases["a text to translate that is empty"] = translated(text="")
    cases["translations where a file is already"] = existing_file
    bad_input_translators.add(cases)


def translated(*more, text="a\n"):
    """`lingraft translate` by a tiny model."""

    def prepared(place):
        varied("bart").save_pretrained(place.folder / "translator")
        build("xlm-roberta").save_pretrained(place.folder / "translator")
        place.write("src.txt", text)
        return ["translate", "translator", "--text", "src.txt", "--out", "hyp.txt", *more]

    return prepared


def encoder(place):
    place.source()
    place.write("src.txt", "a\n")
    return ["translate", "source", "--text", "src.txt", "--out", "hyp.txt"]


def contrastive(place):
    arguments = translated()(place)
    path = place.folder / "translator" / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"penalty_alpha": 0.6, "top_k": 4}))
    return arguments


def existing_file(place):
    place.write("hyp.txt", "mine")
    return translated()(place)
