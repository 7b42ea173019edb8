"""Commands and options of the version before, and what there is in their place."""

from __future__ import annotations

COMMANDS = {
    "align": "lingraft analyze alignment",
    "bench": "speed and MFU stand in the log of every run (metrics.jsonl)",
    "compare": "lingraft report FOLDER…",
    "corpus": "lingraft data clean; of pairs and lexicons lingraft data pairs and data lexicon",
    "encoder-decoder": "lingraft convert seq2seq",
    "export-sentences": "lingraft convert sentence-encoder",
    "list": "lingraft show, as in lingraft show methods",
    "probe": "a study: lingraft study run recipes/probe-initializers.toml",
    "probe-source": "lingraft finetune RUN restore_source=true --task glue-rte",
    "recipe": "lingraft show recipe NAME",
    "retrieve": "lingraft analyze retrieval; with --mine lingraft data mine",
    "score-translations": "sacrebleu REFERENCE -i FILE -m bleu chrf",
    "sources": "a study: lingraft study run recipes/probe-sources.toml",
    "stage": "lingraft adapt, which goes on where a run stands and skips what is done",
}

OPTIONS = {
    # of several commands
    "--set": "KEY=VALUE by itself, as in seed=1",
    "--resume": "--update",
    "--overwrite": "--force",
    "--languages": "--lang de fr",
    "--processes": "--jobs N",
    "--rate": "masking_rate=0.15",
    "--sentences": "max_sentences=N",
    "--words": "max_words=N",
    "--seed": "seed=1",
    # of adapt
    "--minutes": "--budget 30m",
    "--hours": "--budget 8h",
    "--tokens": "--budget 5Mtok",
    "--steps": "--budget 300steps",
    "--preset": "training.preset=NAME",
    "--vocab-size": "tokenizer.vocab_size=N",
    "--lexicons": "embeddings.lexicons=FILE",
    "--replay": "--text ko=ko.txt en=en.txt training.replay.en=0.1 tokenizer.streams=ko",
    "--learning-rate": "training.learning_rate=1e-4",
    "--batch-tokens": "training.batch='2048 tokens'",
    # of finetune
    "--test-languages": "--test-language de fr",
    "--select-on": "selection_languages=en",
    # of study
    "--dry-run": "lingraft study plan STUDY",
    "--report-only": "lingraft study report STUDY",
}
"""An option that is a key of the command's own now needs no entry: --layer 8 is layer=8."""
