"""Methods and presets as records: how to get from a source to a target, and a paper's settings.

No method is a class. Sources: XPT and its baselines, Lee et al. 2021 ("xpt2021".1-H.4);
Son et al. 2022 ("chameleon2022", and xpt-random, its table 3). Adapters: Houlsby et al. 2019;
mono-trans: Artetxe et al. 2020; lapt: Chau et al. 2020. MetaXLM, its baseline XLM and its
ablations: Chi et al. 2021 ("metaxlm2021"). veco: Luo et al. 2021 ("veco2021").

Methods that train rows and layers, most of them made for decoders, are in `decoders.py`.
To add a method, add a record to `METHODS`.
"""

from __future__ import annotations

import difflib
from typing import Any

from lingraft.errors import RecipeError
from lingraft.recipe.base import PARTS
from lingraft.recipe.decoders import OF_DECODERS, ROWS_AND_LAYERS
from lingraft.recipe.phase import Batch, Budget, Optimizer, Schedule, Validation
from lingraft.recipe.record import ALL, AUTO, NO_ITL, MethodRecord, Preset, Stretch

# no method that freezes the body has cross-attention
ALL_BUT_BODY = tuple(part for part in PARTS if part not in ("body", "cross_attention"))
# "each phase until convergence"
UNTIL_CONVERGENCE = Validation(every_steps=1_000, patience=10)
ONE_PHASE = (Stretch("phase-1", ALL),)
TWO_PHASES = (Stretch("phase-1", None), Stretch("phase-2", ALL))
DRAWN = {"source_weights": "random"}
DRAWN_ROWS = {"init": "random", "copy_special_tokens": None}
MATCHED = {"init": "match"}


def _metaxlm(
    summary: str,
    embeddings: dict[str, Any],
    stretches: tuple[Stretch, ...] = ONE_PHASE,
    graft: dict[str, Any] = NO_ITL,
) -> MethodRecord:
    """Make MetaXLM or a rival of it: the source's depth, its own paper's settings."""
    return MethodRecord(summary, graft, stretches, preset="metaxlm2021", embeddings=embeddings)


METHODS: dict[str, MethodRecord] = {
    "xpt": MethodRecord(
        "cross-lingual post-training: translation layers, first with the source frozen, "
        "then all together",
        {},
        TWO_PHASES,
    ),
    "xpt-sp": MethodRecord("XPT in a single phase: the same model, nothing frozen", {}, ONE_PHASE),
    "scratch": MethodRecord(
        "the same depth with random weights: what the language's own text gives",
        DRAWN,
        ONE_PHASE,
        embeddings=DRAWN_ROWS,
    ),
    "adapters": MethodRecord(
        "bottleneck adapters in place of translation layers, with as many parameters; "
        "nothing frozen",
        NO_ITL | {"adapters": "matched"},
        ONE_PHASE,
    ),
    "mono-trans": MethodRecord(
        "new embeddings alone are trained, the source's layers stay as they are",
        NO_ITL,
        (Stretch("phase-1", ("embeddings", "output_bias")),),
    ),
    "xpt-no-itl": MethodRecord("XPT without translation layers", NO_ITL, TWO_PHASES),
    "xpt-random": MethodRecord(
        "XPT on a source with random weights: what its depth and phases alone give",
        DRAWN,
        TWO_PHASES,
        embeddings=DRAWN_ROWS,
    ),
    "untrained": MethodRecord(
        "scratch before its first step: the floor that fine-tuning alone reaches",
        DRAWN,
        (),
        embeddings=DRAWN_ROWS,
    ),
    "continued": MethodRecord(
        "the source trained on with its own vocabulary, nothing new",
        NO_ITL,
        ONE_PHASE,
        {"action": "keep"},
    ),
    "lapt": MethodRecord(
        "the source trained on with the target's pieces added to its vocabulary",
        NO_ITL,
        ONE_PHASE,
        {"action": "add"},
        embeddings={"init": "mean"},
    ),
    "join": MethodRecord(
        "a language joins a model that exists: its pieces are added, and the old languages' text "
        "is drawn beside its own (adapt --join RUN)",
        NO_ITL,
        ONE_PHASE,
        {"action": "add"},
        preset="metaxlm2021",
        embeddings={"init": "mean"},
    ),
    "metaxlm": _metaxlm(
        "one language's model becomes several languages': rows of pieces that match are copied, "
        "the others drawn, everything trains",
        MATCHED,
    ),
    "metaxlm-dict": _metaxlm(
        "MetaXLM, where words of embeddings.lexicons start as their translation (+Dict)",
        {"init": "dictionary"},
    ),
    "metaxlm-freeze": _metaxlm(
        "MetaXLM with the encoder's layers frozen: embeddings and the head alone train",
        MATCHED,
        (Stretch("phase-1", ALL_BUT_BODY),),
    ),
    "xlm": _metaxlm(
        "the baseline of MetaXLM: the same architecture and steps, every weight drawn",
        DRAWN_ROWS,
        graft=NO_ITL | DRAWN,
    ),
    "xlm-kd": _metaxlm(
        "XLM that also learns from the source's states of the source language's sentences",
        DRAWN_ROWS,
        (Stretch("phase-1", ALL, distil=True),),
        graft=NO_ITL | DRAWN,
    ),
    "xlm-init-body": _metaxlm(
        "XLM with all of the source but its word embeddings", {"init": "random"}
    ),
    "xlm-init-emb": _metaxlm(
        "XLM with the source's matched embedding rows, everything else drawn",
        MATCHED,
        graft=NO_ITL | DRAWN,
    ),
    "veco": MethodRecord(
        "cross-attention plugged into the source, on pairs: first it alone, then all together; "
        "the vocabulary stays",
        NO_ITL | {"cross_attention": True},
        (
            Stretch("phase-1", ("cross_attention",), objectives=("ca_mlm",), share=0.1),
            Stretch("phase-2", ALL, objectives=("ca_mlm", "tlm"), share=0.9),
        ),
        {"action": "keep"},
        preset="veco2021",
        kind="masked",
    ),
}
METHODS |= ROWS_AND_LAYERS

PRESETS: dict[str, Preset] = OF_DECODERS | {
    AUTO: Preset(
        "decided by source, text and budget (docs/background/automatic-settings.md)",
        ("embeddings", "output_bias", "inserted"),
        Budget(value=1e6, unit="tokens"),
        Batch(size=2_048, unit="tokens"),
        Optimizer(learning_rate=2e-3, max_gradient_norm=1.0),
        Schedule(shape="wsd", warmup=0.1, decay=0.4),  # as low as a line, and a run can go on
        Validation(),
    ),
    "xpt2021": Preset(
        "Lee et al. 2021, 100k-400k sentences; phase 1 freezes everything "
        "that comes from the source",
        ("embeddings", "output_bias", "inserted"),
        Budget(value=60_000, unit="steps"),
        Batch(size=256, unit="sentences"),
        Optimizer(learning_rate=1e-4),
        Schedule(shape="linear", warmup=1_000),
        UNTIL_CONVERGENCE,
    ),
    "chameleon2022": Preset(
        "Son et al. 2022; positions and language-model head train in phase 1 too",
        ("embeddings", "output_bias", "inserted", "positions", "head"),
        Budget(value=100_000, unit="steps"),
        Batch(size=512, unit="sentences"),
        Optimizer(learning_rate=3e-4),
        Schedule(shape="linear", warmup=1_000),
        UNTIL_CONVERGENCE,
    ),
    "metaxlm2021": Preset(
        "Chi et al. 2021, table 7; a first phase freezes what xpt2021's does",
        ("embeddings", "output_bias", "inserted"),
        Budget(value=200_000, unit="steps"),
        Batch(size=64, unit="sentences"),
        Optimizer(learning_rate=1e-4, max_gradient_norm=1.0),
        Schedule(shape="linear", warmup=10_000),
        Validation(every_steps=1_000),
        dropout=0.1,
        packing=True,  # "several sentences that consist of at most 512 tokens"
    ),
    "veco2021": Preset(
        "Luo et al. 2021, table 8, large model; a first phase trains cross-attention alone",
        ("cross_attention",),
        Budget(value=240_000, unit="steps"),
        Batch(size=1_024, unit="sentences"),
        Optimizer(learning_rate=2e-4),
        Schedule(shape="linear", warmup=12_000),
        Validation(every_steps=1_000),
        dropout=0.1,
        bilingual_batch=4_096,
    ),
}


def method_named(name: str) -> MethodRecord:
    """Return the record of a method.

    Raises:
        RecipeError: there is none of that name.
    """
    if name not in METHODS:
        close = difflib.get_close_matches(name, METHODS, n=1)
        hint = f"did you mean '{close[0]}'? " if close else ""
        raise RecipeError(f"method '{name}' is not known; {hint}methods: {', '.join(METHODS)}")
    return METHODS[name]
