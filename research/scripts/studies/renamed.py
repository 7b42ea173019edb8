"""Keys of recipes as the rows of research/ name them, and the present ones."""

from __future__ import annotations

import re

OF_RESOURCES = (
    "lexicons", "source_text", "source_vectors", "target_vectors", "vector_width", "vector_units",
)  # fmt: skip
OF_METHOD = (
    "preset", "budget", "batch", "masking_rate", "learning_rate", "embedding_rate_factor",
    "dropout", "max_gradient_norm", "warmup", "schedule", "decay", "replay", "first_phase_warmup",
    "first_phase_share",
)  # fmt: skip
OF_TRAINING = (
    "device", "precision", "row_tokens", "micro_batch_tokens", "gradient_checkpointing",
    "sharding", "compile", "checkpoint_minutes", "checkpoint_steps", "log_steps", "trackers",
)  # fmt: skip

NUMBER = re.compile(r"\.\d+(?=\.)")
"""Number of a phase or a stream in a key."""
RENAMED = {
    "corpus.sentences": "corpus.max_train_sentences",
    "streams.corpus.sentences": "streams.corpus.max_train_sentences",
    "tokenizer.kind": "tokenizer.action",
    "tokenizer.normalisation": "tokenizer.normalization",
    "tokenizer.train_sentences": "tokenizer.max_train_sentences",
    "graft.layers_before": "graft.inserted_before",
    "graft.layers_after": "graft.inserted_after",
    "graft.layers_every": "graft.inserted_every",
    "graft.layer_initialiser": "graft.inserted_init",
    "graft.embeddings": "embeddings.init",
    "graft.output_embeddings": "embeddings.output_init",
    "graft.copy_special_tokens": "embeddings.copy_special_tokens",
    **{f"resources.{key}": f"embeddings.{key}" for key in OF_RESOURCES},
    "resources.sentences": "embeddings.max_sentences",
    "method.name": "training.method",
    "method.sentences": "training.max_train_sentences",
    "method.join_sentences": "training.packing",
    **{f"method.{key}": f"training.{key}" for key in OF_METHOD},
    **{f"training.{key}": f"hardware.{key}" for key in OF_TRAINING},
    "phases.sentences": "phases.max_train_sentences",
    "phases.join_sentences": "phases.packing",
    "phases.optimiser": "phases.optimizer",
    "phases.validation.sentences": "phases.validation.max_sentences",
    "evaluation.sentences": "evaluation.max_sentences",
    "evaluation.rate": "evaluation.masking_rate",
    "evaluation.words": "evaluation.max_words",
    "export.licence": "export.license",
    "export.data_licence": "export.data_license",
}


def present(path: str) -> str:
    """Return the present name of a key that is written with dots."""
    number = NUMBER.search(path)
    key = NUMBER.sub("", path, count=1)
    for end in [match.start() for match in re.finditer(r"\.|$", key)][::-1]:
        if key[:end] in RENAMED:
            key = RENAMED[key[:end]] + key[end:]
            break
    table, _, rest = key.partition(".")
    return f"{table}{number[0]}.{rest}" if number else key
