"""What test_bad_input.py does wrong with sentence pairs and gold links."""

from __future__ import annotations

import json

SOURCE = "das haus ist klein\nja\n"
TARGET = "the house is small\nyes , sir\n"
GOOD = "0-0 1-1 2p2\n0-0\n"


def add(cases):
    """Put the cases into the table of bad_input_cases.py."""
    cases["gold links outside the sentence"] = scored("0-0 4-1\n0-0\n")
    cases["gold links counted from 1, read from 0"] = scored("1-1 4-4\n1-1\n")
    cases["gold links counted from 0, read from 1"] = scored("1 0 0 S\n2 0 2 P\n")
    cases["an unknown wish for gold links outside"] = scored(GOOD, "--outside", "keep")
    cases["a gold file in no known format"] = scored("0:0 1:1\n0:0\n")
    cases["a gold file of two formats"] = scored("0-0 1-1\n1 1 1 S\n")
    cases["gold links of more sentences than there are"] = scored("0-0\n0-0\n0-0\n")
    cases["a gold file without its sentences"] = lambda place: [
        *scored(GOOD)(place)[:3], "--out", "out"
    ]  # fmt: skip
    cases["a sure link outside the possible ones"] = rows([[0, 0], [1, 1]], [[0, 0]])
    cases["gold links that are no pairs of numbers"] = rows([[0, "0"]], [])
    cases["a gold set that is not there"] = lambda place: [
        *("align", "--baseline", "diagonal", "--gold", "gold.jsonl", "--out", "out")
    ]
    cases["two gold sets of one name"] = lambda place: [
        *rows([[0, 0]], [])(place), "--gold", "gold.jsonl"
    ]  # fmt: skip
    cases["more sentences to choose the layer on than a set has"] = scored(GOOD, "--dev", "2")
    cases["a baseline of alignments that does not exist"] = scored(GOOD, "--baseline", "fastalign")
    cases["a way to align that does not exist"] = scored(GOOD, "--method", "mwmf")
    cases["alignments in a folder of other files"] = other_files
    cases["alignments of another call in the folder"] = another_call
    cases["two sides that differ in length"] = plain(TARGET + "no\n")
    cases["an empty sentence"] = plain("the house is small\n \n")
    cases["one side without the other"] = lambda place: [
        *plain(TARGET)(place)[:4], "--out", "links.txt"
    ]  # fmt: skip
    cases["sentence pairs in three columns"] = three_columns
    cases["a layer that the model does not have"] = plain(TARGET, "--layer", "3")
    cases["a layer that is no number"] = plain(TARGET, "--layer", "last")
    cases["several layers for one file of links"] = plain(TARGET, "--layer", "1,2")
    cases["links where a file is already"] = existing_file


def scored(gold, *more):
    """`lingraft align` against gold links, by a baseline where no model is needed."""

    def prepared(place):
        place.write("gold.txt", gold)
        place.write("src.txt", SOURCE)
        place.write("trg.txt", TARGET)
        start = ["align", "--gold", "gold.txt", "--text", "src.txt", "trg.txt", "--out", "out"]
        return [*start, "--baseline", "diagonal", *more]

    return prepared


def rows(sure, possible):
    """`lingraft align` against JSON lines."""

    def prepared(place):
        row = {"src": ["das", "haus"], "tgt": ["the", "house"], "sure": sure, "possible": possible}
        place.write("gold.jsonl", json.dumps(row) + "\n")
        return ["align", "--baseline", "diagonal", "--out", "out", "--gold", "gold.jsonl"]

    return prepared


def plain(target, *more):
    """`lingraft align` of sentences without gold."""

    def prepared(place):
        place.source()
        place.write("src.txt", SOURCE)
        place.write("trg.txt", target)
        return ["align", "source", "--text", "src.txt", "trg.txt", "--out", "links.txt", *more]

    return prepared


def other_files(place):
    place.write("out/thesis.tex", "mine")
    return scored(GOOD)(place)


def another_call(place):
    place.write("out/align.json", json.dumps({"models": {"bert": "bert-base"}}))
    return scored(GOOD)(place)


def three_columns(place):
    place.source()
    place.write("pairs.tsv", "1\tdas haus\tthe house\n")
    return ["align", "source", "--text", "pairs.tsv", "--out", "links.txt"]


def existing_file(place):
    place.write("links.txt", "mine")
    return plain(TARGET)(place)
