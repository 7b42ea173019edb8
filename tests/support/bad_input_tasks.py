"""What test_bad_input.py does wrong with tasks in several languages."""

from __future__ import annotations

import tiny_causal

TREE = "1\tJa\tja\tINTJ\t_\t_\t0\troot\t_\t_\n\n"
TITLE = '[{"guid": "0", "title": "책", "label": "정치"}]'
QUESTION = (
    '{"id": "1", "question": "Was?", "context": "Ja.", '
    '"answers": [{"text": "Ja", "answer_start": 0}]}\n'
)


def add(cases):
    """Put the cases into the table of bad_input_cases.py."""
    cases["a language without a training set"] = finetune("xquad-de", {"de.jsonl": QUESTION})
    tags = {f"{split}-de.tsv": "Ja\tO\n" for split in ("train", "dev")}
    cases["a test set with hidden labels"] = finetune("panx-de", {**tags, "test-de.tsv": "Ja\n"})
    trees = {f"de_x-ud-{split}.conllu": TREE for split in ("train", "dev")}
    for wrong, line in (
        ("a treebank with a column too few", TREE.replace("\t_\n", "\n")),
        ("a treebank whose multi-word token has no words", "1-2\tzum" + "\t_" * 8 + "\n" + TREE),
    ):
        cases[wrong] = finetune("udpos-de", {**trees, "de_x-ud-test.conllu": line})
    tags |= {"test-de.tsv": "Ja\tO\n"}
    cases["tags from a causal model that transformers has no class for"] = finetune(
        "panx-de", tags, "olmo2"
    )
    label = {f"ynat-v1.1_{split}.json": TITLE for split in ("train", "dev")}
    cases["a dropout that the head of a causal model lacks"] = finetune(
        "klue-ynat", label, "gpt2", "--set", "classifier_dropout=0.1"
    )
    cases["fine-tuning on a task without training"] = finetune("tatoeba-de", {})
    for wrong, name in (
        ("fine-tuning into a folder of other files", "thesis.tex"),
        ("fine-tuning over another program's results", "results.jsonl"),
    ):
        files = {f"../out/{name}": '{"kind": "metric"}\n'}
        cases[wrong] = finetune("panx-de", files, None, "--out", "out")
    cases["a corpus of a group of tasks without their files"] = lambda place: [
        "corpus", str(place.text().name), "--lang", "ko", "--out", "out", "--task", "mlqa",
        "--data", ".",
    ]  # fmt: skip


def finetune(task, files, causal=None, *more):
    """A case of `lingraft finetune source` on a task whose directory holds these files."""

    def prepared(place):
        if causal:
            tiny_causal.save(place.folder / "source", causal)
        else:
            place.source()
        (place.folder / "data").mkdir()
        for name, text in files.items():
            place.write(f"data/{name}", text)
        return ["finetune", "source", "--task", task, "--data", "data", *more]

    return prepared
