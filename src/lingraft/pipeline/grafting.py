"""The graft stage's work: source model, vocabularies and recipe in, the target before training out.

Shape letters: V source vocabulary, U target vocabulary, D width of the embeddings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lingraft.embeddings import INITIALISERS
from lingraft.embeddings.common import Initialised, Provenance
from lingraft.embeddings.material import Material
from lingraft.errors import UnsupportedModelError
from lingraft.models import export, source
from lingraft.models.graft import Entry, is_tied, layer_plans, rebuild
from lingraft.models.graft import Vocabulary as NewVocabulary
from lingraft.models.kinds import KINDS
from lingraft.models.loading import own_tensors
from lingraft.models.modules import MODULES, Stack
from lingraft.models.parts import sizes_by_part, tied_once, translation_layers
from lingraft.rundir import write_json
from lingraft.tokenizer.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from lingraft.models.families import Family
    from lingraft.models.graft import Account
    from lingraft.recipe import Recipe

KEPT = "kept"
"""Rule of a row that is the source's own, under the source's own id."""


@dataclass(frozen=True)
class Grafting:
    """What a graft is made from."""

    recipe: Recipe
    theirs: PreTrainedTokenizerFast | None
    """The source's tokenizer; None where the model is trained from nothing."""
    ours: PreTrainedTokenizerFast
    sentences: Callable[[], Iterable[str]]
    """Gives the training text anew at each call."""
    seed_for: Callable[[str], int]
    """A seed for each purpose."""

    def run(self, folder: Path) -> dict[str, Any]:
        """Build the target, write it with its account and provenance.

        Args:
            folder: takes model/, account.json and provenance.tsv.

        Returns:
            The stage's counts.

        Raises:
            UnsupportedModelError: the source cannot be grafted onto.
        """
        recipe, settings = self.recipe, self.recipe.graft
        target = Vocabulary.of(self.ours)
        loaded, origin = self.loaded_source(target)
        kept = self.keeps_rows
        whole = kept and recipe.tokenizer.kind == "keep"
        initialised = (
            keep_rows(None, _rows(loaded), origin)
            if whole
            else self.initialised(loaded, origin, target)
        )
        plans = layer_plans(
            loaded.model.config,
            loaded.family,
            settings.layers_before,
            settings.layers_after,
            settings.layer_initialiser,
        )
        changes = export.vocabulary_settings(loaded.model.config, target, origin)
        changes |= export.generation_settings(loaded.model, target, origin)
        if whole:
            changes["vocab_size"] = len(_rows(loaded))
        model, account = rebuild(
            loaded.model,
            loaded.family,
            plans,
            config_changes=changes,
            seed=self.seed_for("graft"),
            keep_source=settings.source_weights == "pretrained" and recipe.source.model is not None,
            vocabulary=None if whole else self.new_vocabulary(loaded, initialised),
            missing=loaded.missing,
        )
        title = KINDS[loaded.family.kind].title
        account.notes.extend(
            f"{name}: in the source checkpoint, not part of the {title}"
            for name in loaded.unexpected
        )
        sizes = self.insert_modules(model, loaded.family, account)
        export.save(model, folder / "model")
        write_json(folder / "account.json", account.rows())
        initialised.provenance.write(folder / "provenance.tsv", target, origin)
        counts = _counts(model, loaded, self.recipe)
        return {
            **counts,
            **sizes,
            "account": account.summary(),
            "notes": account.notes,
            "embeddings": {
                "initialiser": KEPT if whole else settings.embeddings,
                "provenance": initialised.provenance.counts(),
                **({"lexicons": list(lexicons)} if (lexicons := initialised.lexicons) else {}),
            },
        }

    @property
    def keeps_rows(self) -> bool:
        """Whether the ids of the source's vocabulary go on with the source's rows."""
        return (
            self.recipe.tokenizer.kind in ("keep", "extend")
            and self.recipe.graft.source_weights == "pretrained"
        )

    def loaded_source(self, target: Vocabulary) -> tuple[source.LoadedSource, Vocabulary]:
        """The source model and its vocabulary; a model from nothing has the target's."""
        section = self.recipe.source
        if section.model is None:
            model_type = str((section.architecture or {})["model_type"])
            special = export.special_ids(model_type, target.specials)
            seed = self.seed_for("graft")
            return source.from_architecture(section, target.size, special, seed), target
        assert self.theirs is not None
        return source.load_model(section.model, section.revision), Vocabulary.of(self.theirs)

    def initialised(
        self, loaded: source.LoadedSource, origin: Vocabulary, target: Vocabulary
    ) -> Initialised:
        """The target's embedding rows: the initialiser's, but for those that are kept."""
        settings = self.recipe.graft
        made = INITIALISERS[settings.embeddings].function(
            _rows(loaded),
            origin,
            target,
            generator=torch.Generator().manual_seed(self.seed_for("embeddings")),
            copy_special_tokens=settings.copies_special_tokens,
            material=self.material,
        )
        if self.keeps_rows:
            return keep_rows(made, _rows(loaded), origin)
        start = getattr(loaded.model.config, "decoder_start_token_id", None)
        pads = origin.specials.get("pad"), target.specials.get("pad")
        return (
            keep_start(made, _rows(loaded), *pads)
            if start is not None and start == pads[0]
            else made
        )

    def new_vocabulary(
        self, loaded: source.LoadedSource, initialised: Initialised
    ) -> NewVocabulary:
        """The rows; what else has one a piece is carried over from the source as they were."""
        theirs = NewVocabulary.of(loaded.model, loaded.family, "")
        carried, decoder_UD = initialised.provenance, None
        if theirs.decoder_VD is not None:
            generator = torch.Generator().manual_seed(self.seed_for("output projection"))
            decoder_UD = carried.carry_rows(theirs.decoder_VD, generator)
        return NewVocabulary(
            initialised.target_UD,
            None if theirs.bias_V is None else carried.carry(theirs.bias_V),
            f"initialiser '{self.recipe.graft.embeddings}'",
            decoder_UD,
        )

    @property
    def material(self) -> Material | None:
        """What an initialiser may learn from; None where there is no source tokenizer."""
        if self.theirs is None:
            return None
        return Material(
            self.theirs,
            self.ours,
            self.sentences,
            self.recipe.resources,
            self.seed_for("initialiser"),
        )

    def insert_modules(
        self, model: PreTrainedModel, family: Family, account: Account
    ) -> dict[str, int]:
        """Put into the model what the recipe asks for; the size of each module."""
        if family.decoder_list is not None:
            return dict.fromkeys(MODULES, 0)  # no module fits two stacks: `check_fits`
        depth = int(getattr(model.config, family.depth_key))
        last = f"{family.layers}.{depth - 1}."  # has all tensors; ModernBERT's first lacks one
        tensors = model.state_dict().items()
        stack = Stack(
            family,
            depth,
            int(model.get_parameter(last + family.layer_output).shape[0]),
            sum(tensor.numel() for name, tensor in tensors if name.startswith(last)),
        )
        sizes = {
            part: module.size(module.wanted(self.recipe.graft), stack)
            for part, module in MODULES.items()
        }
        for part, size in sizes.items():
            if size:
                MODULES[part].code.insert(model, family, size, self.seed_for(part))
                note = MODULES[part].account.format(size=size)
                account.entries.extend(
                    Entry(name, "fresh", None, tuple(tensor.shape), note)
                    for name, tensor in own_tensors(model, MODULES[part]).items()
                )
        return sizes


def keep_rows(made: Initialised | None, source_VD: torch.Tensor, origin: Vocabulary) -> Initialised:
    """Put the source's own rows under the source's own ids, special tokens and padding too.

    Args:
        made: rows of a vocabulary that begins with the source's; None where it is the source's.
        source_VD: the source's rows.
        origin: the source's vocabulary.

    Raises:
        UnsupportedModelError: the source's tokenizer has more pieces than the model has rows.
    """
    size = origin.size
    if size > len(source_VD):
        raise UnsupportedModelError(
            f"the source tokenizer has {size} pieces but the model only {len(source_VD)} "
            "embedding rows; they do not belong together"
        )
    own = np.arange(size)
    if made is None:
        return Initialised(source_VD.float(), Provenance((KEPT,) * size, own))
    target_UD = made.target_UD.clone()
    target_UD[:size] = source_VD[:size].float()
    theirs = made.provenance
    provenance = Provenance(
        (KEPT,) * size + theirs.rules[size:],
        np.concatenate([own, theirs.source_ids[size:]]),
        {index: parts for index, parts in theirs.combinations.items() if index >= size},
    )
    return Initialised(target_UD, provenance, made.lexicons)


def keep_start(
    made: Initialised, source_VD: torch.Tensor, theirs: int | None, ours: int | None
) -> Initialised:
    """Copy the padding's row where a decoder starts with it, as T5's does; else it is zero."""
    if theirs is None or ours is None:
        return made
    rules, source_ids = list(made.provenance.rules), made.provenance.source_ids.copy()
    rules[ours], source_ids[ours] = "special", theirs
    target_UD = made.target_UD.clone()
    target_UD[ours] = source_VD[theirs].float()
    provenance = Provenance(tuple(rules), source_ids, made.provenance.combinations)
    return Initialised(target_UD, provenance, made.lexicons)


def _rows(loaded: source.LoadedSource) -> torch.Tensor:
    return loaded.model.get_input_embeddings().get_parameter("weight").detach()


def _counts(model: PreTrainedModel, loaded: source.LoadedSource, recipe: Recipe) -> dict[str, Any]:
    family = loaded.family
    tensors = dict(model.named_parameters(remove_duplicate=False))
    names = tied_once(tensors, family, tied=is_tied(model))
    sizes = {name: tensors[name].numel() for name in names}
    before, after = recipe.graft.layers_before, recipe.graft.layers_after
    stacks = len(family.lists)
    depth = sum(int(getattr(model.config, one.depth_key)) for one in family.lists)
    itl = translation_layers(model.config, family, before, after)
    return {
        "model_type": family.model_type,
        "layers": {
            "source": depth - stacks * (before + after),
            "before": stacks * before,
            "after": stacks * after,
        },
        "parameters": {
            "total": sum(sizes.values()),
            "by_part": sizes_by_part(sizes, family, itl),
        },
    }
