"""What test_bad_input.py does wrong where causal models are judged."""

from __future__ import annotations


def add(cases):
    """Put the cases into the table of bad_input_cases.py."""
    cases["a report over a file that is no page"] = report("notes.html")
    cases["a report in the place of a folder"] = report("run")
    cases["kept text with an encoder"] = kept_by("roberta")
    cases["kept text that is not there"] = kept
    cases["kept text that is trained on"] = kept_by("llama", replayed=True)
    cases["questions of a recipe of an earlier version"] = lambda place: place.recipe(
        '[evaluation]\nchoices = [{file = "quiz.jsonl"}]'
    )


def report(out):
    def prepared(place):
        place.run()
        place.write("notes.html", "<p>mine")
        return ["report", "run", "--out", out]

    return prepared


def kept_by(family, *, replayed=False):
    def prepared(place):
        place.source(family)
        place.write("en.txt", "It rained.\n")
        return place.adapt("--kept", "en.txt", *(["--replay", "en.txt"] if replayed else []))

    return prepared


def kept(place):
    place.source("llama")
    return place.adapt("--kept", "en.txt")
