"""A tagging and a question task of a user's own in three languages, with tiny files."""

import json
import random

LANGUAGES = ("en", "de", "ko")
WORDS = {
    "en": {"N": "dog house tree book", "V": "runs sees takes opens", "D": "the a this"},
    "de": {"N": "hund haus baum buch", "V": "läuft sieht nimmt öffnet", "D": "der die das"},
    "ko": {"N": "개 집 나무 책", "V": "달린다 본다 연다", "D": "그 이 저"},
}
TAGGING = """
name = "words"
kind = "tagging"
languages = ["en", "de", "ko"]
metrics = ["tokens"]
files = { train = "train-{lang}.jsonl", dev = "dev-{lang}.jsonl", test = "test-{lang}.jsonl" }
epochs = 2
batch = 4
learning_rate = 2e-3
max_length = 48
"""
SPANS = """
name = "answers"
kind = "span"
languages = ["en", "de", "ko"]
files = { train = "qa-train-{lang}.json", dev = "qa-dev-{lang}.json", test = "qa-test-{lang}.json" }
epochs = 1
batch = 4
learning_rate = 1e-3
max_length = 64
max_query = 16
doc_stride = 16
"""


def sentence(language, rng, flipped=False):
    """Words with their classes; `flipped` calls nouns verbs and verbs nouns."""
    tags = [rng.choice("NVD") for _ in range(rng.randint(3, 6))]
    words = [rng.choice(WORDS[language][tag].split()) for tag in tags]
    said = {"N": "V", "V": "N", "D": "D"}
    return words, [said[tag] if flipped else tag for tag in tags]


def write_tagging(folder, sizes=(24, 10, 8), flipped=()):
    """words.toml and its files; of the flipped languages, dev and test have contrary tags."""
    folder.mkdir(exist_ok=True)
    for language in LANGUAGES:
        for split, size in zip(("train", "dev", "test"), sizes, strict=True):
            rng = random.Random(f"{language} {split}")
            contrary = language in flipped and split != "train"
            rows = [sentence(language, rng, contrary) for _ in range(size)]
            lines = [json.dumps({"words": words, "tags": tags}) + "\n" for words, tags in rows]
            (folder / f"{split}-{language}.jsonl").write_text("".join(lines), "utf-8")
    path = folder / "words.toml"
    path.write_text(TAGGING, "utf-8")
    return path


def write_spans(folder, sizes=(8, 4, 4)):
    """answers.toml and its files, as SQuAD has them."""
    folder.mkdir(exist_ok=True)
    for language in LANGUAGES:
        for split, size in zip(("train", "dev", "test"), sizes, strict=True):
            rng = random.Random(f"{language} {split} qa")
            paragraphs = []
            for number in range(size):
                words, _ = sentence(language, rng)
                context, answer = " ".join(words), words[-1]
                found = [{"text": answer, "answer_start": len(context) - len(answer)}]
                question = {"id": f"{number}", "question": words[0], "answers": found}
                paragraphs.append({"context": context, "qas": [question]})
            whole = {"version": "1.1", "data": [{"title": "x", "paragraphs": paragraphs}]}
            path = folder / f"qa-{split}-{language}.json"
            path.write_text(json.dumps(whole), "utf-8")
    path = folder / "answers.toml"
    path.write_text(SPANS, "utf-8")
    return path
