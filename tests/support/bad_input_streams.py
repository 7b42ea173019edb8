"""What test_bad_input.py does wrong with several texts."""

from __future__ import annotations

import shutil

STREAM = '[[streams]]\nname = "{}"\nlanguage = "{}"\ncorpus.text = ["{}"]\n'
TWO = STREAM.format("ko", "ko", "ko.txt") + STREAM.format("en", "en", "en.txt")
PHASE = '[[phases]]\nname = "one"\ntrain = ["all"]\nbudget.value = 4\n'


def add(cases):
    """Put the cases into the table of bad_input_cases.py."""
    cases["streams beside [corpus]"] = lambda place: place.recipe(TWO)
    cases["streams beside a language"] = recipe('language = "ko"', TWO)
    cases["a setting of one text where there are several"] = of_one_text
    cases["neither a text nor streams"] = recipe('language = "ko"', "")
    cases["two streams of one name"] = recipe("", STREAM.format("ko", "ko", "ko.txt") * 2)
    cases["two streams of one language and text"] = recipe(
        "", TWO + STREAM.format("more-korean", "kor", "ko.txt")
    )
    cases["a stream's name that cannot be a file"] = recipe(
        "", STREAM.format("k/o", "ko", "ko.txt")
    )
    cases["a stream in a language that does not exist"] = recipe(
        "", STREAM.format("ko", "korean", "ko.txt")
    )
    cases["a phase that reads a stream that is not there"] = recipe(
        "", TWO + PHASE + 'data = [{ stream = "de" }]'
    )
    cases["a stream that a phase reads twice"] = recipe(
        "", TWO + PHASE + 'data = [{ stream = "en" }, { stream = "en" }]'
    )
    cases["weights for some of a phase's streams"] = recipe(
        "", TWO + PHASE + 'data = [{ stream = "en", weight = 2 }, { stream = "ko" }]'
    )
    cases["a stream whose text is not there"] = recipe("", TWO)
    cases["a corpus of a recipe with several streams"] = lambda place: [
        *("corpus", "--recipe", recipe("", TWO)(place)[1], "--out", "corpus")
    ]
    cases["a text with its language beside one without"] = mixed
    cases["a stream of pairs whose sides are swapped"] = swapped_pairs
    cases["a stream without text to hold out"] = too_small
    cases["a stream whose text is empty"] = empty
    cases["a field of languages that no row has"] = no_field
    cases["a field of languages that holds their names"] = names
    cases["rows asked for in a text without fields"] = recipe(
        'training.preset = "xpt2021"', TWO + 'corpus.where = { lang = "en" }', "adapt"
    )
    cases["a vocabulary of a stream that is not there"] = recipe('tokenizer.streams = ["de"]', TWO)
    cases["a language that joins a run which has it"] = join("ko=ko.txt")
    cases["a language that joins nothing"] = join("de=ko.txt", run=None)
    cases["a language that joins a run without a model"] = join("de=ko.txt", run="unfinished")
    cases["a run to join beside a source"] = join("de=ko.txt", "--source", "source")
    cases["a mixture's alpha above 1"] = recipe("", TWO + PHASE + "mixture.alpha = 1.5")
    cases["a vocabulary's alpha below 0"] = recipe("tokenizer.alpha = -0.5", TWO)
    cases["a teacher without a stream in its language"] = recipe(
        "", STREAM.format("ko", "ko", "ko.txt") + '[training]\nmethod = "xlm-kd"'
    )
    cases["a teacher of another width"] = wider
    cases["a dictionary in the wrong direction"] = swapped
    cases["dictionaries for a method that reads none"] = unread
    pairs(cases)
    cases["a method that needs dictionaries, without any"] = recipe(
        "", TWO + '[training]\nmethod = "metaxlm-dict"'
    )
    cases["a setting of plain text on sentence pairs"] = recipe(
        'training.preset = "xpt2021"',
        STREAM.format("en-ko", "en/ko", "en-ko.tsv") + "corpus.max_train_sentences = 9",
    )
    cases["an initializer that needs vectors of the source language, without any"] = recipe(
        'training.preset = "xpt2021"\nembeddings.init = "wechsel"\n'
        'embeddings.lexicons = ["unread.tsv"]',
        TWO,
    )


def pairs(cases):
    """Cases of objectives on pairs."""
    cross = "graft.cross_attention = true"
    both = TWO + STREAM.format("en-ko", "en/ko", "en-ko.tsv")
    for wrong, start, streams, entry in (
        ("pairs without cross-attention", "", TWO, 'objective = "ca_mlm"'),
        ("translations asked of a text in one language", "", TWO, 'objective = "tlm"'),
        ("sentences and pairs in the same draws", "", TWO, 'also = ["tlm"]'),
        ("a longest side where sentences are read", "", TWO, "max_tokens = 64"),
    ):
        of = f'data = [{{ stream = "en", {entry} }}]'
        cases[wrong] = recipe(start, streams + PHASE + of)
    of = 'data = [{ stream = "en-ko", objective = "ca_mlm", also = ["ca_mlm"] }]'
    cases["an objective twice for the same draws"] = recipe(cross, both + PHASE + of)
    of = 'data = [{ stream = "en-ko", objective = "ca_mlm", reset_positions = true }]'
    cases["positions reset for nobody"] = recipe(cross, both + PHASE + of)
    of = 'packing = true\ndata = [{ stream = "en-ko", objective = "ca_mlm" }]'
    cases["pairs in blocks of sentences"] = recipe(cross, both + PHASE + of)
    alone = PHASE.replace('"all"', '"cross_attention"')
    of = 'data = [{ stream = "en-ko", objective = "ca_mlm", also = ["tlm"] }]'
    cases["a phase that trains what its objective never plugs in"] = recipe(
        cross, both + alone + of
    )
    cases["batches that alternate between streams of one kind"] = recipe(
        "", TWO + PHASE + 'mixture.draw = "alternate"'
    )
    cases["a size of batches of translations without alternation"] = recipe(
        "", both + PHASE + "mixture.bilingual_batch = 8"
    )
    cases["documents of one sentence for neighbouring stretches"] = recipe(
        "", STREAM.format("ko", "ko", "ko.txt") + '[training]\nmethod = "veco"', "adapt"
    )


def recipe(start, more, *command):
    """A case of `lingraft check`, or another command, of a recipe without [corpus]."""

    def prepared(place):
        place.text()
        place.source()
        place.write("recipe.toml", "\n".join([start, '[source]\nmodel = "source"', more]) + "\n")
        if command:
            place.text("en.txt")
            return [*command, "recipe.toml", "--out", "run"]
        return ["check", "recipe.toml"]

    return prepared


def of_one_text(place):
    place.text("en.txt")
    return place.adapt("--replay", "en=en.txt", "--set", "corpus.document=block")


def mixed(place):
    place.text()
    place.source()
    texts = ("--text", "ko=ko.txt", "--text", "en.txt")
    return ["adapt", "--source", "source", *texts, "--out", "run"]


def swapped_pairs(place):
    pairs = "".join(f"고양이가 {at} 번 잔다.\tThe cat sleeps {at} times.\n" for at in range(50))
    place.write("pairs.tsv", pairs)
    start = 'training.preset = "xpt2021"'
    return recipe(start, STREAM.format("en-ko", "en/ko", "pairs.tsv"), "adapt")(place)


def too_small(place):
    place.text()
    place.source()
    place.write("en.txt", "The tree is green.\n")
    texts = ("--text", "ko=ko.txt", "--text", "en=en.txt")
    return ["adapt", "--source", "source", *texts, "--steps", "2", "--out", "run"]


def empty(place):
    place.text()
    place.source()
    place.write("en.txt", "")
    texts = ("--text", "ko=ko.txt", "--text", "en=en.txt")
    return ["adapt", "--source", "source", *texts, "--steps", "2", "--out", "run"]


def swapped(place):
    place.text()
    place.source()
    words = {
        word for line in (place.folder / "ko.txt").read_text().split("\n") for word in line.split()
    }
    place.write("en-ko.txt", "".join(f"the\t{word}\n" for word in sorted(words)))
    texts = ("--text", "ko.txt", "--lang", "ko", "--lexicons", "en-ko.txt")
    method = ("--method", "metaxlm-dict", "--steps", "4", "--vocab-size", "2000")
    return ["adapt", "--source", "source", *texts, *method, "--out", "run"]


def unread(place):
    place.text()
    place.source()
    place.write("en-ko.txt", "나무\ttree\n")
    texts = ("--text", "ko.txt", "--lang", "ko", "--lexicons", "en-ko.txt")
    return ["adapt", "--source", "source", *texts, "--method", "metaxlm", "--steps", "4"]


def no_field(place):
    place.source()
    place.write("all.jsonl", '{"text": "The tree is green."}\n')
    field = ("--language-field", "lang")
    return ["adapt", "--source", "source", "--text", "all.jsonl", *field, "--out", "run"]


def names(place):
    place.source()
    place.write("all.jsonl", '{"text": "The tree is green.", "lang": "English"}\n')
    field = ("--language-field", "lang")
    return ["adapt", "--source", "source", "--text", "all.jsonl", *field, "--out", "run"]


def join(text, *more, run="finished"):
    """A case of a text that joins a run."""

    def prepared(place):
        place.text()
        if run is not None:
            path = place.run()
            if run == "unfinished":
                shutil.rmtree(path / "model")
        return ["adapt", "--join", "run", "--text", text, "--out", "joined", *more]

    return prepared


def wider(place):
    place.text("en.txt")
    place.source()
    place.model_of("roberta", hidden_size=64).save_pretrained(place.folder / "wide")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(place.folder / "source" / name, place.folder / "wide")
    place.write(
        "recipe.toml",
        """
source.model = "source"
tokenizer = { vocab_size = 300, max_tokens = 32 }
hardware.row_tokens = 32
[[streams]]
name = "en"
language = "en"
corpus = { text = ["en.txt"], scripts = ["Hang"] }
[[phases]]
name = "phase-1"
train = ["all"]
budget.value = 2
distil.teacher = "wide"
""",
    )
    return ["adapt", "recipe.toml", "--out", "run"]
