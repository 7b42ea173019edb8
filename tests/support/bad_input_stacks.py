"""What test_bad_input.py does wrong with encoder–decoders as sources."""

from __future__ import annotations

import json

PHASE = '[[phases]]\nname = "one"\ntrain = ["all"]\nbudget.value = 4\nobjective = "{}"\n'


def add(cases):
    """Put the cases into the table of bad_input_cases.py."""
    cases["a decoder that starts with no special token"] = of("bart", decoder_start_token_id=77)
    cases["a language of which the source has no code"] = of(
        "m2m_100", more=("--set", "language=jje")
    )
    cases["a language code that is spelt otherwise"] = of(
        "mbart", more=("--set", "tokenizer.language_code=korean")
    )
    cases["a language code for a source that has none"] = lambda place: place.adapt(
        "--set", "tokenizer.language_code=ko_KR"
    )
    cases["denoising with an encoder"] = lambda place: place.recipe(PHASE.format("denoise"))
    cases["pairs with an encoder–decoder"] = pairs
    cases["sentinels that the source lacks"] = of(
        "bart", more=("--set", "phases.0.masking.scheme=spans")
    )
    cases["adapters in an encoder–decoder"] = of("bart", more=("--method", "adapters"))
    cases["an evaluation of an encoder–decoder on masked words"] = evaluation


def of(family, more=(), **values):
    def case(place):
        path = place.source(family) / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | values))
        return place.adapt(*more)

    return case


def pairs(place):
    place.source("bart")
    place.write("en-ko.tsv", "a house\t집이다\n" * 40)
    stream = '[[streams]]\nname = "x"\nlanguage = "en/ko"\ncorpus.text = ["en-ko.tsv"]\n'
    place.write("recipe.toml", f'[source]\nmodel = "source"\n{stream}{PHASE.format("tlm")}')
    return ["check", "recipe.toml"]


def evaluation(place):
    place.text()
    place.source("bart")
    return ["evaluate", "source", "--text", "ko.txt"]
