"""What test_bad_input.py does wrong with translators and translations."""

from __future__ import annotations

import json

import bad_input_translators
from tiny_tokenizers import build
from tiny_translators import varied

REFERENCE = "the house is small\nyes , sir\n"


def add(cases):
    """Put the cases into the table of bad_input_cases.py."""
    cases["a translator that is an encoder"] = encoder
    cases["a language where the translator has none"] = translated("--target-language", "de")
    cases["a translator that asks for a search that is code on the Hub"] = contrastive
    cases["a text to translate that is empty"] = translated(text="")
    cases["translations where a file is already"] = existing_file
    cases["translations with fewer lines than the reference"] = scored("the house\n")
    cases["a file of translations that is empty"] = scored("")
    cases["a score of translations that does not exist"] = scored(REFERENCE, "--metrics", "ter")
    cases["two systems of one name"] = scored(REFERENCE, "a=hyp.txt")
    cases["COMET without the source"] = scored(REFERENCE, "--export-comet", "comet")
    cases["files for COMET and scores at once"] = scored(
        REFERENCE, "--source", "src.txt", "--export-comet", "comet", "--out", "scores"
    )
    cases["COMET's scores of other translations"] = comet
    cases["a file that COMET did not write"] = no_comet
    cases["scores in a folder of other files"] = other_files
    cases["scores of translations without sacrebleu"] = no_sacrebleu
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


def scored(said, *more):
    """`lingraft score-translations` of one system."""

    def prepared(place):
        place.write("ref.txt", REFERENCE)
        place.write("hyp.txt", said)
        return ["score-translations", "--reference", "ref.txt", "a=hyp.txt", *more]

    return prepared


def comet(place):
    place.write("comet.json", '{"a.txt": [{"mt": "no", "COMET": 0.5}, {"mt": "yes", "COMET": 1}]}')
    return scored(REFERENCE, "--comet", "comet.json")(place)


def no_comet(place):
    place.write("comet.json", "[0.5]")
    return scored(REFERENCE, "--comet", "comet.json")(place)


def other_files(place):
    place.write("out/thesis.tex", "mine")
    return scored(REFERENCE, "--out", "out")(place)


def no_sacrebleu(place):
    place.hide("sacrebleu.significance")
    return scored(REFERENCE)(place)
