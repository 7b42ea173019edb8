"""What test_bad_input.py does wrong with options that would have no effect."""

CORPUS = ("corpus", "ko.txt", "--lang", "ko", "--out", "corpus")


def add(cases):
    """Put the cases behind those that there are."""
    cases["columns without pairs"] = call(*CORPUS, "--columns", "1,2")
    cases["a folder of tasks without a task"] = call(*CORPUS, "--data", "data")
    cases["an executor for pairs"] = call(*CORPUS, "--parallel", "en", "--executor", "ray")
    cases["a seed for copying the demo's files"] = call(
        "demo", "--files-to", "files", "--seed", "3"
    )
    cases["a seed of masks for a causal model"] = causal("--text", "ko.txt", "--seed", "3")
    cases["a language of sentences for a causal model"] = causal("--text", "ko.txt", "--lang", "ko")
    cases["a language beside texts that name theirs"] = lambda place: place.adapt(
        text="de=ko.txt", lang="de"
    )
    cases["no text to be scored on"] = none_held_out("test")
    cases["no text to watch the training by"] = none_held_out("valid")


def causal(*more):
    def prepared(place):
        place.source("llama")
        place.text()
        return ["evaluate", "source", *more]

    return prepared


def none_held_out(split):
    def prepared(place):
        return place.adapt("--set", f"corpus.{split}=0")

    return prepared


def call(*arguments):
    return lambda place: arguments
