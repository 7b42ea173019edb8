"""Turn a recipe into one for its source's kind of model.

A method says what trains and for how long, of whatever model; an encoder–decoder learns by
denoising and a causal model by predicting every token where an encoder learns by masked words, as
its own pretraining did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingraft.corpus.readers.lines import MAX_LINE_BYTES
from lingraft.errors import RecipeError
from lingraft.models.families import check_vocabulary
from lingraft.models.families.record import KINDS
from lingraft.pretrained.checkpoints import folder_of
from lingraft.recipe.methods import with_tied_head
from lingraft.recipe.records import method_named
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.vocabulary import Vocabulary

if TYPE_CHECKING:
    from lingraft.models.families import Family
    from lingraft.recipe import Corpus, Masking, Phase, PhaseData, Recipe, Tokenizer

RATES = {"spans": 0.15, "infilling": 0.30}
"""Masking rates of T5 and of BART."""
OF_KINDS = {kind.objective for kind in KINDS.values() if kind.objective}
"""Objectives that are the only one of a kind."""


def for_model_kind(recipe: Recipe, family: Family | None, *, tied: bool | None = None) -> Recipe:
    """Return the recipe with phases that its source can go through; doing it twice changes nothing.

    Args:
        recipe: expanded.
        family: of the source; None where it is not known yet.
        tied: whether the source's output projection is its word embeddings; None where it is not
            known yet.

    Raises:
        RecipeError: it asks for what this kind of model cannot do.
    """
    tokenizer = _sized(recipe.tokenizer)
    if tokenizer is not recipe.tokenizer:
        recipe = recipe.model_copy(update={"tokenizer": tokenizer})
    if family is None:
        return recipe
    check_vocabulary(family, recipe.tokenizer.algorithm)
    _check_fits(recipe, family)
    if tied:
        recipe = with_tied_head(recipe)
    own = KINDS[family.kind].objective
    if own is None:
        return recipe
    phases = tuple(_phase(phase, own, family) for phase in recipe.phases)
    recipe = recipe.model_copy(update={"phases": phases})
    return with_whole_lines(recipe) if family.kind == "causal" else recipe


def _sized(section: Tokenizer) -> Tokenizer:
    """Return the table with the size of a tokenizer that is given; of the Hub's nobody asks."""
    if section.model is None or folder_of(section.model) is None:
        return section
    size = Vocabulary.of(tokenizer_files.load(section.model, section.revision)).size
    return section.model_copy(update={"vocab_size": size})


def _check_fits(recipe: Recipe, family: Family) -> None:
    """Refuse methods, objectives and settings that are for another kind of model."""
    kind, title = KINDS[family.kind], f"{KINDS[family.kind].title}s ({family.model_type})"
    for name in (recipe.training.method, *(section.method for section in recipe.baselines)):
        needed = method_named(name).kind
        if needed not in (None, family.kind):
            raise RecipeError(f"method '{name}' is for {KINDS[needed].title}s, and not for {title}")
    for phase in recipe.phases:
        named = (n for entry in phase.data for n in (entry.objective, *entry.also) if n)
        for name in (phase.objective, *named):
            if name not in (kind.objective, "mlm") if kind.objective else name in OF_KINDS:
                raise RecipeError(
                    f"phase '{phase.name}': objective '{name}' does not train {title}; take "
                    f"'{kind.objective or 'mlm'}'"
                )
    masked, causal = family.kind == "masked", family.kind == "causal"
    idle = {
        "training.masking_rate": causal and recipe.training.masking_rate is not None,
        "evaluation.prompts": recipe.evaluation.prompts and not causal,
        "evaluation.kept": recipe.evaluation.kept and not causal,
        "evaluation.before": recipe.evaluation.before and not masked,
        "mean_teacher": any(phase.mean_teacher for phase in recipe.phases) and not masked,
        "distil": any(phase.distil for phase in recipe.phases) and not masked,
    }
    for key in filter(idle.get, idle):
        raise RecipeError(f"{key}: is not for {title}; leave it out")


def with_whole_lines(recipe: Recipe) -> Recipe:
    """Return the recipe with text that can be put together again: lines and documents stay whole.

    What the recipe says itself stays: sentences that are asked for become lines of their own.
    """
    changes: dict[str, Any] = {}
    if recipe.corpus is not None:
        changes["corpus"] = _whole_lines(recipe.corpus)
    changes["streams"] = tuple(
        stream
        if stream.pair  # whose lines are whole
        else stream.model_copy(update={"corpus": _whole_lines(stream.corpus)})
        for stream in recipe.streams
    )
    return recipe.model_copy(update=changes)


def _whole_lines(corpus: Corpus) -> Corpus:
    defaults: dict[str, Any] = {
        "split_sentences": False,
        "whole_documents": True,
        "max_characters": MAX_LINE_BYTES,
    }
    fields = corpus.model_fields_set
    return corpus.model_copy(update={k: v for k, v in defaults.items() if k not in fields})


def _phase(phase: Phase, objective: str, family: Family) -> Phase:
    masking = denoising(phase.masking, family) if family.corruption else phase.masking
    data = tuple(_data(entry, objective, family) for entry in phase.data)
    return phase.model_copy(update={"objective": objective, "masking": masking, "data": data})


def _data(entry: PhaseData, objective: str, family: Family) -> PhaseData:
    changes: dict[str, Any] = {"objective": objective} if entry.objective else {}
    if entry.masking is not None and family.corruption:
        changes["masking"] = denoising(entry.masking, family)
    if family.corruption:
        changes["soft_labels"] = False
    return entry.model_copy(update=changes)


def denoising(masking: Masking, family: Family) -> Masking:
    """Return what of a sentence is hidden: as in the family's pretraining where that is left open.

    Args:
        masking: a rate that is given is kept.
        family: of an encoder–decoder.
    """
    assert family.corruption is not None, "an encoder–decoder has its own corruption"
    if masking.scheme in RATES:
        return masking
    rate = masking.rate if "rate" in masking.model_fields_set else RATES[family.corruption]
    return masking.model_copy(update={"scheme": family.corruption, "rate": rate})
