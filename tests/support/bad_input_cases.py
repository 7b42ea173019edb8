"""What test_bad_input.py does wrong: `CASES`, by the words of docs/errors.md.

Each case is a function that sets a `Place` up and gives the arguments of the command.
"""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import shutil
from pathlib import Path

import bad_input_alignment
import bad_input_budgets
import bad_input_corpora
import bad_input_demo
import bad_input_documents
import bad_input_encoder_decoder
import bad_input_families
import bad_input_idle
import bad_input_judging
import bad_input_models
import bad_input_plugged
import bad_input_retrieval
import bad_input_rows
import bad_input_stacks
import bad_input_streams
import bad_input_studies
import bad_input_tasks
import bad_input_transfer
import bad_input_translation
import bad_input_translators
import bad_input_vocabularies

from lingraft.pipeline import checks
from lingraft.recipe.record import AUTO
from lingraft.recipe.records import METHODS

SOURCE = 'model = "source"'
ENGLISH = "The quick brown fox jumps over the lazy dog number {}.\n"


class Place:
    """The working directory of a case, with what cases are made of."""

    def __init__(self, folder, korean_text, fixtures, hide):
        self.folder, self.korean_text = folder, korean_text
        self.hide = hide
        self.source_of, self.model_of, self.finished = fixtures
        self.lock = None

    def source(self, family="roberta"):
        return Path(shutil.copytree(self.source_of(family), self.folder / "source"))

    def text(self, name="ko.txt"):
        return Path(shutil.copy(self.korean_text, self.folder / name))

    def run(self):
        """A finished run, of `source` and `ko.txt`."""
        shutil.copytree(self.finished("roberta"), self.folder / "run")
        return self.folder / "run"

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        data = content if isinstance(content, bytes) else content.encode()
        path.write_bytes(data)
        return path

    def adapt(self, *more, text="ko.txt", lang="ko"):
        """The short form, with a text and a source where the case has made none."""
        if text == "ko.txt" and not (self.folder / text).exists():
            self.text()
        if not (self.folder / "source").exists():
            self.source()
        start = ["adapt", "--source", "source", "--text", text, "--lang", lang, "--out", "run"]
        size = ["--set", "tokenizer.vocab_size=300"]
        return [*start, "--preset", "xpt2021", "--steps", "4", *size, *more]

    def recipe(self, more="", start='language = "ko"', corpus='text = ["ko.txt"]', source=SOURCE):
        """`lingraft check` of a recipe."""
        if not (self.folder / "ko.txt").exists():
            self.text()
        if SOURCE in source and not (self.folder / "source").exists():
            self.source()
        if "preset" not in more and "[[phases]]" not in more:  # else a budget is missing, too
            preset = 'preset = "xpt2021"\n'
            start += "" if "[training]" in more or "method." in start else f"\nmethod.{preset}"
            name = (
                more.partition("[training]")[2].partition('name = "')[2].partition('"')[0] or "xpt"
            )
            if name in METHODS and METHODS[name].preset == AUTO:
                more = more.replace("[training]\n", f"[training]\n{preset}")
        tables = [start, "[source]", source, "[corpus]", corpus, more]
        self.write("recipe.toml", "\n".join(tables) + "\n")
        return ["check", "recipe.toml"]


PHASE = '[[phases]]\nname = "{}"\ntrain = ["{}"]\nbudget.value = 4\n'
MODERN = 'architecture = { model_type = "modernbert" }'
CASES = {}


def case(wrong):
    """Registers a function that sets a case up and gives the command's arguments."""

    def add(function):
        CASES[wrong] = function
        return function

    return add


def text_case(wrong, name, content):
    """A case of one bad text file."""

    @case(wrong)
    def _(place):
        place.write(name, content)
        return place.adapt(text=name)


def recipe_case(wrong, more="", **parts):
    """A case of one bad recipe."""
    CASES[wrong] = lambda place: place.recipe(more, **parts)


def adapt_case(wrong, *more, **options):
    """A case of bad options of `lingraft adapt`."""
    CASES[wrong] = lambda place: place.adapt(*more, **options)


def source_case(wrong, name, change):
    """A case of one bad file of the source; None deletes it."""

    @case(wrong)
    def _(place):
        path = place.source() / name
        changed = change(path.read_bytes()) if change else None
        path.unlink()
        if changed is not None:
            path.write_bytes(changed)
        return place.adapt()


def configured(**values):
    return lambda data: json.dumps(json.loads(data) | values).encode()


# -- text --------------------------------------------------------------------------------------

adapt_case("a text file that is not there", text="missing.txt")
adapt_case("a text in the home of a user who does not exist", text="~nobody-here/ko.txt")
text_case("an empty text file", "ko.txt", "")
text_case("a file of another kind", "ko.docx", b"PK\x03\x04")
text_case("a gzip file that is cut short", "ko.txt.gz", gzip.compress(b"a" * 9999, mtime=0)[:30])
text_case("a file that is called .gz and is none", "ko.txt.gz", "가나다\n" * 50)
text_case("text in EUC-KR", "ko.txt", ("문서를 열고 저장합니다.\n" * 50).encode("euc-kr"))
text_case("text in UTF-16", "ko.txt", ("문서를 열고 저장합니다.\n" * 50).encode("utf-16"))
text_case("text in another language's script", "ko.txt", "".join(map(ENGLISH.format, range(99))))
text_case("JSON lines without the text's field", "ko.jsonl", '{"body": "문서를 열다"}\n' * 9)
text_case("JSON lines that are no JSON", "ko.jsonl", "문서를 열다\n" * 9)


@case("a field of languages that no document has")
def _(place):
    place.write("ko.jsonl", '{"text": "문서를 열다"}\n' * 9)
    return place.adapt("--language-field", "lang", text="ko.jsonl")


text_case("a Parquet file that is none", "ko.parquet", "문서를 열다\n" * 9)


@case("a directory without text")
def _(place):
    place.write("texts/readme.md", "no text")
    return place.adapt(text="texts")


text_case("too few documents to hold some out", "ko.txt", "문서를 열고 저장합니다.\n")

# -- source ------------------------------------------------------------------------------------

adapt_case("a source directory that is not there", "--source", "./missing")
source_case("a source without config.json", "config.json", None)
source_case("a source whose config.json is broken", "config.json", lambda data: b'{"a": ')
source_case("a source whose config.json is a list", "config.json", lambda data: b"[]")
source_case("a source of a family that is not known", "config.json",
            configured(model_type="funnel"))  # fmt: skip
source_case("weights of another architecture than config.json says", "config.json",
            configured(model_type="gpt2"))  # fmt: skip
source_case("a source without weights", "model.safetensors", None)
source_case("weights that are cut short", "model.safetensors", lambda data: data[:9_999])
source_case("weights that are no safetensors file", "model.safetensors", lambda data: b"x" * 99)
source_case("weights of other sizes than config.json says", "config.json",
            configured(hidden_size=64))  # fmt: skip
source_case("a source whose tokenizer is broken", "tokenizer.json", lambda data: data[:999])


@case("a source without a tokenizer")
def _(place):
    for path in place.source().glob("tokenizer*"):
        path.unlink()
    return place.adapt()


# -- recipes -----------------------------------------------------------------------------------

CASES["a recipe that is not there"] = lambda place: ["adapt", "missing.toml", "--out", "run"]
CASES["a directory in a recipe's place"] = lambda place: ["adapt", ".", "--out", "run"]
CASES["a folder without a model that is checked"] = lambda place: ["check", "."]
CASES["settings for a model that is checked"] = lambda place: [
    *("check", place.source().name),
    *("--set", "seed=1"),
]
recipe_case("a count of pieces where none are added", "[tokenizer]\nmin_count = 30")
recipe_case("a recipe that is not TOML", "name = ")
recipe_case("a recipe without a language", start="seed = 1")
recipe_case("a recipe without [source]", start='language = "ko"\n[training]', source="[hardware]")
recipe_case("a key that does not exist", "[tokenizer]\nvocab_sizes = 300")
recipe_case("a table that does not exist", "[tokeniser]\nvocab_size = 300")
recipe_case("a string in a number's place", '[tokenizer]\nvocab_size = "300"')
recipe_case("a string in a list's place", corpus='text = "ko.txt"')
recipe_case("an empty list of texts", corpus="text = []")
recipe_case("a value out of range", "[tokenizer]\nvocab_size = 3")
recipe_case("an infinite budget", "[training]\nbudget = { value = inf }")
recipe_case(
    "held-out shares that leave nothing", corpus='text = ["ko.txt"]\nvalid = 0.6\ntest = 0.4'
)
recipe_case(
    "frozen weights in bf16 beside products in fp32",
    '[hardware]\nprecision = "fp32"\nfrozen_weights = "bf16"',
)
recipe_case("a name that cannot be a folder", start='language = "ko"\nname = "a/b"')
recipe_case("a method that does not exist", '[training]\nmethod = "xtp"')
recipe_case("a preset that does not exist", '[training]\npreset = "xpt2020"')
recipe_case("an initializer that does not exist", '[embeddings]\ninit = "fokus"\n')
recipe_case("an objective that does not exist", PHASE.format("one", "all") + 'objective = "nsp"')
recipe_case("a part that does not exist", PHASE.format("one", "heads"))
recipe_case("a part beside 'all'", PHASE.format("one", 'all", "itl'))
recipe_case("a part that is named twice", PHASE.format("one", 'itl", "itl'))
recipe_case("two phases of one name", 2 * PHASE.format("one", "all"))
recipe_case("a phase that has a stage's name", PHASE.format("corpus", "all"))
recipe_case(
    "shorthand beside phases", PHASE.format("one", "all") + "[training]\nlearning_rate = 1e-3"
)
recipe_case("both a model and an architecture", source='model = "source"\narchitecture = {}')
recipe_case("neither a model nor an architecture", source="")
recipe_case("an architecture without model_type", source="architecture = { hidden_size = 8 }")
recipe_case("an architecture with a method that needs weights", source=MODERN)
recipe_case("an architecture without a kind of tokenizer", '[training]\nmethod = "scratch"',
            source=MODERN)  # fmt: skip
recipe_case("a language that does not exist", start='language = "korean"')
recipe_case("a script that does not exist", corpus='text = ["ko.txt"]\nscripts = ["Korean"]')
recipe_case("a baseline that occurs twice", "[[baselines]]\n[[baselines]]")
recipe_case("a baseline that does not exist", '[[baselines]]\nmethod = "adapter"')
recipe_case(
    "a baseline beside phases that count differently",
    PHASE.format("one", "all")
    + PHASE.format("two", "all")
    + 'budget.unit = "epochs"\n[[baselines]]',
)


@case("a tracker that is not installed")
def _(place):
    checks.TRACKER_MODULES["mlflow"] = "lingraft_has_no_such_module"
    return place.recipe('[hardware]\ntrackers = ["mlflow"]')


@case("an architecture that transformers does not accept")
def _(place):
    method = '[training]\nmethod = "scratch"\n[tokenizer]\nalgorithm = "unigram"\nvocab_size = 300'
    place.recipe(method, source=MODERN.replace(" }", ", hidden_sizes = 8 }"))
    return ["adapt", "recipe.toml", "--out", "run"]


# -- the command line --------------------------------------------------------------------------

adapt_case("fewer steps than phases", "--steps", "1")
adapt_case("a learning rate of nothing", "--learning-rate", "0")
adapt_case("a batch of no tokens", "--batch-tokens", "0")
adapt_case("a vocabulary that is too small for the alphabet", "--set", "tokenizer.vocab_size=60")
adapt_case("a learning rate that breaks the weights", "--set", "training.learning_rate=1e37",
           "--set", "hardware.log_steps=1")  # fmt: skip
adapt_case("an assignment without '='", "--set", "seed")
adapt_case("an assignment to a phase that is not there", "--set", "phases.7.budget='1 steps'")
adapt_case("an assignment below a value", "--set", "seed.value=1")
adapt_case("--resume with --overwrite", "--resume", "--overwrite")
CASES["a recipe and --source"] = lambda place: [
    "adapt", place.recipe()[1], "--source", "source"
]  # fmt: skip
CASES["neither a recipe nor --lang"] = lambda place: ["adapt", "--source", "source", "--text", "ko"]
CASES["a list that does not exist"] = lambda place: ["list", "languages"]
CASES["a list without a name"] = lambda place: ["list"]


# -- runs --------------------------------------------------------------------------------------


@case("a run's folder that holds something else")
def _(place):
    place.write("run/thesis.tex", "all my work")
    return place.adapt()


@case("--overwrite of a folder that holds something else")
def _(place):
    place.write("run/thesis.tex", "all my work")
    return place.adapt("--overwrite")


@case("a file in a run's place")
def _(place):
    place.write("run", "")
    return place.adapt()


@case("a run of another recipe")
def _(place):
    place.run()
    return place.adapt()


@case("a run of the model that it would replace")
def _(place):
    place.run()
    return place.adapt("--overwrite", "--set", 'source.model="run/model"')


@case("a run that another process works on")
def _(place):
    place.lock = place.write("run/.lock", "").open()
    fcntl.flock(place.lock, fcntl.LOCK_EX)
    return place.adapt()


@case("a stage whose done.json is broken")
def _(place):
    (place.run() / "graft" / "done.json").write_text('{"fingerprint": ')
    return ["adapt", "run/recipe.toml", "--out", "run"]


@case("a run whose tokenised text is cut short")
def _(place):
    run = place.run()
    os.truncate(run / "tokenizer" / "train.bin", 100)
    shutil.rmtree(run / "phase-1")
    return ["adapt", "run/recipe.toml", "--out", "run"]


@case("a phase whose checkpoint is broken")
def _(place):
    phase = place.run() / "phase-2"
    (phase / "done.json").unlink()
    for name in ("model.safetensors", "optimizer.pt", "state.json"):
        place.write("run/phase-2/" + name, "{}")
    (phase / "checkpoint-00000002").mkdir()
    for name in ("model.safetensors", "optimizer.pt", "state.json"):
        (phase / name).rename(phase / "checkpoint-00000002" / name)
    return ["adapt", "run/recipe.toml", "--out", "run"]


@case("a stage that does not exist")
def _(place):
    place.run()
    return ["stage", "run", "phase-3"]


@case("a stage before the one it needs")
def _(place):
    shutil.rmtree(place.run() / "graft")
    return ["stage", "run", "phase-1"]


@case("a run in the place of its model")
def _(place):
    place.run()
    return ["evaluate", "run", "--text", place.text().name]


CASES["a stage of no run"] = lambda place: ["stage", "run", "corpus"]
CASES["a report of no run"] = lambda place: ["report", "run"]


@case("a report of a folder that holds a recipe alone")
def _(place):
    place.recipe()
    return ["report", "."]


@case("a report of a run whose recipe is broken")
def _(place):
    (place.run() / "recipe.toml").write_text("name = ")
    return ["report", "run"]


# -- corpora -----------------------------------------------------------------------------------

bad_input_corpora.add(CASES)

# -- evaluation --------------------------------------------------------------------------------


def evaluation(wrong, *more, prepare=None):
    """A case of `lingraft evaluate` on `source`, after `prepare` of that folder."""

    @case(wrong)
    def _(place):
        place.text()
        source = place.source("bert")
        if prepare:
            prepare(source)
        return ["evaluate", "source", "--text", "ko.txt", *more]


def without_head(source):
    from transformers import AutoModel

    AutoModel.from_pretrained(source, add_pooling_layer=False).save_pretrained(source)


def cut(source):
    os.truncate(source / "model.safetensors", 9_999)


def causal(source):
    (source / "config.json").write_bytes(configured(model_type="gpt2")(b"{}"))


evaluation("a share of masked tokens above 1", "--rate", "1.5")
evaluation("a precision that does not exist", "--precision", "fp16")
evaluation("an evaluation in a language that does not exist", "--lang", "korean")
evaluation("an evaluation of a model without its head", prepare=without_head)
evaluation("an evaluation of weights that are cut short", prepare=cut)
evaluation("an evaluation of weights that are those of another model", prepare=causal)
evaluation("an evaluation on text that is not there", "--text", "missing.txt")
CASES["an evaluation of a model that is not there"] = lambda place: [
    "evaluate", "./missing", "--text", str(place.text().name)
]  # fmt: skip


@case("an evaluation on empty text")
def _(place):
    place.source()
    place.write("empty.txt", "\n\n")
    return ["evaluate", "source", "--text", "empty.txt"]


# -- models and their probe ----------------------------------------------------------------------

bad_input_families.add(CASES)
bad_input_models.add(CASES)
bad_input_streams.add(CASES)
bad_input_alignment.add(CASES)
bad_input_budgets.add(CASES)
bad_input_studies.add(CASES)
bad_input_tasks.add(CASES)
bad_input_retrieval.add(CASES)
bad_input_transfer.add(CASES)
bad_input_translation.add(CASES)
bad_input_translators.add(CASES)
bad_input_plugged.add(CASES)
bad_input_encoder_decoder.add(CASES)
bad_input_vocabularies.add(CASES)
bad_input_stacks.add(CASES)
bad_input_documents.add(CASES)
bad_input_judging.add(CASES)
bad_input_demo.add(CASES)
bad_input_rows.add(CASES)
bad_input_idle.add(CASES)
