"""What test_bad_input.py does wrong with `lingraft encoder-decoder`."""

from __future__ import annotations

import json


def add(cases):
    """Put the cases into the table of bad_input_cases.py."""
    cases["an encoder–decoder of a model that is none"] = of({"model_type": "gpt2"})
    cases["an encoder–decoder of an encoder–decoder"] = of({"model_type": "bart"})
    cases["an encoder–decoder of a family without a stock decoder"] = of(
        {"model_type": "modernbert"}
    )
    cases["a decoder with more layers than the encoder"] = made("--decoder-layers", "3")
    cases["BART of a model with other norms"] = made("--format", "bart")
    cases["a decoder that starts with what the vocabulary lacks"] = made("--decoder-start", "[de]")
    cases["a vocabulary trimmed to a text of nothing"] = made("--trim", "empty.txt")
    cases["a vocabulary trimmed to a text that is not there"] = made("--trim", "gone.txt")
    cases["an encoder–decoder into a folder that holds something"] = occupied


def of(settings):
    """A case of a model with such a config.json."""

    def prepared(place):
        place.write("source/config.json", json.dumps(settings))
        return ["encoder-decoder", "source", "--out", "made"]

    return prepared


def made(*options):
    """A case of an encoder of two layers with such options."""

    def prepared(place):
        place.source()
        place.write("empty.txt", "\n\n")
        return ["encoder-decoder", "source", "--out", "made", *options]

    return prepared


def occupied(place):
    place.source()
    place.write("made/thesis.tex", "x")
    return ["encoder-decoder", "source", "--out", "made"]
