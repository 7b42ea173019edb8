"""What test_bad_input.py does wrong with vocabularies that are made of the source's."""

from __future__ import annotations

import json
import shutil


def add(cases):
    """Put the cases into the table of bad_input_cases.py."""
    cases["merges that go on in a vocabulary that has none"] = extended("bert")
    cases["a tokenizer that has lost its merges"] = extended("roberta", merges=[])
    cases["a replaced vocabulary without room for all bytes"] = replaced("40")
    cases["a vocabulary smaller than the source's special tokens"] = replaced("32", tokens=40)
    cases["a GGUF file as the source"] = gguf
    cases["an instruct model without its chat tokens"] = chat("<|eot_id|>", "<|im_start|>")
    cases["a vocabulary without a place for chat tokens"] = chat(
        "<|eot_id|>", "<|eot_id|>", "--set", "tokenizer.algorithm=byte-bpe"
    )
    cases["a size for a vocabulary that is kept"] = lambda place: place.adapt(
        "--method", "continued", "--vocab-size", "4000"
    )
    cases["token distillation of an encoder"] = lambda place: place.adapt(
        "--set", "embeddings.init=token-distillation"
    )
    cases["a layer for token distillation that the source lacks"] = too_deep
    cases["a tokenizer whose padding the source cannot have"] = given
    cases["old rows of an architecture"] = old_rows


def given(place):
    shutil.copytree(place.source_of("bert"), place.folder / "given")
    return place.recipe('[tokenizer]\naction = "use"\nmodel = "given"')


def old_rows(place):
    phase = '[[phases]]\nname = "one"\ntrain = ["head.old"]\nbudget.value = 4\n'
    scratch = '[tokenizer]\nalgorithm = "unigram"\n[training]\nmethod = "scratch"\n'
    return place.recipe(scratch + phase, source='architecture = { model_type = "modernbert" }')


def extended(family, **model):
    def case(place):
        change(place.source(family) / "tokenizer.json", model=model)
        return place.adapt("--set", "tokenizer.action=extend")

    return case


def replaced(size, tokens=0):
    def case(place):
        def reserved(state):
            last = max(token["id"] for token in state["added_tokens"])
            kinds = {"single_word": False, "lstrip": False, "rstrip": False}
            kinds |= {"normalized": False, "special": True}
            state["added_tokens"] += [
                {"id": last + 1 + i, "content": f"<unused{i}>"} | kinds for i in range(tokens)
            ]

        change(place.source() / "tokenizer.json", reserved)
        more = ["--set", "tokenizer.action=replace", "--set", f"tokenizer.vocab_size={size}"]
        return place.adapt(*more)

    return case


def change(path, edit=lambda state: None, model=()):
    state = json.loads(path.read_text(encoding="utf-8"))
    state["model"] |= dict(model)
    edit(state)
    path.write_text(json.dumps(state), encoding="utf-8")


def chat(token, written, *more):
    def case(place):
        path = place.source("llama") / "chat_template.jinja"
        path.write_text(path.read_text(encoding="utf-8").replace(token, written), encoding="utf-8")
        return place.adapt(*more)

    return case


def too_deep(place):
    place.source("llama")
    more = ["tokenizer.action=extend", "embeddings.init=token-distillation"]
    more.append("embeddings.token_distillation.layer=9")
    return place.adapt(*(word for one in more for word in ("--set", one)))


def gguf(place):
    place.write("model.gguf", b"GGUF\x03\x00\x00\x00")
    return place.adapt("--source", "model.gguf")
