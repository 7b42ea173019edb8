"""Check that phases can read the pairs that they ask for. No torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.corpus import aligned
from lingraft.errors import RecipeError
from lingraft.recipe.base import READ_PAIRS

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
            if problem := _problem(recipe, phase, entry, bilingual=stream.bilingual):
                raise RecipeError(f"phase '{phase.name}': stream '{entry.stream}': {problem}")
        mixture = phase.mixture
        alternates, kinds = mixture.draw == "alternate", {stream.bilingual for _, stream in read}
        if alternates > (len(kinds) > 1) or (mixture.bilingual_batch and not alternates):
            raise RecipeError(
                f"phase '{phase.name}': mixture.draw = 'alternate', which mixture.bilingual_batch "
                "goes with, takes turns between streams in one language and streams of "
                "translations (language = 'en/ko')"
            )


def _problem(recipe: Recipe, phase: Phase, entry: Data, *, bilingual: bool) -> str | None:
    """Return what is wrong with an entry of what a phase reads."""
    names = phase.objectives_of(entry)
    on_sentences = [name for name in names if name not in READ_PAIRS]
    if len(set(names)) < len(names) or (len(names) > 1 and on_sentences):
        return "data.also is for different objectives on the same pairs"
    if "tlm" in names and not bilingual:
        return "'tlm' reads translations; give it a stream of two languages (language = 'en/ko')"
    if on_sentences and entry.max_tokens:
        return "data.max_tokens is for ca_mlm and tlm"
    if phase.packing and not on_sentences:
        return "packing has no effect on pairs; leave it out"
    if "ca_mlm" in names and not recipe.graft.cross_attention:
        return "'ca_mlm' needs graft.cross_attention = true, or training.method = 'veco'"
    if phase.crosses_alone and set(names) != {"ca_mlm"}:
        return "the phase trains cross-attention alone, which only 'ca_mlm' plugs in; train more"
    return None
