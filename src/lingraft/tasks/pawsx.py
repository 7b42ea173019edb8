"""PAWS-X (Yang et al. 2019): paraphrases in seven languages (SPEC C.2, D.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.tasks.korean import xpt_settings
from lingraft.tasks.task import Hub, Settings, Split, Task
from lingraft.tasks.text import Columns, TextReader, tab_or_jsonl

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lingraft.tasks.examples import TextExample

LANGUAGES = ("en", "de", "es", "fr", "ja", "ko", "zh")
LABELS = ("0", "1")
UNTRANSLATED = "NS"
"""Stands in place of a sentence that the translators left out."""


def translated(examples: Iterable[TextExample]) -> list[TextExample]:
    """The examples without those that lack a translation of a sentence.

    By default such rows stay: the papers' counts (2,000 for Korean, of which 1,965 in dev and 1,972
    in test are real) include them.
    """
    return [
        example
        for example in examples
        if UNTRANSLATED not in (example.text.strip(), (example.pair or "").strip())
    ]


def _task(language: str) -> Task:
    train = ("train.tsv", "translated_train.tsv") if language == "en" else ("translated_train.tsv",)
    return Task(
        name=f"pawsx-{language}",
        title=f"PAWS-X {language}: paraphrase",
        kind="pair",
        languages=(language,),
        version="x-final (2019)",
        citation="Yang et al. 2019, PAWS-X, EMNLP",
        licence="free for any purpose, acknowledgement appreciated",
        files_from="https://github.com/google-research-datasets/paws (pawsx/)",
        splits={
            "train": Split(((*train, f"train-{language}.tsv", f"train-{language}.jsonl"),)),
            "dev": Split((("dev_2k.tsv", f"dev-{language}.tsv", f"dev-{language}.jsonl"),)),
            "test": Split((("test_2k.tsv", f"test-{language}.tsv", f"test-{language}.jsonl"),)),
        },
        rows=tab_or_jsonl(("id", "sentence1", "sentence2", "label")),
        example=TextReader(
            Columns(text=("sentence1",), pair=("sentence2",), label=("label",), id=("id",)),
            labels=LABELS,
            hidden=False,
        ),
        metrics=("accuracy", "f1"),
        selection="accuracy",
        settings=xpt_settings(1e-5, 15),
        labels=LABELS,
        folders=(language, f"x-final/{language}", f"pawsx/x-final/{language}", "task_pawsx"),
        hub=Hub(
            "google-research-datasets/paws-x",
            language,
            {"train": "train", "dev": "validation", "test": "test"},
        ),
        alternatives={
            "xtreme2020": Settings(
                epochs=5,
                batch=32,
                learning_rate=2e-5,
                warmup=0.0,
                max_length=128,
                source="XTREME's script for base models (SPEC C.6)",
            )
        },
        note="the training set is machine-translated; rows with an untranslated sentence ('NS') "
        "count unless they are dropped",
    )


ALL = tuple(map(_task, LANGUAGES))
