"""GLUE (Wang et al. 2019): nine tasks, official TSV files and JSONL conversions (SPEC D.1).

The test sets are hidden; Language Chameleon's table is of the development sets. Its settings are
the defaults; RoBERTa's are the alternative `roberta2019`.
"""

from __future__ import annotations

from dataclasses import replace

from lingraft.tasks.task import Hub, Settings, Split, Task
from lingraft.tasks.text import Columns, TextReader, tab_or_jsonl

VERSION = "1.0"
CITATION = "Wang et al. 2019, GLUE: A Multi-Task Benchmark, ICLR"
FILES_FROM = "https://gluebenchmark.com/tasks"
NOTE = "the test set is hidden: scores are those of the development set"
SPLITS = ("train", "dev", "test")
ROBERTA = {
    # learning rate and batch of fairseq's examples/roberta/config/finetuning (SPEC D.1)
    "cola": (1e-5, 16),
    "sst2": (1e-5, 32),
    "mrpc": (1e-5, 16),
    "stsb": (2e-5, 16),
    "qqp": (1e-5, 32),
    "mnli": (1e-5, 32),
    "qnli": (1e-5, 32),
    "rte": (2e-5, 16),
}
BINARY = ("0", "1")
MNLI_LABELS = ("entailment", "neutral", "contradiction")
ENTAILMENT = ("entailment", "not_entailment")
HUB_NAMES = {
    # what the Hub calls the labels 0 and 1
    "cola": ("unacceptable", "acceptable"),
    "sst2": ("negative", "positive"),
    "mrpc": ("not_equivalent", "equivalent"),
    "qqp": ("not_duplicate", "duplicate"),
    "wnli": ("not_entailment", "entailment"),
}


def _settings(dropout: float) -> Settings:
    return Settings(
        epochs=5,
        batch=64,
        learning_rate=5e-5,
        warmup=0.1,
        max_length=128,
        classifier_dropout=dropout,
        source="Language Chameleon, appendix B.2 (SPEC D.1); warm-up, length and clipping are ours",
    )


def _roberta(name: str) -> dict[str, Settings]:
    if name not in ROBERTA:
        return {}
    learning_rate, batch = ROBERTA[name]
    return {
        "roberta2019": Settings(
            epochs=10,
            batch=batch,
            learning_rate=learning_rate,
            warmup=0.06,
            max_length=512,
            weight_decay=0.1,
            betas=(0.9, 0.98),
            eps=1e-6,
            clip=None,
            source="RoBERTa's GLUE recipe; its authors search 1e-5, 2e-5 and 3e-5",
        )
    }


def _files() -> dict[str, Split]:
    return {
        split: Split(((f"{split}.tsv", f"{split}.jsonl"),), labelled=split != "test")
        for split in SPLITS
    }


def _task(
    name: str,
    title: str,
    columns: Columns,
    labels: tuple[str, ...],
    metrics: tuple[str, ...],
    selection: str,
) -> Task:
    """One GLUE task whose files are named alike."""
    official = {"sst2": "SST-2", "stsb": "STS-B", "cola": "CoLA"}.get(name, name.upper())
    return Task(
        name=f"glue-{name}",
        title=f"GLUE {title}",
        kind="regression" if columns.score else "pair" if columns.pair else "classification",
        languages=("en",),
        version=VERSION,
        citation=CITATION,
        licence="per task; see the benchmark's site",
        files_from=FILES_FROM,
        splits=_files(),
        rows=tab_or_jsonl(),
        example=TextReader(
            columns,
            labels,
            dict(zip(HUB_NAMES.get(name, ()), BINARY, strict=False)),
            span=(0.0, 5.0),
        ),
        metrics=metrics,
        selection=selection,
        settings=_settings({"cola": 0.05, "mnli": 0.3}.get(name, 0.1)),
        labels=labels,
        evaluation=("dev",),
        folders=(official, f"glue_data/{official}", f"glue/{official}", f"task_glue_{name}"),
        hub=Hub(
            "nyu-mll/glue",
            name,
            {"train": "train", "dev": "validation", "test": "test"},
        ),
        alternatives=_roberta(name),
        note=NOTE,
    )


COLA = replace(
    _task(
        "cola",
        "CoLA: acceptability",
        Columns(text=("sentence",), label=("label",)),
        BINARY,
        ("matthews", "accuracy"),
        "matthews",
    ),
    rows=tab_or_jsonl(("source", "label", "mark", "sentence")),
    note=f"train.tsv and dev.tsv have no header; {NOTE}",
)
SST2 = _task(
    "sst2",
    "SST-2: sentiment",
    Columns(text=("sentence",), label=("label",)),
    BINARY,
    ("accuracy",),
    "accuracy",
)
MRPC = replace(
    _task(
        "mrpc",
        "MRPC: paraphrase",
        Columns(
            text=("#1 String", "sentence1"),
            pair=("#2 String", "sentence2"),
            label=("Quality", "label"),
        ),
        BINARY,
        ("accuracy", "f1"),
        "accuracy",
    ),
    splits={
        "train": Split((("train.tsv", "msr_paraphrase_train.txt", "train.jsonl"),)),
        "dev": Split((("dev.tsv", "dev.jsonl"),)),
        "test": Split((("test.tsv", "msr_paraphrase_test.txt", "test.jsonl"),), labelled=False),
    },
    headline=("accuracy", "f1"),
)
STSB = replace(
    _task(
        "stsb",
        "STS-B: semantic similarity",
        Columns(text=("sentence1",), pair=("sentence2",), score=("score", "label")),
        (),
        ("pearson", "spearman"),
        "pearson",
    ),
    headline=("pearson", "spearman"),
)
QQP = replace(
    _task(
        "qqp",
        "QQP: duplicate questions",
        Columns(text=("question1",), pair=("question2",), label=("is_duplicate", "label")),
        BINARY,
        ("accuracy", "f1"),
        "accuracy",
    ),
    rows=tab_or_jsonl(drop_ragged=True),
    headline=("accuracy", "f1"),
    note=f"rows of train.tsv that are cut in the middle are left out; {NOTE}",
)
MNLI = replace(
    _task(
        "mnli",
        "MNLI: natural language inference",
        Columns(
            text=("sentence1", "premise"),
            pair=("sentence2", "hypothesis"),
            label=("gold_label", "label"),
        ),
        MNLI_LABELS,
        ("accuracy",),
        "accuracy",
    ),
    splits={
        "train": Split((("train.tsv", "train.jsonl"),)),
        "dev": Split((("dev_matched.tsv", "dev_matched.jsonl"),)),
        "dev_mismatched": Split((("dev_mismatched.tsv", "dev_mismatched.jsonl"),)),
    },
    evaluation=("dev", "dev_mismatched"),
    hub=Hub(
        "nyu-mll/glue",
        "mnli",
        {
            "train": "train",
            "dev": "validation_matched",
            "dev_mismatched": "validation_mismatched",
        },
    ),
    note=f"dev is the matched set (m), dev_mismatched the other (mm); {NOTE}",
)
QNLI = _task(
    "qnli",
    "QNLI: does the sentence answer the question",
    Columns(text=("question",), pair=("sentence",), label=("label",)),
    ENTAILMENT,
    ("accuracy",),
    "accuracy",
)
RTE = _task(
    "rte",
    "RTE: textual entailment",
    Columns(text=("sentence1", "premise"), pair=("sentence2", "hypothesis"), label=("label",)),
    ENTAILMENT,
    ("accuracy",),
    "accuracy",
)
WNLI = _task(
    "wnli",
    "WNLI: Winograd sentences",
    Columns(text=("sentence1",), pair=("sentence2",), label=("label",)),
    BINARY,
    ("accuracy",),
    "accuracy",
)
ALL = (COLA, SST2, MRPC, STSB, QQP, MNLI, QNLI, RTE, WNLI)
