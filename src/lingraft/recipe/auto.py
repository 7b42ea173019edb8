"""`preset = "auto"`: what a run should do, from its source, text, time and resources, as rules.

A rule is a record: when it holds, the value of one key of the recipe, and the committed rows of our
own studies that support it. Of the rules for a key the first that holds decides. What the recipe
gives itself is never touched. Where no row decides, the rule says that it is unsure and names
candidates, which the run compares by short trials of the real model on the real text
(`pipeline.trials`).

Rows are named FILE:CELL, in docs/results. They were compared by the loss on validation text; those
of masking, of steps and of the proof by the bits per character of held-out words.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

AUTO = "auto"
FEWEST_TOKENS = 300_000
"""With fewer tokens of training a model may be no better than unigrams: none was measured."""
NARROW, WIDE = 320, 448
"""Widths up to which results at 256, and at 384, are taken."""
NARROW_RATE, MEASURED_WIDTH, MEASURED_RATE = 2e-3, 384, 1e-3
"""The peak learning rates that won at 256 and at that width, in one phase."""
SIZES, LARGEST = ((3e6, 4_000), (3e7, 8_000), (3e8, 16_000), (3e9, 32_000)), 50_000
"""Characters below which a vocabulary has so many pieces; of the largest texts."""
TOKENS_A_PIECE = 50
"""Fewer training tokens for each piece are called too few by the report as well."""
MEASURED_TOKENS, LONGEST_TOKENS = 3_000_000, 12_000_000
"""Of training: of most of our studies, and of the longest runs of narrow sources."""
LITTLE = 600_000
"""Tokens of training up to which the results at 0.3 M are taken."""
HURRIED = 60.0
"""Seconds of a whole run below which learning static vectors, some seconds, takes too much."""


@dataclass(frozen=True)
class Facts:
    """What rules may ask for."""

    kind: str
    """Of the source: masked, causal or seq2seq."""
    width: int
    """Numbers in a hidden state of the source."""
    characters: int
    """Of the training text, over all streams."""
    tokens: float
    """Of training: what the budget allows. An estimate until the speed was measured."""
    phases: int = 1
    """Of the method."""
    seconds: float | None = None
    """That the whole run may take; None where its budget is not in time."""
    slowdown: float = 1.0
    """How many times as long things take here as they would without other work."""
    has_vectors: bool = False
    """Whether static word vectors can be learnt here (the extra `vectors`)."""


@dataclass(frozen=True)
class Rule:
    """One row of the table."""

    key: str
    """What it decides, as a path in the recipe."""
    name: str
    holds: Callable[[Facts], bool]
    value: Callable[[Facts], Any]
    why: str
    rows: tuple[str, ...]
    """Committed results that support it; empty where it is unsure."""
    candidates: Callable[[Facts], tuple[Any, ...]] | None = None
    """What short trials compare; None trusts the value."""


def always(_: Facts) -> bool:
    """A rule's condition where the ones above it did not hold."""
    return True


def nearest_rate(facts: Facts) -> float:
    """The measured rate carried over to another width: inversely proportional to it.

    Differs from muP (Yang et al. 2022), which scales the hidden matrices alone; a starting point
    for trials, not a law.
    """
    return float(f"{min(NARROW_RATE, MEASURED_RATE * MEASURED_WIDTH / facts.width):.2g}")


def not_above(facts: Facts) -> tuple[float, ...]:
    """The nearest learning rate and two lower ones.

    None is higher: short trials favour what is fast at first.
    """
    return tuple(float(f"{nearest_rate(facts) / divisor:.2g}") for divisor in (4, 2, 1))


def is_narrow(facts: Facts) -> bool:
    """Whether the source is like the narrow ones of our studies."""
    return facts.kind == "masked" and facts.width <= NARROW


def is_measured(facts: Facts) -> bool:
    """Whether the source is like one of our studies."""
    return facts.kind == "masked" and facts.width <= WIDE


def is_hurried(facts: Facts) -> bool:
    """Whether learning static vectors would take too large a share of the time."""
    return facts.seconds is not None and facts.seconds < HURRIED * facts.slowdown


def learns_vectors(facts: Facts) -> bool:
    """Whether static vectors can be learnt here, and there is time to."""
    return facts.has_vectors and not is_hurried(facts)


def is_short(facts: Facts) -> bool:
    """Whether the budget is among those of our studies."""
    return is_measured(facts) and facts.tokens <= MEASURED_TOKENS


def goes_light(facts: Facts) -> bool:
    """Whether translation layers and wide vectors were measured, and are not worth their time."""
    return is_short(facts) or (is_narrow(facts) and facts.tokens <= LONGEST_TOKENS)


KO, LR = "study-ko.jsonl", "study-ko-lr.jsonl"
SEEDS = (0, 1, 2)
ONE_PHASE = tuple(f"{KO}:{name}-n25000-s{seed}" for name in ("xpt-sp", "xpt") for seed in SEEDS)
JA = "auto/ja.jsonl"
AT_LITTLE = (f"{JA}:xpt-sp-s0-focus-0-0-793f", f"{JA}:xpt-sp-s0-mean-0-0-92b0")
WITH_FOCUS, WITH_MEAN, RANDOM = (
    tuple(f"{KO}:xpt-sp-n25000-s{seed}{end}" for seed in SEEDS)
    for end in ("-focus-b145", "-mean-1a66", "")
)
TEN_MILLION = (
    *(f"proof/{language}-10m-first-rules.jsonl:auto-s0" for language in ("fr", "ja")),
    *(f"proof/{language}-10m.jsonl:xpt-sp-s0-4096-3e50" for language in ("fr", "ja")),
    "proof/fr-10m.jsonl:xpt-sp-s0-4096-300-5000000-57d4",
)
VECTORS = "lower than with FOCUS' 300 numbers and five million pieces at 0.3 M tokens, in less time"
VECTOR_ROWS = tuple(
    f"auto/vectors.jsonl:xpt-sp-s{seed}-{end}"
    for end in ("300-0022", "64-1000000-b8ab", "64-3000000-01e7", "mean-1a66")
    for seed in (0, 1)
)
MASKING = "auto/masking.jsonl"
MASKS = "lower bits per character than 0.15, 0.2, 0.3 at 0.3 M tokens, like 0.5; lower at 1 M too"
MASK_ROWS = (
    *(f"{MASKING}:xpt-sp-s{seed}-{end}" for end in ("0.4-4a7c", "0.3-4a3e") for seed in (0, 1)),
    *(row for row in VECTOR_ROWS if "3000000" in row),
)
MASK_1M = tuple(
    f"auto/masking-1m.jsonl:xpt-sp-s0-{end}"
    for end in ("0.15-2048-1a9a", "0.4-2048-79f6", "0.4-1024-1ce8", "0.4-512-ac86")
)
MASK_STEPS = tuple(
    f"{MASKING}:xpt-sp-s{seed}-0.4-{end}" for end in ("512-ac86", "256-227d") for seed in (0, 1)
)
MINILM_1M = tuple(
    f"auto/minilm-1m.jsonl:xpt-sp-s0-{end}"
    for end in ("0.0005-4f2a", "0.001-8d84", "0.002-5eeb", "0.001-0.3-a746")
)
MINILM = "auto/minilm.jsonl:xpt-sp-s0"
MINILM_RATES = tuple(f"{MINILM}-{end}" for end in ("0.001-8d84", "0.0005-4f2a", "0.002-5eeb"))
MINILM_MASKS = tuple(f"{MINILM}-{end}" for end in ("0.001-8d84", "0.3-4a3e", "0.15-2435"))
PROOF = "proof/minilm-"
WIDE_FOCUS = (
    *(
        f"{PROOF}{row}"
        for row in ("ja.jsonl:xpt-sp-s0-0.001-8d84", "fr.jsonl:auto-s0", "ko.jsonl:auto-s0")
    ),
    *(f"{PROOF}{language}.jsonl:xpt-sp-s0-0.001-mean-026b" for language in ("ja", "fr", "ko")),
)
NO_LAYERS = (
    "within 0.01 nats without translation layers, for three quarters of the operations; at width "
    "384 and 0.3 M tokens far lower without; at 10 M 0.2 and 1.1 % higher, in 0.8 of the whole time"
)
NO_LAYERS_ROWS = (
    *(f"{KO}:auto-n25000-s{seed}" for seed in SEEDS),
    *WITH_FOCUS,
    f"{MINILM}-0.001-8d84",
    f"{MINILM}-1-1-13ea",
    *TEN_MILLION,
)


def layers(where: str) -> tuple[Rule, Rule]:
    """Of the translation layers before or after: none where that was measured, else one."""
    key = f"graft.layers_{where}"
    unsure = "the paper's translation layers: not measured at this size"
    return (
        Rule(key, f"no-layers-{where}", goes_light, lambda _: 0, NO_LAYERS, NO_LAYERS_ROWS),
        Rule(key, f"layers-{where}", always, lambda _: 1, unsure, ()),
    )


def vectors(what: str, name: str, measured: int, papers: int | None) -> tuple[Rule, Rule]:
    """Of FOCUS' static vectors: less where that was measured, else as much as in the paper."""
    key, unsure = f"resources.vector_{what}", "as FOCUS has them: not measured at this size"
    return (
        Rule(
            key,
            name,
            lambda facts: learns_vectors(facts) and goes_light(facts),
            lambda _: measured,
            VECTORS,
            (*VECTOR_ROWS, *TEN_MILLION[2:]),
        ),
        Rule(key, f"{name}-beyond", learns_vectors, lambda _: papers, unsure, ()),
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "method.name",
        "one-phase",
        lambda facts: is_narrow(facts) and is_short(facts),
        lambda _: "xpt-sp",
        "one phase ends as low as two at 1 M tokens, over three seeds",
        ONE_PHASE,
    ),
    Rule(
        "method.name",
        "one-phase-beyond",
        always,
        lambda _: "xpt-sp",
        "one phase was as good as two at the sizes that were measured; not at this one",
        (),
    ),
    Rule(
        "graft.embeddings",
        "focus",
        lambda facts: learns_vectors(facts) and is_narrow(facts) and is_short(facts),
        lambda _: "focus",
        "lower than mean and random rows at 1 M tokens, with each of three seeds, and at 0.3 M",
        (*WITH_FOCUS, *WITH_MEAN, *RANDOM, *AT_LITTLE),
    ),
    Rule(
        "graft.embeddings",
        "focus-wide",
        lambda facts: learns_vectors(facts) and is_short(facts) and facts.tokens > LITTLE,
        lambda _: "focus",
        "lower than mean at width 384 and 1 M tokens in each of three languages",
        WIDE_FOCUS,
    ),
    Rule(
        "graft.embeddings",
        "focus-beyond",
        learns_vectors,
        lambda _: "focus",
        "the lowest of three at width 256; at 384 mean was as low (0.3 M tokens, one seed)",
        (),
        lambda _: ("focus", "mean"),
    ),
    Rule(
        "graft.embeddings",
        "mean",
        always,
        lambda _: "mean",
        "the next best; FOCUS learns static vectors, which takes time and the extra `vectors` "
        "(pip install 'lingraft[vectors]')",
        (*WITH_MEAN, *RANDOM, *AT_LITTLE[1:]),
    ),
    *vectors("width", "narrow-vectors", 64, 300),
    *vectors("units", "short-reading", 3_000_000, None),
    *layers("before"),
    *layers("after"),
    Rule(
        "tokenizer.vocab_size",
        "vocabulary",
        always,
        lambda facts: vocabulary_for(facts.characters, facts.tokens),
        "grows with text and budget; 4,000 and 8,000 pieces are what was measured",
        (),
    ),
    Rule(
        "method.masking_rate",
        "masks",
        is_short,
        lambda _: 0.4,
        MASKS,
        (*MASK_ROWS, *MASK_1M[:2], MINILM_1M[1], MINILM_1M[3], *MINILM_MASKS),
    ),
    Rule(
        "method.masking_rate",
        "masks-beyond",
        lambda facts: facts.kind == "masked",
        lambda _: 0.4,
        "better than 0.15 for BERT-large (Wettig et al. 2023); not measured here at this size",
        (),
    ),
    Rule(
        "method.batch",
        "batch-little",
        lambda facts: is_measured(facts) and facts.tokens <= LITTLE,
        lambda _: {"size": 512, "unit": "tokens"},
        "at 0.3 M tokens lower than steps of 256, 1,024 and 2,048 tokens",
        (*MASK_STEPS, MASK_ROWS[0], f"{MASKING}:xpt-sp-s0-0.4-2048-79f6", f"{MINILM}-1024-ace3"),
    ),
    Rule(
        "method.batch",
        "batch",
        is_short,
        lambda _: {"size": 1_024, "unit": "tokens"},
        "at 1 M tokens lower than steps of 2,048 tokens, and 0.01 bits above 512 in less time",
        MASK_1M[1:],
    ),
    Rule(
        "method.batch",
        "batch-by-budget",
        always,
        lambda facts: {"size": batch_for(facts.tokens), "unit": "tokens"},
        "with the square root of the budget, from what is best at 0.3 M and 1 M tokens",
        (),
    ),
    Rule(
        "method.learning_rate",
        "rate-narrow",
        is_narrow,
        lambda _: NARROW_RATE,
        "the lowest of 1e-3, 2e-3 and 4e-3; at 0.3 M tokens of 1e-3, 2e-3 and 3e-3",
        (
            *(f"{LR}:xpt-n25000-s0-{end}" for end in ("0.001-8d84", "0.002-5eeb", "0.004-4a20")),
            *(f"{MASKING}:xpt-sp-s0-0.4-512-{end}" for end in ("0.001-6ae0", "ac86", "0.003-710b")),
        ),
    ),
    Rule(
        "method.learning_rate",
        "rate-wide-little",
        lambda facts: is_measured(facts) and facts.tokens <= LITTLE,
        lambda _: MEASURED_RATE / 2,
        "the lowest of 5e-4, 1e-3 and 2e-3 at 0.3 M tokens with a source of width 384",
        MINILM_RATES,
    ),
    Rule(
        "method.learning_rate",
        "rate-wide",
        is_measured,
        lambda _: MEASURED_RATE,
        "the lowest of 5e-4, 1e-3 and 2e-3 at 1 M tokens with a source of width 384",
        MINILM_1M[:3],
    ),
    Rule(
        "method.learning_rate",
        "rate-by-width",
        always,
        nearest_rate,
        "1e-3 at width 384, inversely with width: not measured here",
        (),
        not_above,
    ),
    Rule(
        "method.warmup",
        "warm-up",
        always,
        lambda _: 0.1,
        "a tenth of a phase, as in all cells of the study",
        (f"{KO}:xpt-sp-n25000-s0",),
    ),
    Rule(
        "method.first_phase_warmup",
        "warm-up-frozen",
        lambda facts: facts.phases == 2,
        lambda _: 0.3,
        "shorter, one seed in three lost half of the phase (docs/log.md)",
        (f"{KO}:xpt-n25000-s0",),
    ),
    Rule(
        "method.first_phase_share",
        "share-frozen",
        lambda facts: facts.phases == 2,
        lambda _: 0.4,
        "as in the study's cells of two phases",
        (f"{KO}:xpt-n25000-s0",),
    ),
)
"""In order: of the rules for a key the first that holds decides."""


def batch_for(tokens: float) -> int:
    """Tokens of a step: 1,024 at 1.2 M of training, with their root from there; a power of two."""
    return 1 << min(16, max(9, round(math.log2(1_024 * math.sqrt(max(tokens, 1) / 1.2e6)))))


def vocabulary_for(characters: int, tokens: float = math.inf) -> int:
    """Pieces of a new vocabulary: by the text, but no more than training can teach.

    Args:
        characters: of the training text.
        tokens: of training; `TOKENS_A_PIECE` of them for each piece.
    """
    by_text = next((pieces for most, pieces in SIZES if characters < most), LARGEST)
    sizes = (*(size for _, size in SIZES), LARGEST)
    taught = [pieces for pieces in sizes if pieces * TOKENS_A_PIECE <= tokens]
    return min(by_text, max(taught, default=SIZES[0][1]))
