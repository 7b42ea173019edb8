"""What test_bad_input.py does wrong where causal models are judged."""

from __future__ import annotations

import json

QUESTION = {"context": "비가 왔다. 그래서", "choices": ["우산을 썼다.", "해가 났다."], "label": 0}
COPA = {"premise": "비가 왔다.", "question": "결과", "alternative_1": "가", "alternative_2": "나"}


def add(cases):
    """Put the cases into the table of bad_input_cases.py."""
    cases["nothing to evaluate on"] = nothing
    cases["a shape without questions"] = lambda place: evaluation(place, "--shape", "copa")
    cases["questions that are not there"] = lambda place: questions(place, None)
    cases["questions for a masked language model"] = lambda place: questions(place, QUESTION)
    cases["questions whose columns are those of a benchmark"] = lambda place: questions(
        place, COPA | {"label": 0}, family="llama"
    )
    cases["a question without its right choice"] = lambda place: questions(
        place, QUESTION | {"label": 2}, family="llama"
    )
    cases["a shape that does not exist"] = lambda place: questions(
        place, QUESTION, "--shape", "kopa", family="llama"
    )
    cases["results of the harness that are none"] = results
    cases["a report over a file that is no page"] = report("notes.html")
    cases["a report in the place of a folder"] = report("run")
    cases["kept text with an encoder"] = kept_by("roberta")
    cases["kept text that is not there"] = kept
    cases["kept text that is trained on"] = kept_by("llama", replayed=True)
    cases["questions of a recipe that are not there"] = lambda place: place.recipe(
        '[evaluation]\nchoices = [{file = "quiz.jsonl"}]'
    )


def nothing(place):
    place.source("llama")
    return ["evaluate", "source"]


def evaluation(place, *more):
    place.source("llama")
    return ["evaluate", "source", "--text", place.text().name, *more]


def questions(place, record, *more, family="bert"):
    place.source(family)
    if record is not None:
        place.write("quiz.jsonl", json.dumps(record, ensure_ascii=False) + "\n")
    return ["evaluate", "source", "--choices", "quiz.jsonl", *more]


def report(out):
    def prepared(place):
        place.run()
        place.write("notes.html", "<p>mine")
        return ["report", "run", "--out", out]

    return prepared


def results(place):
    place.run()
    place.write("results.json", '{"acc": 0.5}')
    return ["report", "run", "--lm-eval", "results.json"]


def kept_by(family, *, replayed=False):
    def prepared(place):
        place.source(family)
        place.write("en.txt", "It rained.\n")
        return place.adapt("--kept", "en.txt", *(["--replay", "en.txt"] if replayed else []))

    return prepared


def kept(place):
    place.source("llama")
    return place.adapt("--kept", "en.txt")
