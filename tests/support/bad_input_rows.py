"""What test_bad_input.py does wrong with rows, layers, blocks and LoRA."""

from __future__ import annotations

PHASE = '[[phases]]\nname = "one"\nbudget.value = 4\n'
KEEP, REPLACE, EXTEND = (
    f'[tokenizer]\naction = "{kind}"\n' for kind in ("keep", "replace", "extend")
)
BODY = 'train = ["body"]\n'
NEW = 'train = ["embeddings.new"]\n'


def add(cases):
    """Put the cases into the table of bad_input_cases.py."""
    for wrong, (tokenizer, phase) in {
        "rows of old pieces where the vocabulary is replaced": (
            REPLACE, 'train = ["embeddings.old"]\n'
        ),
        "rows of new pieces where the vocabulary is kept": (KEEP, NEW),
        "rows of an output projection that is the embeddings": (EXTEND, 'train = ["head.new"]\n'),
        "rows of an output bias that is not there": (EXTEND, 'train = ["output_bias.new"]\n'),
        "rows beside the whole matrix": (EXTEND, 'train = ["embeddings", "embeddings.new"]\n'),
        "new rows beside all rows": (EXTEND, 'train = ["embeddings.rows", "embeddings.new"]\n'),
        "layers that the model has not": (KEEP, 'train = ["layers[99:]"]\n'),
        "a layer that the model has not": (KEEP, 'train = ["layers[99]"]\n'),
        "a range that holds no layer": (KEEP, 'train = ["layers[1:1]"]\n'),
        "layers without a number": (KEEP, 'train = ["layers[]"]\n'),
        "layers in steps of 0": (KEEP, 'train = ["layers[::0]"]\n'),
        "a negative learning rate of a part": (
            EXTEND, NEW + 'optimizer.rates = { "embeddings.new" = -1e-3 }\n'
        ),
        "a learning rate of what does not train": (
            EXTEND, NEW + "optimizer.rates = { body = 1e-3 }\n"
        ),
        "a negative weight decay of a part": (
            EXTEND, NEW + 'optimizer.weight_decays = { "embeddings.new" = -0.1 }\n'
        ),
        "LoRA of rank 0": (KEEP, "train = []\nlora.rank = 0\n"),
        "LoRA on the embeddings": (KEEP, 'train = []\nlora.parts = ["embeddings"]\n'),
        "LoRA on layers that are not there": (KEEP, 'train = []\nlora.parts = ["layers[99:]"]\n'),
        "LoRA on inserted layers where none is inserted": (
            KEEP, 'train = []\nlora.parts = ["inserted"]\n'
        ),
        "LoRA on maps that the layers have not": (KEEP, 'train = []\nlora.modules = ["c_attn"]\n'),
        "layers that train as they are and by LoRA": (KEEP, BODY + "lora.rank = 4\n"),
        "a phase that trains nothing": (KEEP, "train = []\n"),
        "a phase that trains what the model has not": (KEEP, 'train = ["inserted"]\n'),
    }.items():  # fmt: skip
        cases[wrong] = checked(tokenizer, phase)
    cases["LoRA without peft"] = no_peft
    cases["vectors to learn without gensim"] = no_gensim
    cases["blocks of more layers than the source has"] = blocks


def checked(tokenizer, phase):
    """A case of `lingraft check`, of a model with two layers and a tied head; none is inserted."""

    def case(place):
        place.source("llama")
        graft = "[graft]\ninserted_before = 0\ninserted_after = 0\n"
        return place.recipe(graft + tokenizer + PHASE + phase)

    return case


def no_peft(place):
    place.hide("peft")
    return checked(KEEP, "train = []\nlora.rank = 4\n")(place)


def no_gensim(place):
    place.hide("gensim")
    place.source("llama")
    return place.recipe('[embeddings]\ninit = "focus"\n')


def blocks(place):
    place.source("llama")
    return place.recipe('[training]\nmethod = "blocks"\n')
