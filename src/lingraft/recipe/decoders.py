"""Methods that train rows, layers or inserted blocks, and their papers' settings, as records.

Each says where its values are from; what no source gives is marked "ours". Betas, epsilon and
batches that no source gives are those of `phase.py`.

blocks: LLaMA Pro (Wu et al. 2024), scripts/block_expansion.py. eeve: Kim et al. 2024
(arXiv:2402.14714), its model card; for tied sources the configurations of
github.com/thanhtrung102/VinaSmol. two-by-two: Yamaguchi et al. 2024 (arXiv:2406.11477),
github.com/gucci-j/lowres-cve. in-place: arXiv:2607.15232. chinese-llama: Cui et al. 2023
(arXiv:2304.08177), scripts/training/run_pt.sh.
"""

from __future__ import annotations

from lingraft.recipe.phase import Batch, Budget, Lora, Optimizer, Schedule, Validation
from lingraft.recipe.record import ALL, NO_ITL, MethodRecord, Preset, Stretch

NEW, NEW_HEAD = "embeddings.new", "head.new"
HEAD, ROWS = "head.rows", "embeddings.rows"
EVERYTHING = Validation(every_steps=1_000)

ROWS_AND_LAYERS: dict[str, MethodRecord] = {
    "untouched": MethodRecord(
        "the source as it is, with its own vocabulary: what others are measured against",
        NO_ITL,
        (),
        {"action": "keep"},
    ),
    "blocks": MethodRecord(
        "LLaMA Pro: a copy of every fourth layer that adds nothing at first; the copies alone "
        "train",
        NO_ITL | {"inserted_every": 4, "inserted_init": "identity"},
        (Stretch("phase-1", ("inserted",)),),
        {"action": "keep"},
    ),
    "eeve": MethodRecord(
        "EEVE: new rows first, then the output projection, then all, then the body; seven phases, "
        "four where the output projection is tied to the embeddings",
        # 8,960 pieces, E mean of pieces, H first piece (EEVE); as merges that go on (ours)
        NO_ITL,
        # Shares of the untied phases are ours: together those of the tied ones that they stand for.
        # Phase 6 trains the body itself (EEVE: QLoRA).
        (
            Stretch("phase-1", (NEW,), share=0.025),
            Stretch("phase-2", (NEW_HEAD,), share=0.025),
            Stretch("phase-3", (NEW, NEW_HEAD), share=0.05),
            Stretch("phase-4", (HEAD,), share=0.05, rate=0.5),
            Stretch("phase-5", (NEW, HEAD), share=0.05, rate=0.5),
            Stretch("phase-6", ALL, share=0.6, rate=0.2),
            Stretch("phase-7", ("body",), share=0.2, rate=0.1),
        ),
        {"action": "extend", "new_pieces": 8_960},
        preset="vinasmol",
        embeddings={"init": "mean", "output_init": "first-piece"},
        # 0.2, 0.2, 1.2 and 0.4 of 2 B tokens at 1e-3, 5e-4, 2e-4 and 1e-4 (VinaSmol)
        tied=(
            Stretch("phase-3", (NEW,), share=0.1),
            Stretch("phase-4", (ROWS,), share=0.1, rate=0.5),
            Stretch("phase-6", ALL, share=0.6, rate=0.2),
            Stretch("phase-7", ("body",), share=0.2, rate=0.1),
        ),
    ),
    "two-by-two": MethodRecord(
        "few new pieces, and little text: the rows, the first two and the last two layers train",
        # 100 to 1,000 pieces; without the paper's prediction of several tokens at once
        NO_ITL,
        (Stretch("phase-1", ("embeddings", "output_bias", "layers[:2]", "layers[-2:]")),),
        {"action": "extend", "new_pieces": 1_000},
        preset="two-by-two2024",
        embeddings={"init": "mean"},
    ),
    "in-place": MethodRecord(
        "new rows first, with everything else as it was, then all",
        NO_ITL,
        (
            Stretch("phase-1", (NEW, NEW_HEAD), share=0.6),  # 600 B and 400 B tokens
            Stretch("phase-2", ALL, share=0.4),
        ),
        {"action": "extend"},
        embeddings={"init": "mean"},
        tied=(Stretch("phase-1", (NEW,), share=0.6), Stretch("phase-2", ALL, share=0.4)),
    ),
    "chinese-llama": MethodRecord(
        "Chinese-LLaMA: LoRA on every layer, the rows of the vocabulary in full (needs peft)",
        NO_ITL,
        (
            Stretch(
                "phase-1",
                ("embeddings", "output_bias"),
                lora=Lora(parts=("body",), rank=8, alpha=32, dropout=0.05),
            ),
        ),
        {"action": "append", "vocab_size": 20_000},  # of which Llama lacked 17,953
        preset="chinese-llama2023",
        embeddings={"init": "random"},  # rows that resizing draws
    ),
}

OF_DECODERS: dict[str, Preset] = {
    "chinese-llama2023": Preset(
        "Cui et al. 2023, run_pt.sh; the batch is ours",
        ("embeddings", "output_bias"),
        Budget(value=1, unit="epochs"),
        Batch(size=65_536, unit="tokens"),
        Optimizer(learning_rate=2e-4, weight_decay=0.01),
        Schedule(shape="cosine", warmup=0.05),
        EVERYTHING,
    ),
    "two-by-two2024": Preset(
        "Yamaguchi et al. 2024, llama2.sh, for 30,000 sentences",
        ("embeddings", "output_bias"),
        Budget(value=2, unit="epochs"),
        Batch(size=8, unit="sentences"),
        Optimizer(learning_rate=1e-4, weight_decay=0.01),
        Schedule(shape="cosine", warmup=0.05),
        EVERYTHING,
    ),
    "vinasmol": Preset(
        "VinaSmol, EEVE for SmolLM2-360M; the peak is its first stage's, the shape is ours",
        ("embeddings", "output_bias"),
        Budget(value=2_000_000_000, unit="tokens"),
        Batch(size=131_072, unit="tokens"),  # 64 rows of 2,048
        Optimizer(learning_rate=1e-3, betas=(0.9, 0.95), weight_decay=0.1),
        Schedule(shape="cosine", warmup=10, floor=0.05),  # 1e-5 of the 2e-4 of the longest stage
        EVERYTHING,
    ),
}
