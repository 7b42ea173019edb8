"""What the rules of preset `auto` decide of a recipe, and the recipe with it.

What the recipe gives itself, or its method prescribes, is never decided for it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lingraft.recipe import auto, scales
from lingraft.recipe.decoding import decode
from lingraft.recipe.facts import LEAST
from lingraft.recipe.methods import baseline, expand, is_open, settled
from lingraft.recipe.run import OLD, UNSIZED, learns_vectors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lingraft.recipe import Recipe
    from lingraft.recipe.facts import Facts

GIVEN = "given"
"""In place of a rule: the recipe says it itself, or its method does."""
BEFORE_SPEED = ("method.name", "graft", "resources", "tokenizer")
"""Keys, or tables of keys, that are decided before the speed is measured: text and graft need them.
"""
SECTIONS = ("method", "graft", "resources", "tokenizer")
"""Of a recipe: those with keys that rules decide."""
DECIDED = {rule.key for rule in auto.RULES} - {"tokenizer.vocab_size"}
"""Keys that rules decide in a study, whose cells share their vocabulary."""


@dataclass(frozen=True)
class Choice:
    """What was decided for a key."""

    key: str
    value: Any
    rule: str
    """Name of the rule; 'given' where the recipe says it itself."""
    why: str = ""
    rows: tuple[str, ...] = ()
    sure: bool = True
    candidates: tuple[Any, ...] = field(default=())
    tried: tuple[tuple[Any, float], ...] = field(default=())
    """Values that a probe tried, and their validation losses in nats; infinite: it diverged."""

    def plain(self) -> dict[str, Any]:
        """For plan.json."""
        return asdict(self)


def choices(recipe: Recipe, facts: Facts, *, before_speed: bool) -> list[Choice]:
    """What the rules decide of an open recipe, in the table's order.

    Args:
        recipe: as it was asked for; what it gives itself is listed as given.
        facts: of source, text, budget and machine.
        before_speed: the keys that are needed before the speed is measured; else the others.
    """
    own, decided = given(recipe), {}
    for rule in auto.RULES:
        early = rule.key in BEFORE_SPEED or rule.key.partition(".")[0] in BEFORE_SPEED
        if early != before_speed or rule.key in decided:
            continue
        if rule.key in own:
            section, _, name = rule.key.partition(".")
            value = getattr(recipe, section).model_dump(mode="json").get(name)
            decided[rule.key] = Choice(rule.key, value, GIVEN)
        elif rule.holds(facts):
            few = bool(rule.rows) and facts.tokens < LEAST
            decided[rule.key] = Choice(
                rule.key,
                rule.value(facts),
                rule.name,
                rule.why + "; not measured below 0.1 M tokens" * few,
                rule.rows,
                bool(rule.rows) and not few,
                rule.candidates(facts) if rule.candidates else (),
            )
    return list(decided.values())


def at_own_step(recipe: Recipe, facts: Facts) -> Facts:
    """The facts with the tokens of a budget in steps whose batch the rules choose.

    They choose it by the tokens: it is the smallest that they take for so many steps of its size.
    """
    if recipe.method.batch is not None or any(p.budget.unit != "steps" for p in recipe.phases):
        return facts
    steps = sum(phase.budget.value for phase in recipe.phases)
    for power in range(scales.SMALLEST_STEP, scales.LARGEST_STEP + 1):
        facts = replace(facts, tokens=steps * 2**power)
        decided = {one.key: one.value for one in choices(recipe, facts, before_speed=False)}
        if decided["method.batch"]["size"] <= 2**power:
            break
    return facts


def applied(recipe: Recipe, decided: Iterable[Choice]) -> Recipe:
    """The open recipe with what was decided; its phases are written out anew."""
    changes: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    for choice in decided:
        if choice.rule != GIVEN:
            section, _, name = choice.key.partition(".")
            changes[section][name] = choice.value
    plain = recipe.model_dump(mode="json", exclude_unset=True)
    plain.pop("phases", None)
    for section, values in changes.items():
        plain[section] = plain.get(section, {}) | values
    return expand(decode(plain))


def given(recipe: Recipe) -> set[str]:
    """The keys of rules that an open recipe decides itself, or that its method prescribes."""
    keys = {f"{name}.{key}" for name in SECTIONS for key in getattr(recipe, name).model_fields_set}
    if "method.name" in keys:  # with translation layers, or without
        keys |= {"graft.layers_before", "graft.layers_after"}
    return keys | _of_no_pieces(recipe)


def _of_no_pieces(recipe: Recipe) -> set[str]:
    """Keys of learnt and of new pieces, where the kind of vocabulary has none."""
    kind = recipe.tokenizer.kind
    keys = {"tokenizer.vocab_size"} if kind in (*UNSIZED, "given") else set()
    return keys | {"graft.embeddings"} if kind in OLD else keys


def without_effect(recipe: Recipe) -> set[str]:
    """Keys that rules decide and that a decided recipe does not read.

    Those of static vectors that nothing learns, and of pieces that the vocabulary has none of.
    """
    variants = (recipe, *(baseline(recipe, index) for index in range(len(recipe.baselines))))
    names = {name for variant in variants for name in variant.graft.initialisers}
    learns = any(learns_vectors(recipe.resources, name) for name in names)
    vectors = set() if learns else {"resources.vector_width", "resources.vector_units"}
    return vectors | _of_no_pieces(recipe)


def decides_layers(recipe: Recipe) -> bool:
    """Whether rules have yet to decide on translation layers, which stand at their default."""
    is_auto = is_open(recipe) and recipe.method.preset == auto.AUTO
    return is_auto and "graft.layers_before" not in given(recipe)


def untold(recipe: Recipe) -> list[str]:
    """Keys that an open recipe gives and that leave no trace once it is written out.

    Their values are what stands there anyway; but since they are given, no rule changes them.
    """
    plain, written = recipe.model_dump(mode="json", exclude_unset=True), settled(recipe)
    plain.pop("phases", None)
    keys = []
    for key in sorted({*DECIDED, "method.probe"}):
        section, _, name = key.partition(".")
        if name in (values := plain.get(section, {})):
            rest = {other: value for other, value in values.items() if other != name}
            if settled(expand(decode(plain | {section: rest}))) == written:
                keys.append(key)
    return keys
