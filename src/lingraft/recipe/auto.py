"""`preset = "auto"`: what a run should do, from its source, text, time and resources, as rules.

A rule is a record: when it holds, the value of one key of the recipe, and the committed rows of our
own studies that support it. Of the rules for a key the first that holds decides. What the recipe
gives itself is never touched. Where no row decides, the rule says that it is unsure and names
candidates, which the run compares by short trials of the real model on the real text
(`pipeline.trials`).

Rules of causal sources alone stand in `auto_causal`. Rows are named FILE:CELL, in research/rows.
They were compared by the loss on validation text; those of masking, of steps and of the proof by
the bits per character of held-out words.
"""

from __future__ import annotations

from lingraft.recipe import auto_causal, evidence
from lingraft.recipe.facts import (
    FEW_PASSES,
    LITTLE,
    LONG_PASSES,
    MANY_PASSES,
    Facts,
    always,
    goes_light,
    is_long,
    is_measured,
    is_narrow,
    is_short,
    learns_vectors,
    trains_at_once,
)
from lingraft.recipe.rule import Rule
from lingraft.recipe.scales import FASTER, NARROW_RATE, batch_for, rate_by_step, vocabulary_for

AUTO = "auto"
EDITION = "2026-11-26"
"""When what the rules choose last changed: a study takes no results of other rules for theirs."""
EDITIONS = {"causal": "2026-11-26 causal"}
"""Of kinds of sources for which they changed later."""
LONG_EDITION = ", long runs 2026-11-27"
"""Goes behind it where `is_long` holds, or may: for those they changed later still."""
LATIN_PIECES, LATIN_TOKENS, LATIN_CHARACTERS = 8_000, 250_000, 500_000
"""Pieces of a vocabulary in Latin letters: from so much training, on so much text."""
MEASURED_WIDTH, MEASURED_RATE = 384, 1e-3
"""The peak learning rate that won at that width, the same for all parts."""


def teaches_latin(facts: Facts) -> bool:
    """Whether more pieces of a language in Latin letters can be learnt and taught than others'."""
    enough = facts.tokens >= LATIN_TOKENS and facts.characters >= LATIN_CHARACTERS
    fewer = vocabulary_for(facts.characters, facts.tokens) < LATIN_PIECES
    return facts.latin and enough and fewer


def nearest_rate(facts: Facts) -> float:
    """The measured rate carried over to another width: inversely proportional to it.

    Where the embeddings learn faster, the rest learns at half of that, as at the measured widths.

    Differs from muP (Yang et al. 2022), which scales the hidden matrices alone; a starting point
    for trials, not a law.
    """
    rate = min(NARROW_RATE, MEASURED_RATE * MEASURED_WIDTH / facts.width)
    return float(f"{rate / (2 if trains_at_once(facts) else 1):.2g}")


def not_above(facts: Facts) -> tuple[float, ...]:
    """The nearest learning rate and two lower ones.

    None is higher: short trials favour what is fast at first.
    """
    return tuple(float(f"{nearest_rate(facts) / divisor:.2g}") for divisor in (4, 2, 1))


def layers(where: str) -> tuple[Rule, Rule]:
    """Of the translation layers before or after: none where that was measured, else one."""
    key = f"graft.layers_{where}"
    unsure = "the paper's translation layers: not measured at this size"
    return (
        Rule(
            key,
            f"no-layers-{where}",
            goes_light,
            lambda _: 0,
            evidence.NO_LAYERS,
            evidence.NO_LAYERS_ROWS,
        ),
        Rule(key, f"layers-{where}", always, lambda _: 1, unsure),
    )


def vectors(size: str, name: str, measured: int, papers: int | None) -> tuple[Rule, Rule]:
    """Of FOCUS' static vectors: less where that was measured, else as much as in the paper."""
    key, unsure = f"resources.vector_{size}", "as FOCUS has them: not measured at this size"
    return (
        Rule(
            key,
            name,
            lambda facts: learns_vectors(facts) and goes_light(facts),
            lambda _: measured,
            evidence.VECTORS,
            (*evidence.VECTOR_ROWS, *evidence.TEN_MILLION[2:]),
        ),
        Rule(key, f"{name}-beyond", learns_vectors, lambda _: papers, unsure),
    )


RULES: tuple[Rule, ...] = (
    *auto_causal.RULES,
    Rule(
        "method.name",
        "one-phase",
        lambda facts: is_narrow(facts) and is_short(facts),
        lambda _: "xpt-sp",
        "one phase ends as low as two at 1 M tokens, over three seeds",
        evidence.ONE_PHASE,
    ),
    Rule(
        "method.name",
        "one-phase-beyond",
        always,
        lambda _: "xpt-sp",
        "one phase was as good as two at the sizes that were measured; not at this one",
    ),
    Rule(
        "graft.embeddings",
        "focus",
        lambda facts: learns_vectors(facts) and is_narrow(facts) and goes_light(facts),
        lambda _: "focus",
        "lower than mean and random rows at 1 M tokens, with each of three seeds, and at 0.3 M; "
        "than mean at 10 M",
        (
            *(*evidence.WITH_FOCUS, *evidence.WITH_MEAN, *evidence.RANDOM, *evidence.AT_LITTLE),
            *evidence.LONG_FOCUS,
        ),
    ),
    Rule(
        "graft.embeddings",
        "focus-wide",
        lambda facts: learns_vectors(facts) and goes_light(facts) and facts.tokens > LITTLE,
        lambda _: "focus",
        "lower than mean at width 384 and 1 M tokens in each of three languages; at 10 M as low "
        "(Korean)",
        evidence.WIDE_FOCUS,
    ),
    Rule(
        "graft.embeddings",
        "focus-beyond",
        learns_vectors,
        lambda _: "focus",
        "the lowest of three at width 256; at 384 mean was as low (0.3 M tokens, one seed)",
        candidates=lambda _: ("focus", "mean"),
    ),
    Rule(
        "graft.embeddings",
        "mean",
        always,
        lambda _: "mean",
        "the next best; FOCUS learns static vectors, which takes time and the extra `vectors` "
        "(pip install 'lingraft[vectors]')",
        (*evidence.WITH_MEAN, *evidence.RANDOM, *evidence.AT_LITTLE[1:]),
    ),
    *vectors("width", "narrow-vectors", 64, 300),
    *vectors("units", "short-reading", 3_000_000, None),
    *layers("before"),
    *layers("after"),
    Rule(
        "tokenizer.vocab_size",
        "vocabulary-latin",
        lambda facts: is_narrow(facts) and is_short(facts) and teaches_latin(facts),
        lambda _: LATIN_PIECES,
        "in Latin letters 8,000 pieces end 2.5 to 5 % lower than 4,000 (0.3 M tokens, 2 languages)",
        evidence.LATIN_PIECES,
    ),
    Rule(
        "tokenizer.vocab_size",
        "vocabulary",
        always,
        lambda facts: vocabulary_for(facts.characters, facts.tokens),
        "grows with text and budget; 4,000 and 8,000 pieces are what was measured",
    ),
    Rule(
        "method.masking_rate",
        "masks",
        is_short,
        lambda _: 0.4,
        evidence.MASKS,
        (
            *evidence.MASK_ROWS,
            *evidence.MASK_1M[:2],
            evidence.MINILM_1M[1],
            evidence.MINILM_1M[3],
            *evidence.MINILM_MASKS,
        ),
    ),
    Rule(
        "method.masking_rate",
        "masks-beyond",
        lambda facts: facts.kind == "masked",
        lambda _: 0.4,
        "better than 0.15 for BERT-large (Wettig et al. 2023); not measured here at this size",
    ),
    Rule(
        "method.dropout",
        "no-dropout",
        lambda facts: is_short(facts) and facts.passes <= MANY_PASSES,
        lambda _: 0.0,
        "far lower without than with the source's 0.1, in less time",
        (evidence.NO_DROPOUT, evidence.OWN_DROPOUT),
    ),
    Rule(
        "method.dropout",
        "no-dropout-long",
        lambda facts: is_long(facts) and trains_at_once(facts) and facts.passes <= LONG_PASSES,
        lambda _: 0.0,
        "1.6 to 3.6 % lower without than with the source's 0.1 at 10 M tokens, in three languages",
        evidence.LONG_DROPOUT,
    ),
    Rule(
        "method.dropout",
        "no-dropout-beyond",
        lambda facts: facts.kind == "masked" and facts.passes <= FEW_PASSES,
        lambda _: 0.0,
        "better without, if the text is read few times (Geiping and Goldstein 2023); not measured "
        "at this size",
    ),
    Rule(
        "method.dropout", "dropout", is_short, lambda _: 0.1, evidence.PASSES, evidence.PASSES_ROWS
    ),
    Rule(
        "method.dropout",
        "own-dropout",
        lambda facts: facts.kind == "masked",
        lambda _: None,
        "the source's own: the text is read many times, where that was not measured",
    ),
    Rule(
        "method.embedding_rate_factor",
        "faster-embeddings",
        lambda facts: goes_light(facts) and trains_at_once(facts),
        lambda _: FASTER,
        "lower than one rate for all at widths 256 and 384, and than a factor of 8 at 0.3 M "
        "tokens; at 1 and 10 M 8 is like it, or 1.5 % lower",
        (
            *(*evidence.FACTOR_NARROW, *evidence.FACTOR_WIDE, *evidence.FACTOR_GRID),
            *(*evidence.KEPT, *evidence.LONG_FACTOR),
        ),
    ),
    Rule(
        "method.embedding_rate_factor",
        "faster-embeddings-beyond",
        trains_at_once,
        lambda _: FASTER,
        "new rows have more to learn than the source's layers; not measured at this size",
    ),
    Rule(
        "method.embedding_rate_factor",
        "one-rate",
        lambda facts: facts.kind == "masked" and not facts.keeps,
        lambda _: None,
        "one rate for all, as in the study's cells of two phases",
        (f"{evidence.KO}:xpt-n25000-s0",),
    ),
    Rule(
        "method.batch",
        "batch-little",
        lambda facts: is_measured(facts) and facts.tokens <= LITTLE,
        lambda _: {"size": 512, "unit": "tokens"},
        "at 0.3 M tokens lower than steps of 256, 1,024 and 2,048 tokens",
        (
            *evidence.MASK_STEPS,
            evidence.MASK_ROWS[0],
            f"{evidence.MASKING}:xpt-sp-s0-0.4-2048-79f6",
            f"{evidence.MINILM}-1024-ace3",
        ),
    ),
    Rule(
        "method.batch",
        "batch",
        is_short,
        lambda _: {"size": 1_024, "unit": "tokens"},
        "at 1 M tokens lower than steps of 2,048 tokens, and 0.01 bits above 512 in less time",
        evidence.MASK_1M[1:],
    ),
    Rule(
        "method.batch",
        "batch-by-budget",
        always,
        lambda facts: {"size": batch_for(facts.tokens), "unit": "tokens"},
        "with the square root of the budget, from what is best at 0.3 M and 1 M tokens",
    ),
    Rule(
        "method.learning_rate",
        "rate-narrow-long",
        lambda facts: is_narrow(facts) and trains_at_once(facts) and not is_short(facts),
        lambda facts: rate_by_step(facts.step or batch_for(facts.tokens), NARROW_RATE),
        "at 10 M tokens 2e-3 is 2 to 4 % lower than 5e-4, and lower than cells with 1e-3, in steps "
        "of 4,096 tokens, in three languages; smaller steps have less, by the root",
        evidence.LONG_NARROW,
    ),
    Rule(
        "method.learning_rate",
        "rate-narrow-at-once",
        lambda facts: is_narrow(facts) and trains_at_once(facts),
        lambda _: NARROW_RATE / 2,
        "1e-3, with embeddings at 4e-3, is lower than 2e-3 with any factor; at 1 M tokens too, and "
        "with the source's vocabulary, kept or extended",
        (*evidence.FACTOR_NARROW, *evidence.KEPT),
    ),
    Rule(
        "method.learning_rate",
        "rate-narrow",
        lambda facts: is_narrow(facts) and not facts.keeps,
        lambda _: NARROW_RATE,
        "the lowest of 1e-3, 2e-3 and 4e-3; at 0.3 M tokens of 1e-3, 2e-3 and 3e-3",
        (
            *(
                f"{evidence.LR}:xpt-n25000-s0-{end}"
                for end in ("0.001-8d84", "0.002-5eeb", "0.004-4a20")
            ),
            *(
                f"{evidence.MASKING}:xpt-sp-s0-0.4-512-{end}"
                for end in ("0.001-6ae0", "ac86", "0.003-710b")
            ),
        ),
    ),
    Rule(
        "method.learning_rate",
        "rate-wide-long",
        lambda facts: is_long(facts) and trains_at_once(facts),
        lambda facts: rate_by_step(facts.step or batch_for(facts.tokens), MEASURED_RATE),
        "at 10 M tokens 1e-3, with embeddings at 4e-3, is 1 to 2 % lower than 5e-4 in steps of "
        "4,096 tokens, in three languages; smaller steps have less, by the root",
        evidence.LONG_WIDE,
    ),
    Rule(
        "method.learning_rate",
        "rate-wide-at-once",
        lambda facts: is_measured(facts) and trains_at_once(facts),
        lambda _: MEASURED_RATE / 2,
        "5e-4, with embeddings at 2e-3: lower than with other factors at 0.3 M tokens; at 1 M "
        "lower than 1e-3 and 4e-3 in Korean (two seeds), and like it in Japanese; at 20 M it keeps "
        "what the source knows",
        (*evidence.FACTOR_WIDE, *evidence.WIDE_1M, *evidence.TWENTY_MILLION),
    ),
    Rule(
        "method.learning_rate",
        "rate-wide-little",
        lambda facts: is_measured(facts) and not facts.keeps and facts.tokens <= LITTLE,
        lambda _: MEASURED_RATE / 2,
        "the lowest of 5e-4, 1e-3 and 2e-3 at 0.3 M tokens with a source of width 384",
        evidence.WIDE_LITTLE,
    ),
    Rule(
        "method.learning_rate",
        "rate-wide",
        lambda facts: is_measured(facts) and not facts.keeps,
        lambda _: MEASURED_RATE,
        "at 1 M tokens with a source of width 384 the lowest of 5e-4, 1e-3 and 2e-3",
        evidence.MINILM_1M[:3],
    ),
    Rule(
        "method.learning_rate",
        "rate-by-width",
        always,
        nearest_rate,
        "1e-3 at width 384, inversely with width: not measured here",
        candidates=not_above,
    ),
    Rule(
        "method.warmup",
        "warm-up",
        always,
        lambda _: 0.1,
        "a tenth of a phase, as in all cells of the study",
        (f"{evidence.KO}:xpt-sp-n25000-s0",),
    ),
    Rule(
        "method.first_phase_warmup",
        "warm-up-frozen",
        lambda facts: facts.phases == 2,
        lambda _: 0.3,
        "shorter, one seed in three lost half of the phase",
        (f"{evidence.KO}:xpt-n25000-s0",),
    ),
    Rule(
        "method.first_phase_share",
        "share-frozen",
        lambda facts: facts.phases == 2 and not facts.own_shares,
        lambda _: 0.4,
        "as in the study's cells of two phases",
        (f"{evidence.KO}:xpt-n25000-s0",),
    ),
)
"""In order: of the rules for a key the first that holds decides."""
