"""What test_bad_input.py does wrong with tasks in several languages."""

from __future__ import annotations

TREE = "1\tJa\tja\tINTJ\t_\t_\t0\troot\t_\t_\n\n"
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
    cases["fine-tuning on a task without training"] = finetune("tatoeba-de", {})
    cases["a corpus of a group of tasks without their files"] = lambda place: [
        "corpus", str(place.text().name), "--lang", "ko", "--out", "out", "--task", "mlqa",
        "--data", ".",
    ]  # fmt: skip


def finetune(task, files):
    """A case of `lingraft finetune source` on a task whose directory holds these files."""

    def prepared(place):
        place.source()
        (place.folder / "data").mkdir()
        for name, text in files.items():
            place.write(f"data/{name}", text)
        return ["finetune", "source", "--task", task, "--data", "data"]

    return prepared
