"""Rules of preset `auto` for causal sources. Where none of them holds, those of `auto` do."""

from __future__ import annotations

from lingraft.recipe import evidence
from lingraft.recipe.facts import is_causal, is_small, learns_vectors, trains_at_once
from lingraft.recipe.rule import Rule
from lingraft.recipe.scales import FASTER, NARROW_RATE


def vectors(size: str, papers: int | None) -> Rule:
    """Of FOCUS' static vectors: as in the paper, which was measured."""
    return Rule(
        f"resources.vector_{size}",
        f"vector-{size}-causal",
        lambda facts: learns_vectors(facts) and is_small(facts),
        lambda _: papers,
        "as FOCUS has them: as low as 64 numbers of three million pieces at 0.3 M tokens (Korean)",
        evidence.CAUSAL_VECTORS,
    )


def layers(where: str) -> tuple[Rule, Rule]:
    """Of the translation layers before or after: none, measured or not."""
    key = f"graft.layers_{where}"
    return (
        Rule(
            key,
            f"no-layers-{where}-causal",
            is_small,
            lambda _: 0,
            "inserted layers end higher: at 0.1 M tokens with every vocabulary and all first rows, "
            "at 0.3 M in three languages",
            evidence.CAUSAL_LAYERS,
        ),
        Rule(
            key,
            f"no-layers-{where}-causal-beyond",
            is_causal,
            lambda _: 0,
            "inserted layers end higher at 0.1 M and 0.3 M tokens; not measured at this size",
        ),
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "method.name",
        "one-phase-causal",
        is_small,
        lambda _: "xpt-sp",
        "one phase ends 0.01 to 0.07 bits per byte below two at 0.1 M tokens, with two seeds",
        evidence.CAUSAL_PHASES,
    ),
    Rule(
        "graft.embeddings",
        "focus-causal",
        lambda facts: learns_vectors(facts) and is_small(facts),
        lambda _: "focus",
        "lower than mean and random rows at 0.1 M tokens, with two seeds, and than mean at 0.3 M",
        evidence.CAUSAL_FOCUS,
    ),
    vectors("width", 300),
    vectors("units", None),
    *layers("before"),
    *layers("after"),
    Rule(
        "method.embedding_rate_factor",
        "faster-embeddings-causal",
        lambda facts: is_small(facts) and trains_at_once(facts),
        lambda _: FASTER,
        "lower than one rate for all at 0.3 M tokens in three languages; a little lower with the "
        "source's vocabulary",
        (*evidence.CAUSAL_FACTOR, *evidence.CAUSAL_KEPT),
    ),
    Rule(
        "method.learning_rate",
        "rate-causal-at-once",
        lambda facts: is_small(facts) and trains_at_once(facts),
        lambda _: NARROW_RATE / 2,
        "1e-3, with embeddings at 4e-3; with the source's vocabulary 2e-3 and 5e-4 end higher",
        (*evidence.CAUSAL_FACTOR, *evidence.CAUSAL_KEPT),
    ),
)
