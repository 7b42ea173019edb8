"""What test_bad_input.py does wrong with causal models as sources."""

from __future__ import annotations

PHASE = '[[phases]]\nname = "one"\ntrain = ["all"]\nbudget.value = 4\nobjective = "{}"\n'


def add(cases):
    """Put the cases into the table of bad_input_cases.py."""
    cases["pieces of documents that are longer than the context"] = lambda place: causal(
        place, "--set", "tokenizer.max_tokens=1024"
    )
    cases["every token predicted by an encoder"] = lambda place: place.recipe(PHASE.format("clm"))
    cases["masked words in pairs with a causal model"] = pairs


def causal(place, *more):
    place.source("llama")
    return place.adapt(*more)


def pairs(place):
    place.source("llama")
    return place.recipe(PHASE.format("ca_mlm"))
