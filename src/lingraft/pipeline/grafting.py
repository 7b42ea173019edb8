"""The graft stage's work: source model, vocabularies and recipe in, the target before training out.

Shape letters: V source vocabulary, U target vocabulary, D width of the embeddings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from lingraft.files import write_json
from lingraft.models import damage, export, parts, source
from lingraft.models.embeddings import INITIALIZERS
from lingraft.models.embeddings.common import Initialised, Inputs, Material, Pretrained
from lingraft.models.embeddings.random import random_statistics
from lingraft.models.families.record import KINDS
from lingraft.models.graft import Entry, VocabularyTensors, is_tied, rebuild
from lingraft.models.loading import own_tensors
from lingraft.models.modules import MODULES, Stack, wanted_by
from lingraft.pipeline.grafted import KEPT, GraftReport, keep_rows, same_pieces
from lingraft.tokenizer.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from lingraft.models.families import Family
    from lingraft.models.graft import Account
    from lingraft.recipe import Recipe


@dataclass(frozen=True)
class Grafting:
    """Source, vocabularies and text of a graft."""

    recipe: Recipe
    theirs: PreTrainedTokenizerFast | None
    """The source's tokenizer; None where the model is trained from nothing."""
    ours: PreTrainedTokenizerFast
    sentences: Callable[[], Iterable[str]]
    """Gives the training text anew at each call."""
    seed_for: Callable[[str], int]
    """A seed for each purpose."""
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Facts that initializers that train give of their work, by 'input' and 'output'; filled in."""
    damaged: dict[int, str] = field(default_factory=dict)
    """Ids of the source whose rows were mended, and what was wrong with them; filled in."""

    def run(self, folder: Path) -> dict[str, Any]:
        """Build the target, write it with its account and provenance.

        Args:
            folder: takes model/, account.json and provenance.tsv.

        Returns:
            The stage's counts.

        Raises:
            UnsupportedModelError: the source cannot be grafted onto.
        """
        model, report = self.build()
        export.save(model, folder / "model")
        write_json(folder / "account.json", report.tensors)
        report.write_rows(folder)
        return report.facts

    def build(self) -> tuple[PreTrainedModel, GraftReport]:
        """Return the target, in fp32 on the CPU, and what it was made of.

        Raises:
            UnsupportedModelError: the source cannot be grafted onto.
        """
        recipe = self.recipe
        loaded, origin, target = self.loaded, self.origin, self.target
        whole = self.keeps_vocabulary and target.size == len(_rows(loaded))
        initialised = self.rows("embeddings", _rows(self.loaded))
        changes = export.vocabulary_settings(loaded.model.config, target, origin)
        changes |= export.generation_settings(loaded.model, target, origin)
        new, head = self.new_vocabulary(initialised)
        model, account, sizes = assemble(
            recipe, loaded, changes, None if whole else new, self.seed_for
        )
        if model.can_generate():
            present = loaded.model.generation_config.to_dict()
            model.generation_config.update(**export.generation_ids(present, target, origin))
        if self.theirs is not None:
            account.notes.extend(damage.described(self.damaged, self.theirs))
        empty = len(_rows(loaded)) - target.size if self.keeps_vocabulary else 0
        account.notes.extend(_notes(loaded, recipe, empty=empty, tied=head is None))
        learnt = {which: facts for which, facts in self.facts.items() if facts}
        facts = {
            **counts_of(model, loaded.family, recipe),
            **sizes,
            "account": account.summary(),
            "notes": account.notes,
            "embeddings": {
                "initializer": KEPT if self.keeps_vocabulary else self.recipe.embeddings.init,
                "provenance": initialised.provenance.counts(),
                "new_rows": len(initialised.provenance.made),
                **({"token_distillation": learnt} if learnt else {}),
                **({"output": head} if head is not None else {}),
            },
        }
        return model, GraftReport(facts, account, initialised.provenance, target, origin)

    @property
    def keeps_vocabulary(self) -> bool:
        """Return whether the source's pieces stay; a new language code has its own row."""
        if self.theirs is None or len(self.ours) != len(self.theirs):
            return False
        return self.recipe.keeps_rows and self.recipe.tokenizer.action == "keep"

    @cached_property
    def target(self) -> Vocabulary:
        """The new vocabulary; a row of the matrix for each of its ids, and no other."""
        vocabulary = Vocabulary.of(self.ours)
        return vocabulary.within(len(_rows(self.loaded))) if self.keeps_vocabulary else vocabulary

    @cached_property
    def loaded(self) -> source.LoadedSource:
        """The source model."""
        section = self.recipe.source
        if section.model is not None:
            assert self.theirs is not None
            loaded = source.load_model(section.model, section.revision)
            self.damaged.update(damage.mend(section.model, loaded, self.theirs))
            return loaded
        model_type = str((section.architecture or {})["model_type"])
        special = export.special_ids(model_type, self.target.specials)
        return source.from_architecture(section, self.target.size, special, self.seed_for("graft"))

    @cached_property
    def origin(self) -> Vocabulary:
        """The source's vocabulary; a model from nothing has the target's."""
        if self.recipe.source.model is None:
            return self.target
        assert self.theirs is not None
        return Vocabulary.of(self.theirs).within(len(_rows(self.loaded))).unmatched(self.damaged)

    def pad_means_more(self, which: str) -> bool:
        """Return whether the padding token is read too.

        T5's decoder starts with it, and a causal model's ends a text as well (GPT-2, Qwen).
        """
        source_pad, target_pad = self.origin.specials.get("pad"), self.target.specials.get("pad")
        if source_pad is None or target_pad is None or self.recipe.keeps_rows:
            return False
        if self.loaded.family.kind == "causal":
            same = self.origin.pieces[source_pad] == self.target.pieces[target_pad]
            return same and self.recipe.embeddings.copies_special_tokens
        start = getattr(self.loaded.model.config, "decoder_start_token_id", None)
        return which == "embeddings" and start is not None and bool(start == source_pad)

    def rows(
        self, which: str, source_VD: torch.Tensor, embeddings_UD: torch.Tensor | None = None
    ) -> Initialised:
        """Rows of the target's pieces: the initializer's, but for those that are kept.

        Args:
            which: 'embeddings' or 'output projection'.
            source_VD: the source's rows.
            embeddings_UD: the target's embeddings, for rows of the output projection.
        """
        names, origin, target = self.recipe.embeddings.initializers, self.origin, self.target
        matches = same_pieces(origin, target) if self.recipe.keeps_rows else {}
        name = names[0] if which == "embeddings" else names[-1]
        rows = INITIALIZERS["random" if len(matches) == target.size else name].function(
            source_VD,
            origin,
            target,
            generator=torch.Generator().manual_seed(self.seed_for(which)),
            copy_special_tokens=self.recipe.embeddings.copies_special_tokens,
            material=self.material_for(embeddings_UD),
        )
        if self.pad_means_more(which):
            pad = {target.specials["pad"]: origin.specials["pad"]}  # the row is zero else
            rows = keep_rows(rows, source_VD, pad, "special")
        return keep_rows(rows, source_VD, matches)

    def new_vocabulary(
        self, initialised: Initialised
    ) -> tuple[VocabularyTensors, dict[str, Any] | None]:
        """Return the rows, and what else has one a piece: output projection and bias.

        They are carried over from the source as the rows were, or made by an initializer of their
        own.

        Returns:
            Both, and what the report says of the output projection; None where it is tied.
        """
        settings, origin, target = self.recipe.embeddings, self.origin, self.target
        source_rows = VocabularyTensors.of(self.loaded.model, self.loaded.family, "")
        carried, report, decoder_UD = initialised.provenance, None, None
        if source_rows.decoder_VD is not None:
            if settings.output_init is None and not INITIALIZERS[settings.init].runs_model:
                generator = torch.Generator().manual_seed(self.seed_for("output projection"))
                statistics = None
                if settings.init == "random-statistics":
                    inputs = Inputs(source_rows.decoder_VD, origin, target, None)
                    statistics = random_statistics(inputs).statistics
                rows_UD = carried.carry_rows(source_rows.decoder_VD, generator, statistics)
                output_rows = Initialised(rows_UD, carried)
            else:
                output_rows = self.rows(
                    "output projection", source_rows.decoder_VD, initialised.target_UD
                )
            carried, decoder_UD = output_rows.provenance, output_rows.target_UD
            report = {
                "initializer": settings.output_init or settings.init,
                "provenance": carried.counts(),
            }
        vocabulary = VocabularyTensors(
            initialised.target_UD,
            None if source_rows.bias_V is None else carried.carry(source_rows.bias_V),
            KEPT if self.keeps_vocabulary else f"initializer '{settings.init}'",
            decoder_UD,
        )
        return vocabulary, report

    def material_for(self, embeddings_UD: torch.Tensor | None) -> Material | None:
        """Return what an initializer may learn from; None where there is no source tokenizer."""
        if self.theirs is None:
            return None
        which = "output" if embeddings_UD is not None else "input"
        return Material(
            self.theirs,
            self.ours,
            self.sentences,
            self.recipe.embeddings,
            self.seed_for("initializer"),
            Pretrained(
                self.loaded.model,
                self.loaded.family,
                embeddings_UD,
                self.facts.setdefault(which, {}),
            ),
        )


def assemble(
    recipe: Recipe,
    loaded: source.LoadedSource,
    changes: Mapping[str, Any],
    vocabulary: VocabularyTensors | None,
    seed_for: Callable[[str], int],
) -> tuple[PreTrainedModel, Account, dict[str, int]]:
    """Build the target: layers, vocabulary and modules that the recipe asks for.

    Args:
        recipe: of the run.
        loaded: its source; of one on the meta device only shapes are made.
        changes: configuration values to set.
        vocabulary: new embeddings and output projection; None keeps the source's.
        seed_for: gives a seed for each purpose.

    Returns:
        The target, its account, and the size of each module.
    """
    settings = recipe.graft
    parts.check_layers(loaded.family, loaded.model.config.to_dict(), settings)
    for module in wanted_by(settings):
        module.check_fits(loaded.family)
    plans = parts.layer_plans(
        loaded.model.config,
        loaded.family,
        *settings.places[:2],
        settings.inserted_init,
        settings.places.every,
    )
    model, account = rebuild(
        loaded.model,
        loaded.family,
        plans,
        config_changes=changes,
        seed=seed_for("graft"),
        keep_source=settings.source_weights == "pretrained" and recipe.source.model is not None,
        vocabulary=vocabulary,
        missing=loaded.missing,
    )
    return model, account, _insert_modules(recipe, model, loaded.family, account, seed_for)


def _insert_modules(
    recipe: Recipe,
    model: PreTrainedModel,
    family: Family,
    account: Account,
    seed_for: Callable[[str], int],
) -> dict[str, int]:
    """Put into the model what the recipe asks for; return the size of each module."""
    if family.decoder_list is not None:
        return dict.fromkeys(MODULES, 0)  # no module fits two stacks: `check_fits`
    depth = int(getattr(model.config, family.depth_key))
    last = f"{family.layers}.{depth - 1}."  # has all tensors; ModernBERT's first lacks one
    tensors = model.state_dict().items()
    stack = Stack(
        family,
        depth,
        int(model.config.hidden_size),
        sum(tensor.numel() for name, tensor in tensors if name.startswith(last)),
    )
    sizes = {
        part: module.size(module.wanted(recipe.graft), stack) for part, module in MODULES.items()
    }
    for part, size in sizes.items():
        if size:
            MODULES[part].code.insert(model, family, size, seed_for(part))
            note = MODULES[part].account.format(size=size)
            account.entries.extend(
                Entry(name, "fresh", None, tuple(tensor.shape), note)
                for name, tensor in own_tensors(model, MODULES[part]).items()
            )
    return sizes


def _rows(loaded: source.LoadedSource) -> torch.Tensor:
    return loaded.model.get_input_embeddings().get_parameter("weight").detach()


def _notes(loaded: source.LoadedSource, recipe: Recipe, *, empty: int, tied: bool) -> list[str]:
    """Return notes on the source and on settings without effect."""
    title = KINDS[loaded.family.kind].title
    notes = [
        f"{name}: in the source checkpoint, not part of the {title}" for name in loaded.unexpected
    ]
    if empty:
        notes.append(f"{empty:,} rows of the source's embeddings have no piece and are left out")
    if tied and recipe.embeddings.output_init is not None:
        notes.append("embeddings.output_init: without effect, the output projection is tied")
    return notes


def counts_of(model: PreTrainedModel, family: Family, recipe: Recipe) -> dict[str, Any]:
    """Count layers and parameters of a target."""
    tensors = dict(model.named_parameters(remove_duplicate=False))
    names = parts.tied_once(tensors, family, tied=is_tied(model))
    sizes = {name: tensors[name].numel() for name in names}
    places, stacks = recipe.graft.places, len(family.lists)
    depths = [int(getattr(model.config, stack.depth_key)) for stack in family.lists]
    source_layers = sum(map(places.source_layers, depths))
    between = sum(depths) - source_layers - stacks * (places.before + places.after)
    itl = parts.translation_layers(model.config, family, places)
    return {
        "model_type": family.model_type,
        "width": int(model.config.hidden_size),
        "layers": {
            "source": source_layers,
            "before": stacks * places.before,
            "after": stacks * places.after,
            **({"between": between} if between else {}),
        },
        "parameters": {
            "total": sum(sizes.values()),
            "by_part": parts.sizes_by_part(sizes, family, itl),
        },
    }
