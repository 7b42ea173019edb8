"""What test_bad_input.py does wrong with `lingraft retrieve` and `export-sentences`."""

from __future__ import annotations

import json
import shutil

import tiny_translators

GOOD = "A cat.\t고양이.\nTwo dogs.\t개 두 마리.\n"
TEXT = "a-1\tA cat.\na-2\tTwo dogs.\n"
OTHER = "b-1\t고양이.\nb-2\t개 두 마리.\n"


def add(cases):
    """Put the cases into the table of bad_input_cases.py."""
    pairs = {
        "pairs that are not there": ({}, ("pairs",)),
        "a directory without pairs": ({"pairs/a.txt": GOOD}, ("pairs",)),
        "a file of pairs whose name says no language": ({"pairs.tsv": GOOD}, ("pairs.tsv",)),
        "a file of pairs with three columns": (
            {"eng-kor.tsv": GOOD + "One.\t하나.\tmore\n"},
            ("eng-kor.tsv",),
        ),
        "pairs with an empty side": ({"eng-kor.tsv": GOOD + "One.\t\n"}, ("eng-kor.tsv",)),
        "an empty file of pairs": ({"eng-kor.tsv": ""}, ("eng-kor.tsv",)),
        "two sides with unequal line counts": (
            {"t.kor-eng.kor": "하나\n둘\n", "t.kor-eng.eng": "One\n"},
            ("t.kor-eng.kor",),
        ),
        "a side without the other": ({"t.kor-eng.kor": "하나\n"}, ("t.kor-eng.kor",)),
        "pairs in a language that is not there": (
            {"eng-kor.tsv": GOOD},
            ("eng-kor.tsv", "--languages", "de"),
        ),
        "a language of pairs twice": (
            {"eng-kor.tsv": GOOD},
            ("eng-kor.tsv", "--languages", "ko,ko"),
        ),
        "pairs of a language in two files": (
            {"eng-kor.tsv": GOOD, "kor-eng.tsv": GOOD},
            ("eng-kor.tsv", "kor-eng.tsv"),
        ),
        "a layer of retrieval that the model does not have": (
            {"eng-kor.tsv": GOOD},
            ("eng-kor.tsv", "--layer", "3"),
        ),
        "a pooling that does not exist": (
            {"eng-kor.tsv": GOOD},
            ("eng-kor.tsv", "--pool", "max"),
        ),
        "a parity that does not exist": (
            {"eng-kor.tsv": GOOD},
            ("eng-kor.tsv", "--parity", "laser"),
        ),
        "a depth that XTREME does not know": (
            {"eng-kor.tsv": GOOD},
            ("eng-kor.tsv", "--parity", "xtreme"),
        ),
        "dev pairs that are test pairs": (
            {"eng-kor.tsv": GOOD},
            ("eng-kor.tsv", "--dev", "eng-kor.tsv"),
        ),
        "gold pairs for retrieval": (
            {"eng-kor.tsv": GOOD, "gold.tsv": "a-1\tb-1\n"},
            ("eng-kor.tsv", "--gold", "gold.tsv"),
        ),
        "pairs and texts to mine in one call": (
            {"eng-kor.tsv": GOOD, "en": TEXT, "ko": OTHER},
            ("eng-kor.tsv", "--mine", "en", "ko"),
        ),
        "retrieval into the folder of other results": (
            {"eng-kor.tsv": GOOD, "out/results.jsonl": "{}\n"},
            ("eng-kor.tsv",),
        ),
    }
    for wrong, (files, arguments) in pairs.items():
        cases[wrong] = retrieve(files, "--pairs", *arguments)
    cases["retrieval without pairs"] = retrieve({})
    cases["retrieval without a model"] = lambda place: [
        *("retrieve", "--pairs", str(place.write("eng-kor.tsv", GOOD).name))
    ]
    cases["retrieval by an encoder–decoder"] = translator
    cases["a model twice"] = retrieve({"eng-kor.tsv": GOOD}, "source", "--pairs", "eng-kor.tsv")
    cases["a model and its copy"] = copied
    cases["two models of one name"] = namesakes
    mined = {
        "gold ids that are not there": ({"gold": "a-1\tb-9\n"}, ("--gold", "gold")),
        "gold pairs in one column": ({"gold": "a-1\n"}, ("--gold", "gold")),
        "an id twice": ({"ko": OTHER + "b-1\t하나\n"}, ()),
        "an empty sentence to mine": ({"ko": OTHER + "b-3\t\n"}, ()),
        "ids on some lines": ({"ko": OTHER + "하나\n"}, ()),
        "an empty text to mine": ({"ko": ""}, ()),
        "texts to tune on without gold pairs": ({}, ("--dev-mine", "en", "ko")),
        "texts to tune on with pairs that are scored": (
            {"gold": "a-1\tb-1\n"},
            ("--gold", "gold", "--dev-mine", "en", "ko", "--dev-gold", "gold"),
        ),
    }
    for wrong, (files, arguments) in mined.items():
        cases[wrong] = retrieve({"en": TEXT, "ko": OTHER} | files, "--mine", "en", "ko", *arguments)
    tasks = {
        "a task that finds no translations": ("xnli", "--data", "."),
        "translations of a task without its files": ("tatoeba", "--languages", "ko"),
        "translations of a task in a folder without them": (
            *("tatoeba", "--data", ".", "--languages", "ko"),
        ),
        "translations in a language that a task lacks": (
            *("bucc2018", "--data", ".", "--languages", "ko"),
        ),
        "gold pairs for a task that has its own": (*("bucc2018", "--data", ".", "--gold", "gold"),),
        "a threshold where nothing is mined": ("tatoeba", "--data", ".", "--threshold", "1"),
        "dev pairs where translations are mined": ("bucc2018", "--data", ".", "--dev", "pairs"),
    }
    for wrong, arguments in tasks.items():
        cases[wrong] = retrieve({}, "--task", *arguments)
    cases["a development set to mine without its pairs"] = retrieve(
        {f"de-en.{split}.{code}": text for split in ("test", "dev")
         for code, text in (("de", TEXT), ("en", OTHER))},
        *("--task", "bucc2018", "--data", ".", "--languages", "de"),
    )  # fmt: skip
    cases["results of retrieval alone to compare"] = lambda place: [
        *("compare", str(place.write("out/retrieve.json", "{}").parent.name))
    ]
    export(cases)


def retrieve(files, *arguments):
    """A case of `lingraft retrieve source …` beside these files."""

    def prepared(place):
        place.source()
        write(place, files)
        return ["retrieve", "source", *arguments, "--out", "out"]

    return prepared


def write(place, files):
    for name, content in files.items():
        place.write(name, content)


def translator(place):
    tiny_translators.save(place.folder / "bart", "bart")
    place.write("eng-kor.tsv", GOOD)
    return ["retrieve", "bart", "--pairs", "eng-kor.tsv", "--out", "out"]


def copied(place):
    shutil.copytree(place.source(), place.folder / "copy")
    place.write("eng-kor.tsv", GOOD)
    return ["retrieve", "source", "copy", "--pairs", "eng-kor.tsv", "--out", "out"]


def namesakes(place):
    shutil.copytree(place.source(), place.folder / "a" / "source")
    place.write("eng-kor.tsv", GOOD)
    return ["retrieve", "source", "a/source", "--pairs", "eng-kor.tsv", "--out", "out"]


def export(cases):
    cases["a sentence encoder from a layer that is not there"] = exported("--layer", "9")
    cases["a sentence encoder without special tokens"] = exported("--pool", "no-specials")
    cases["a sentence encoder into a folder that is not empty"] = exported(
        files={"sentences/thesis.tex": "mine"}
    )
    cases["a sentence encoder with adapters"] = adapters
    cases["a sentence encoder of an encoder–decoder"] = lambda place: [
        *("export-sentences", tiny_translators.save(place.folder / "bart", "bart").name),
        *("--out", "sentences"),
    ]
    cases["a layer from a folder without retrieval"] = exported(
        "--retrieval", "found", files={"found/results.jsonl": "{}\n"}
    )
    cases["a layer from retrieval of another model"] = exported(
        "--retrieval",
        "found",
        files={
            "found/retrieve.json": "{}",
            "found/results.jsonl": json.dumps(
                {"model_fingerprint": "other", "chosen": True, "layer": 1, "pool": "mean"}
            ),
        },
    )


def exported(*arguments, files=None):
    def prepared(place):
        place.source()
        write(place, files or {})
        return ["export-sentences", "source", *arguments, "--out", "sentences"]

    return prepared


def adapters(place):
    (place.source() / "adapters.json").write_text('{"width": 4}', "utf-8")
    return ["export-sentences", "source", "--out", "sentences"]
