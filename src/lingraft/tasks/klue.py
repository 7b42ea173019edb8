"""KLUE: seven of its eight tasks (Park et al. 2021), official files and JSONL conversions.

Settings are those of KLUE's own code for base models, which the Korean PLM survey repeats
(SPEC B, B.1). The test sets are hidden; papers report the development sets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.tasks import klue_mrc, klue_ner, klue_re
from lingraft.tasks.dependency import files as klue_dp
from lingraft.tasks.reading import Row, json_rows, jsonl_rows, suffix
from lingraft.tasks.task import Hub, Settings, Spans, Split, Task
from lingraft.tasks.text import Columns, TextReader

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

VERSION = "1.1"
CITATION = "Park et al. 2021, KLUE: Korean Language Understanding Evaluation, arXiv:2105.09680"
LICENCE = "CC BY-SA 4.0"
FILES_FROM = "https://github.com/KLUE-benchmark/KLUE (klue_benchmark/)"
SOURCE = "KLUE-baseline run_all.sh (SPEC B.1)"
CHECKS = 4
TOPICS = ("정치", "경제", "사회", "생활문화", "세계", "IT과학", "스포츠")
NLI = ("entailment", "contradiction", "neutral")
DEV_ONLY = "the test set is hidden: scores are those of the development set"


def _rows(path: Path) -> Iterable[Row]:
    return jsonl_rows(path) if suffix(path) == ".jsonl" else json_rows(path)


def _splits(stem: str, kind: str) -> dict[str, Split]:
    return {
        split: Split(((f"{stem}-v1.1_{split}.{kind}", f"{split}.jsonl"),))
        for split in ("train", "dev")
    }


def _folders(name: str) -> tuple[str, ...]:
    stem = "ynat" if name == "ynat" else f"klue-{name}"
    version = f"{stem}-v1.1"
    return (
        version,
        f"klue_benchmark/{version}",
        f"KLUE/klue_benchmark/{version}",
        "KLUE",
        "official/KLUE",
        f"task_klue_{name}",
    )


def _hub(config: str, **columns: str) -> Hub:
    return Hub("klue/klue", config, {"train": "train", "dev": "validation"}, columns)


def _settings(
    epochs: int,
    warmup: float = 0.1,
    max_length: int = 128,
    patience: int | None = None,
    batch: int = 32,
    learning_rate: float = 5e-5,
) -> Settings:
    return Settings(
        epochs=epochs,
        batch=batch,
        learning_rate=learning_rate,
        warmup=warmup,
        max_length=max_length,
        checks_per_epoch=CHECKS,
        patience=patience,
        source=SOURCE,
    )


YNAT = Task(
    name="klue-ynat",
    title="KLUE topic classification (YNAT)",
    kind="classification",
    languages=("ko",),
    version=VERSION,
    citation=CITATION,
    licence=LICENCE,
    files_from=FILES_FROM,
    splits=_splits("ynat", "json"),
    rows=_rows,
    example=TextReader(Columns(text=("title",), label=("label",), id=("guid",)), labels=TOPICS),
    metrics=("macro_f1", "accuracy"),
    selection="macro_f1",
    settings=_settings(4),
    labels=TOPICS,
    evaluation=("dev",),
    folders=_folders("ynat"),
    hub=_hub("ynat"),
    note=DEV_ONLY,
)

STS = Task(
    name="klue-sts",
    title="KLUE semantic similarity (STS)",
    kind="regression",
    languages=("ko",),
    version=VERSION,
    citation=CITATION,
    licence=LICENCE,
    files_from=FILES_FROM,
    splits=_splits("klue-sts", "json"),
    rows=_rows,
    example=TextReader(
        Columns(
            text=("sentence1",),
            pair=("sentence2",),
            score=("labels.real-label", "real_label"),
            id=("guid",),
        ),
        span=(0.0, 5.0),
    ),
    metrics=("pearson", "spearman", "similar_f1"),
    selection="pearson",
    settings=_settings(4, patience=5),
    headline=("pearson", "f1"),
    evaluation=("dev",),
    folders=_folders("sts"),
    hub=_hub("sts"),
    note=DEV_ONLY,
)

KLUE_NLI = Task(
    name="klue-nli",
    title="KLUE natural language inference (NLI)",
    kind="pair",
    languages=("ko",),
    version=VERSION,
    citation=CITATION,
    licence=LICENCE,
    files_from=FILES_FROM,
    splits=_splits("klue-nli", "json"),
    rows=_rows,
    example=TextReader(
        Columns(
            text=("premise",), pair=("hypothesis",), label=("gold_label", "label"), id=("guid",)
        ),
        labels=NLI,
    ),
    metrics=("accuracy", "macro_f1"),
    selection="accuracy",
    settings=_settings(5, patience=5),
    labels=NLI,
    evaluation=("dev",),
    folders=_folders("nli"),
    hub=_hub("nli"),
    note=DEV_ONLY,
)

NER = Task(
    name="klue-ner",
    title="KLUE named entity recognition (NER)",
    kind="tagging",
    languages=("ko",),
    version=VERSION,
    citation=CITATION,
    licence=LICENCE,
    files_from=FILES_FROM,
    splits=_splits("klue-ner", "tsv"),
    rows=klue_ner.rows,
    example=klue_ner.example,
    metrics=("entities", "characters"),
    selection="character_macro_f1",
    settings=_settings(3, warmup=0.0, max_length=510, patience=5),
    labels=klue_ner.TAGS,
    headline=("entity_macro_f1", "character_macro_f1"),
    evaluation=("dev",),
    folders=_folders("ner"),
    hub=_hub("ner", tokens="chars", ner_tags="tags"),
    note=DEV_ONLY,
)

RE = Task(
    name="klue-re",
    title="KLUE relation extraction (RE)",
    kind="relation",
    languages=("ko",),
    version=VERSION,
    citation=CITATION,
    licence=LICENCE,
    files_from=FILES_FROM,
    splits=_splits("klue-re", "json"),
    rows=_rows,
    example=klue_re.example,
    metrics=("relation_f1", "auprc"),
    selection="micro_f1",
    settings=_settings(3, max_length=256),
    labels=klue_re.RELATIONS,
    headline=("micro_f1", "auprc"),
    evaluation=("dev",),
    folders=_folders("re"),
    hub=_hub("re"),
    alternatives={
        "son2022-klue-re": Settings(
            epochs=15,
            batch=32,
            learning_rate=1e-5,
            warmup=0.1,
            max_length=256,
            checks_per_epoch=CHECKS,
            source="the paper on KLUE-RE (SPEC B.1, H.5); the rest as in KLUE-baseline",
        )
    },
    note=DEV_ONLY,
)

DP = Task(
    name="klue-dp",
    title="KLUE dependency parsing (DP)",
    kind="parsing",
    languages=("ko",),
    version=VERSION,
    citation=CITATION,
    licence=LICENCE,
    files_from=FILES_FROM,
    splits=_splits("klue-dp", "tsv"),
    rows=klue_dp.rows,
    example=klue_dp.example,
    metrics=("attachment",),
    selection="las_macro_f1",
    settings=_settings(10, max_length=256),
    labels=klue_dp.RELATIONS,
    headline=("reference/uas_macro_f1", "reference/las_macro_f1", "uas", "las"),
    evaluation=("dev",),
    folders=_folders("dp"),
    hub=_hub("dp", word_form="words", lemma="lemmas"),
    note=DEV_ONLY,
)

MRC = Task(
    name="klue-mrc",
    title="KLUE machine reading comprehension (MRC)",
    kind="span",
    languages=("ko",),
    version=VERSION,
    citation=CITATION,
    licence=LICENCE,
    files_from=FILES_FROM,
    splits=_splits("klue-mrc", "json"),
    rows=klue_mrc.rows,
    example=klue_mrc.example,
    metrics=("klue_answers",),
    selection="rouge_w",
    settings=_settings(5, batch=16, learning_rate=3e-5, max_length=510),
    headline=("exact_match", "rouge_w"),
    evaluation=("dev",),
    folders=_folders("mrc"),
    hub=_hub("mrc"),
    spans=Spans(),
    note=DEV_ONLY,
)
ALL = (YNAT, STS, KLUE_NLI, NER, RE, DP, MRC)
