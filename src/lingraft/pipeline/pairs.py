"""Whether phases can read the pairs that they ask for. No torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.corpus import aligned
from lingraft.errors import RecipeError
from lingraft.recipe.base import READ_PAIRS
from lingraft.recipe.defaults import TOKENS_PER_SENTENCE

if TYPE_CHECKING:
    from lingraft.recipe import Data, Phase, Recipe


def check(recipe: Recipe) -> None:
    """Check objectives on pairs against the graft, the streams and what trains, and their text.

    Raises:
        RecipeError: the first thing that is wrong.
    """
    for stream in recipe.texts:
        if stream.bilingual:
            aligned.check_stream(stream.corpus)
    for phase in recipe.phases:
        read = recipe.read_in(phase)
        for entry, stream in read:
            _check_entry(recipe, phase, entry, bilingual=stream.bilingual)
        mixture = phase.mixture
        if mixture.draw == "alternate" and len({stream.bilingual for _, stream in read}) < 2:
            raise RecipeError(
                f"phase '{phase.name}': mixture.draw = 'alternate' takes turns between streams in "
                "one language and streams of translations (language = 'en/ko'); it reads one kind"
            )
        if mixture.bilingual_batch is not None and mixture.draw != "alternate":
            raise RecipeError(
                f"phase '{phase.name}': mixture.bilingual_batch has no effect; it goes with "
                "mixture.draw = 'alternate'"
            )


def tokens_of_a_step(recipe: Recipe, phase: Phase) -> float | None:
    """Tokens of a step on pairs, roughly; None where a phase reads sentences, too.

    Neighbouring stretches are taken as filled up, as they are in all but short documents.
    """
    longest: dict[bool, list[float]] = {}
    for entry, stream in recipe.read_in(phase):
        if phase.objectives_of(entry)[0] not in READ_PAIRS:
            return None
        most = entry.max_tokens or recipe.tokenizer.max_tokens
        side = min(TOKENS_PER_SENTENCE, most) if stream.bilingual else most
        longest.setdefault(stream.bilingual, []).append(2 * side)
    sizes = {False: phase.batch.size, True: phase.mixture.bilingual_batch or phase.batch.size}
    steps = [
        sizes[kind] * (1 if phase.batch.unit == "tokens" else sum(of_kind) / len(of_kind))
        for kind, of_kind in longest.items()
    ]
    return sum(steps) / len(steps)


def _check_entry(recipe: Recipe, phase: Phase, entry: Data, *, bilingual: bool) -> None:
    """Check one thing that a phase reads."""
    where = f"phase '{phase.name}': stream '{entry.stream}'"
    names = phase.objectives_of(entry)
    on_sentences = [name for name in names if name not in READ_PAIRS]
    if len(set(names)) < len(names):
        raise RecipeError(f"{where}: data.also names an objective twice: {', '.join(names)}")
    if len(names) > 1 and on_sentences:
        raise RecipeError(
            f"{where}: data.also is for objectives on the same pairs, and '{on_sentences[0]}' "
            "reads sentences; give it an entry of its own"
        )
    if "tlm" in names and not bilingual:
        raise RecipeError(
            f"{where}: 'tlm' reads sentences with their translations; give it a stream of two "
            "languages, as language = 'en/ko'"
        )
    if on_sentences and (entry.max_tokens or entry.reset_positions):
        raise RecipeError(f"{where}: data.max_tokens and reset_positions are for ca_mlm and tlm")
    if phase.packing and not on_sentences:
        raise RecipeError(f"{where}: packing has no effect on pairs; leave it out")
    if entry.reset_positions and "tlm" not in names:
        raise RecipeError(f"{where}: data.reset_positions has no effect without 'tlm'")
    if "ca_mlm" in names and not recipe.graft.cross_attention:
        raise RecipeError(
            f"{where}: 'ca_mlm' needs cross-attention; set graft.cross_attention = true, "
            "or training.method = 'veco'"
        )
    idle = [name for name in names if name != "ca_mlm"]
    if phase.crosses_alone and idle:
        raise RecipeError(
            f"{where}: the phase trains cross-attention alone, which '{idle[0]}' never plugs in; "
            "read it under 'ca_mlm', or train more"
        )
