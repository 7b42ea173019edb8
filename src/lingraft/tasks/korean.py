"""Korean tasks of the XPT paper and its successors: KorSTS, KorNLI, KQP, KHS, NSMC (SPEC D.2)."""

from __future__ import annotations

from lingraft.tasks.klue import NLI
from lingraft.tasks.task import Hub, Settings, Split, Task
from lingraft.tasks.text import Columns, TextReader, tab_or_jsonl

KOR_NLU = "Ham et al. 2020, KorNLI and KorSTS, Findings of EMNLP"
KOR_NLU_FROM = "https://github.com/kakaobrain/KorNLUDatasets"
HATE = ("none", "offensive", "hate")
BINARY = ("0", "1")


def xpt_settings(learning_rate: float, epochs: int) -> Settings:
    """The XPT paper's, its table A2."""
    return Settings(
        epochs=epochs,
        batch=32,
        learning_rate=learning_rate,
        warmup=0.06,
        max_length=128,
        weight_decay=0.1,
        betas=(0.9, 0.98),
        eps=1e-6,
        clip=None,
        source="XPT, table A2; length, decay, betas and eps are RoBERTa's, decided here (SPEC D.2)",
    )


KORSTS = Task(
    name="korsts",
    title="KorSTS: semantic similarity",
    kind="regression",
    languages=("ko",),
    version="2020",
    citation=KOR_NLU,
    licence="CC BY-SA 4.0",
    files_from=f"{KOR_NLU_FROM} (KorSTS/)",
    splits={
        split: Split(((f"sts-{split}.tsv", f"{split}.jsonl"),))
        for split in ("train", "dev", "test")
    },
    rows=tab_or_jsonl(),
    example=TextReader(
        Columns(text=("sentence1",), pair=("sentence2",), score=("score",)), span=(0.0, 5.0)
    ),
    metrics=("spearman", "pearson"),
    selection="spearman",
    settings=xpt_settings(5e-5, 10),
    folders=("KorSTS", "KorNLUDatasets/KorSTS", "official/KorSTS", "task_korsts"),
    hub=Hub("kakaobrain/kor_nlu", "sts", {"train": "train", "dev": "validation", "test": "test"}),
)

KORNLI = Task(
    name="kornli",
    title="KorNLI: natural language inference",
    kind="pair",
    languages=("ko",),
    version="2020",
    citation=KOR_NLU,
    licence="CC BY-SA 4.0",
    files_from=f"{KOR_NLU_FROM} (KorNLI/)",
    splits={
        "train": Split(
            (("snli_1.0_train.ko.tsv",), ("multinli.train.ko.tsv",)),
        ),
        "dev": Split((("xnli.dev.ko.tsv", "dev.jsonl"),)),
        "test": Split((("xnli.test.ko.tsv", "test.jsonl"),)),
    },
    rows=tab_or_jsonl(),
    example=TextReader(
        Columns(
            text=("sentence1", "premise"),
            pair=("sentence2", "hypothesis"),
            label=("gold_label", "label"),
        ),
        labels=NLI,
    ),
    metrics=("accuracy", "macro_f1"),
    selection="accuracy",
    settings=Settings(
        epochs=3,
        batch=32,
        learning_rate=2e-5,
        warmup=0.1,
        max_length=128,
        source="decided here: no paper of ours fine-tunes on it",
    ),
    labels=NLI,
    folders=("KorNLI", "KorNLUDatasets/KorNLI", "official/KorNLI", "task_kornli"),
    hub=Hub("kakaobrain/kor_nlu", "nli", {"train": "train", "dev": "validation", "test": "test"}),
    note="training files are machine translations, dev and test were corrected by hand",
)

KQP = Task(
    name="kqp",
    title="KQP: Korean question pairs",
    kind="pair",
    languages=("ko",),
    version="split of 6,136, 682 and 758 pairs",
    citation="Song 2018, Paired Question v.2",
    licence="MIT",
    files_from="https://github.com/songys/Question_pair",
    splits={
        "train": Split((("train.txt", "train.tsv", "train.jsonl"),)),
        "dev": Split((("validation.txt", "validation.tsv", "dev.jsonl"),)),
        "test": Split((("test.txt", "test.tsv", "test.jsonl"),)),
    },
    rows=tab_or_jsonl(("question1", "question2", "is_duplicate")),
    example=TextReader(
        Columns(text=("question1",), pair=("question2",), label=("is_duplicate", "label")),
        labels=BINARY,
    ),
    metrics=("accuracy", "macro_f1"),
    selection="accuracy",
    settings=xpt_settings(1e-5, 10),
    labels=BINARY,
    folders=("Question_pair/data", "Question_pair", "kqp", "task_kqp"),
    hub=Hub("songys/kor_qpair", None, {"train": "train", "dev": "validation", "test": "test"}),
    note="0 is the same question and 1 another, although the column is called is_duplicate",
)

KHS = Task(
    name="khs",
    title="KHS: Korean hate speech (BEEP!)",
    kind="classification",
    languages=("ko",),
    version="2020",
    citation="Moon et al. 2020, BEEP! Korean Corpus of Online News Comments, SocialNLP",
    licence="CC BY-SA 4.0",
    files_from="https://github.com/kocohub/korean-hate-speech (labeled/)",
    splits={
        "train": Split((("train.tsv", "train.jsonl"),)),
        "dev": Split((("dev.tsv", "dev.jsonl"),)),
        "test": Split((("test.no_label.tsv", "test_nolabel.jsonl"),), labelled=False),
    },
    rows=tab_or_jsonl(),
    example=TextReader(
        Columns(text=("comments", "text"), label=("hate",)),
        labels=HATE,
    ),
    metrics=("macro_f1", "accuracy"),
    selection="macro_f1",
    settings=xpt_settings(5e-5, 10),
    labels=HATE,
    evaluation=("dev",),
    folders=("labeled", "korean-hate-speech/labeled", "khs", "task_khs"),
    hub=Hub("inmoonlight/kor_hate", None, {"train": "train", "dev": "test"}),
    note="the test set is hidden: the paper reports the best score on the development set",
)

NSMC = Task(
    name="nsmc",
    title="NSMC: sentiment of film reviews",
    kind="classification",
    languages=("ko",),
    version="1.0",
    citation="Park 2015, Naver sentiment movie corpus v1.0",
    licence="CC0 1.0",
    files_from="https://github.com/e9t/nsmc",
    splits={
        "train": Split((("ratings_train.txt", "train.jsonl"),)),
        "test": Split((("ratings_test.txt", "test.jsonl"),)),
    },
    rows=tab_or_jsonl(),
    example=TextReader(
        Columns(text=("document", "text"), label=("label",), id=("id",)),
        labels=BINARY,
        aliases={"negative": "0", "positive": "1"},  # the Hub's names
    ),
    metrics=("accuracy", "macro_f1"),
    selection="accuracy",
    settings=Settings(
        epochs=3,
        batch=32,
        learning_rate=5e-5,
        warmup=0.1,
        max_length=128,
        source="decided here: no paper of ours fine-tunes on it",
    ),
    labels=BINARY,
    folders=("nsmc", "task_nsmc_rebuilt"),
    hub=Hub("e9t/nsmc", None, {"train": "train", "test": "test"}),
    note="it has no development set: the best checkpoint is chosen on a cut of train",
)
ALL = (KORSTS, KORNLI, KQP, KHS, NSMC)
