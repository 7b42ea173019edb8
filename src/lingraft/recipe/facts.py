"""What the rules of preset `auto` may ask for: facts of source, text and budget, and conditions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lingraft.recipe.records import method_named

if TYPE_CHECKING:
    from lingraft.recipe.run import Recipe

NARROW, WIDE = 320, 448
"""Widths up to which results at 256, and at 384, are taken."""
MEASURED_TOKENS, LONGEST_TOKENS = 3_000_000, 12_000_000
"""Of training: of most of our studies, and of the longest ones that chose a setting."""
LEAST = 100_000
"""Tokens of training from which anything was measured: of fewer no rule is sure."""
LITTLE = 600_000
"""Tokens of training up to which the results at 0.3 M are taken."""
CHARACTERS_A_TOKEN = 3.0
"""A rough figure, for text that no tokenizer has read."""
TOKENS_PER_SENTENCE = 30
"""As rough."""
FEW_PASSES, MANY_PASSES, LONG_PASSES = 5.0, 10.0, 13.5
"""Over the text, up to which dropout is left out: at sizes not measured, at those measured, and in
long runs of the wider sources."""
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
    own_shares: bool = False
    """Whether the method says what each phase gets of the budget."""
    onto_source: bool = True
    """Whether the embeddings train together with all layers of the source, which know something:
    not where every weight is drawn, or a part is frozen. Where old pieces stay it is said of what
    was measured alone: short runs of narrow sources."""
    keeps: bool = False
    """Whether the source's weights come with pieces of its vocabulary."""
    seconds: float | None = None
    """That the whole run may take; None where its budget is not in time."""
    slowdown: float = 1.0
    """How many times as long things take here as they would without other work."""
    has_vectors: bool = False
    """Whether static word vectors can be learnt here (the extra `vectors`)."""
    share: float = 1.0
    """Of the text that the phases read: `method.sentences` may leave most of it out."""
    latin: bool = False
    """Whether all text is in languages that are written in Latin letters."""
    step: int | None = None
    """Tokens of a step, about, where the recipe gives the batch; else a rule decides."""

    @property
    def passes(self) -> float:
        """Over what is read of the text, in training: an estimate."""
        return self.tokens * CHARACTERS_A_TOKEN / max(self.characters * self.share, 1)

    def with_method(self, recipe: Recipe) -> Facts:
        """These facts, with what the recipe's method says; its phases are written out."""
        was_measured = (is_narrow(self) and is_short(self)) or is_small(self)
        onto_source = (
            recipe.graft.source_weights == "pretrained"
            and (was_measured or not recipe.keeps_rows)
            and any("all" in phase.train for phase in recipe.phases)
        )
        return replace(
            self,
            phases=len(recipe.phases),
            own_shares=method_named(recipe.method.name).has_shares,
            onto_source=onto_source,
            keeps=recipe.keeps_rows,
        )


def always(_: Facts) -> bool:
    """A rule's condition where the ones above it did not hold."""
    return True


def is_narrow(facts: Facts) -> bool:
    """Whether the source is like the narrow ones of our studies."""
    return facts.kind == "masked" and facts.width <= NARROW


def is_causal(facts: Facts) -> bool:
    """Whether the source predicts every token from those before it."""
    return facts.kind == "causal"


def is_small(facts: Facts) -> bool:
    """Whether source and budget are as small as those of our studies of causal models."""
    return is_causal(facts) and facts.width <= NARROW and facts.tokens <= LITTLE


def is_measured(facts: Facts) -> bool:
    """Whether the source is like one of our studies."""
    return facts.kind == "masked" and facts.width <= WIDE


def trains_at_once(facts: Facts) -> bool:
    """Whether embeddings and all of a source train together, in one phase.

    Not of encoder–decoders, of which nothing was measured.
    """
    return facts.kind != "seq2seq" and facts.phases == 1 and facts.onto_source


def learns_vectors(facts: Facts) -> bool:
    """Whether static vectors can be learnt here, and take no too large share of the time."""
    hurried = facts.seconds is not None and facts.seconds < HURRIED * facts.slowdown
    return facts.has_vectors and not hurried


def is_short(facts: Facts) -> bool:
    """Whether the budget is among those of our studies."""
    return is_measured(facts) and facts.tokens <= MEASURED_TOKENS


def goes_light(facts: Facts) -> bool:
    """Whether translation layers and wide vectors were measured, and are not worth their time."""
    return is_measured(facts) and facts.tokens <= LONGEST_TOKENS


def is_long(facts: Facts) -> bool:
    """Whether source and budget are like those of our long studies of a wider source."""
    return goes_light(facts) and not is_narrow(facts) and not is_short(facts)
