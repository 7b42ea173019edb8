"""What a recipe becomes for the kind of its source.

A method says what trains and for how long, of whatever model; an encoder–decoder learns by
denoising and a causal model by predicting every token where an encoder learns by masked words, as
its own pretraining did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingraft.errors import RecipeError
from lingraft.models.families import check_vocabulary
from lingraft.models.kinds import KINDS
from lingraft.pretrained.checkpoints import folder_of
from lingraft.recipe import Masking, Tokenizer
from lingraft.recipe.methods import with_tied_head
from lingraft.recipe.records import METHODS, method_named
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.vocabulary import Vocabulary

if TYPE_CHECKING:
    from lingraft.models.families import Family
    from lingraft.recipe import Corpus, Data, Phase, Recipe

RATES = {"spans": 0.15, "infilling": 0.30}
"""Of T5 and of BART."""
OF_KINDS = {kind.objective for kind in KINDS.values() if kind.objective}
"""Objectives that are the only one of a kind."""


def suited(recipe: Recipe, family: Family | None, *, tied: bool | None = None) -> Recipe:
    """The recipe with phases that its source can go through; doing it twice changes nothing.

    Args:
        recipe: expanded.
        family: of the source; None where it is not known yet.
        tied: whether the source's output projection is its word embeddings; None where it is not
            known yet.

    Raises:
        RecipeError: it asks for what this kind of model cannot do.
    """
    recipe = _with_size(recipe)
    if family is None:
        return recipe
    check_vocabulary(family, recipe.tokenizer.algorithm)
    for name in (recipe.training.method, *(section.method for section in recipe.baselines)):
        _check_kind(name, family)
    if family.kind == "causal" and recipe.training.masking_rate is not None:
        raise RecipeError(
            f"training.masking_rate: {family.model_type} predicts every token; leave it out"
        )
    if tied:
        recipe = with_tied_head(recipe)
    own = KINDS[family.kind].objective
    for phase in recipe.phases:
        names = [phase.objective, *(n for e in phase.data for n in (e.objective, *e.also) if n)]
        for name in names:
            fits = name in (own, "mlm") if own else name not in OF_KINDS
            if not fits:
                raise RecipeError(
                    f"phase '{phase.name}': objective '{name}' does not train "
                    f"{KINDS[family.kind].title}s ({family.model_type}); take '{own or 'mlm'}'"
                )
    if recipe.evaluation.kept and family.kind != "causal":
        raise RecipeError(
            f"evaluation.kept: is for causal language models, and {family.model_type} is "
            f"{_a(KINDS[family.kind].title)}; leave it out"
        )
    if own is None:
        return recipe
    title = KINDS[family.kind].title
    if recipe.evaluation.before or any(phase.distil for phase in recipe.phases):
        setting = "evaluation.before" if recipe.evaluation.before else "phases.….distil"
        raise RecipeError(
            f"{setting}: is for masked language models, not for {_a(title)}; leave it out"
        )
    phases = tuple(_phase(phase, own, family) for phase in recipe.phases)
    recipe = recipe.model_copy(update={"phases": phases})
    _check_sentinels(recipe)
    return with_whole_lines(recipe) if family.kind == "causal" else recipe


def _with_size(recipe: Recipe) -> Recipe:
    """Return the recipe with the size of a tokenizer that is given; of the Hub's nobody asks."""
    section = recipe.tokenizer
    if section.model is None or folder_of(section.model) is None:
        return recipe
    size = Vocabulary.of(tokenizer_files.load(section.model, section.revision)).size
    return recipe.model_copy(update={"tokenizer": section.model_copy(update={"vocab_size": size})})


def _check_sentinels(recipe: Recipe) -> None:
    """Refuse spans where there is no source whose sentinels a new vocabulary would take over.

    Raises:
        RecipeError: a phase asks for them.
    """
    if recipe.source.architecture is None or recipe.tokenizer.model is not None:
        return
    for phase in recipe.phases:
        if "spans" in [phase.masking.scheme, *(e.masking.scheme for e in phase.data if e.masking)]:
            raise RecipeError(
                f"phase '{phase.name}': masking.scheme: 'spans' needs sentinels (<extra_id_0> …), "
                "which a vocabulary that is trained for source.architecture lacks; set 'infilling'"
            )


def _check_kind(method: str, family: Family) -> None:
    """Refuse a method that is for another kind of model.

    Raises:
        RecipeError: it is.
    """
    kind = method_named(method).kind
    if kind is not None and kind != family.kind:
        fitting = [name for name, record in METHODS.items() if record.kind is None]
        raise RecipeError(
            f"method '{method}' is for {KINDS[kind].title}s, and a {family.model_type} model is "
            f"a {KINDS[family.kind].title}; choose {', '.join(fitting[:4])} or another of "
            "`lingraft show methods`"
        )


def _a(title: str) -> str:
    return f"an {title}" if title[0] in "aeiou" else f"a {title}"


def check_context(recipe: Recipe, family: Family, longest: int) -> None:
    """Refuse documents in pieces that a causal model cannot read; the default fits every model.

    Args:
        recipe: whose `tokenizer.max_tokens` is the context.
        family: of the source.
        longest: tokens that the source reads at once.

    Raises:
        RecipeError: it asks for more.
    """
    length = recipe.tokenizer.max_tokens
    if family.kind == "causal" and length > longest and length != Tokenizer().max_tokens:
        raise RecipeError(
            f"tokenizer.max_tokens: documents are to be read in pieces of {length:,} tokens, but "
            f"the source's context is {longest:,} (max_position_embeddings); set {longest} or less"
        )


def with_whole_lines(recipe: Recipe) -> Recipe:
    """The recipe with text that can be put together again: lines and documents stay whole.

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
        "max_characters": corpus.max_line_bytes,
    }
    fields = corpus.model_fields_set
    return corpus.model_copy(update={k: v for k, v in defaults.items() if k not in fields})


def _phase(phase: Phase, objective: str, family: Family) -> Phase:
    masking = denoising(phase.masking, family) if family.corruption else phase.masking
    data = tuple(_data(entry, objective, family) for entry in phase.data)
    return phase.model_copy(update={"objective": objective, "masking": masking, "data": data})


def _data(entry: Data, objective: str, family: Family) -> Data:
    changes: dict[str, Any] = {"objective": objective} if entry.objective else {}
    if entry.masking is not None and family.corruption:
        changes["masking"] = denoising(entry.masking, family)
    return entry.model_copy(update=changes)


def denoising(masking: Masking, family: Family) -> Masking:
    """How much and what of a sentence is hidden: as the family's pretraining did where left open.

    Args:
        masking: a rate that is given is kept.
        family: of an encoder–decoder.
    """
    assert family.corruption is not None, "an encoder–decoder has its own corruption"
    if masking.scheme in RATES:
        return masking
    rate = masking.rate if "rate" in masking.model_fields_set else RATES[family.corruption]
    return masking.model_copy(update={"scheme": family.corruption, "rate": rate})
