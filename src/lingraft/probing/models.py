"""The models that a probe fine-tunes: checkpoints of a run, with what of the source put back.

Son et al. 2022, table 4: after each phase, with and without the implicit translation layers (ITL),
with the target's or the source's vocabulary; beside them the source as it was. No torch here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lingraft.errors import DataError, RecipeError, UnsupportedModelError
from lingraft.models.modules import wanted_by
from lingraft.recipe import catalogue
from lingraft.recipe.methods import read_recipe
from lingraft.report.next_step import command
from lingraft.rundir import Run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lingraft.recipe import Recipe
    from lingraft.recipe.places import Places

Layers = Literal["with", "without", "none"]
Whose = Literal["target", "source"]
VOCABULARIES: tuple[Whose, ...] = ("target", "source")
SOURCE = "source"
"""Label of the source as it was: what the others are compared with."""


@dataclass(frozen=True)
class Variant:
    """One model of the probe."""

    label: str
    """Its folder in OUT, and its name in `lingraft compare`."""
    after: str | None
    """The phase whose best weights it has; None is the source as it was. With random weights, the
    model that it has the shape of."""
    layers: Layers
    """Its translation layers: there, taken out, or the run never had any."""
    vocabulary: Whose
    """Whose tokenizer, word embeddings and output bias it has."""
    random: bool = False
    """All weights drawn anew: the floor, what fine-tuning alone reaches."""


@dataclass(frozen=True)
class Probed:
    """A run of `lingraft adapt` and the source that it was made from."""

    run: Run
    recipe: Recipe
    source: str
    """Directory or Hub id."""
    revision: str | None

    @classmethod
    def of(cls, path: Path, source: str | None = None) -> Probed:
        """The run in a folder; of a baseline, text and vocabulary are its run's.

        Args:
            path: of the run.
            source: where the source is now, if it is not where the run's recipe says.

        Raises:
            DataError: there is no run.
            RecipeError: it was trained from nothing, or not at all.
            UnsupportedModelError: it has modules.
        """
        run = Run.existing(path)
        recipe = read_recipe(run.recipe_path)
        if recipe.source.model is None:
            raise RecipeError(
                f"{path}: was trained from nothing, so there is no source language to lose; "
                "probe a run that has source.model"
            )
        if not recipe.phases:
            raise RecipeError(
                f"{path}: method '{recipe.method.name}' does not train, so no phase can have lost "
                "the source's language; probe a run of another method (lingraft list methods)"
            )
        for module in wanted_by(recipe.graft):
            raise UnsupportedModelError(
                f"{path}: has {module.part}, which are no layers that could be taken out; "
                "probe a run of another method (lingraft list methods)"
            )
        if source is None:
            return cls(run, recipe, recipe.source.model, recipe.source.revision)
        return cls(run, recipe, catalogue.resolve(source), None)

    @property
    def places(self) -> Places:
        """Where layers were inserted."""
        return self.recipe.graft.places

    @property
    def phases(self) -> tuple[str, ...]:
        return tuple(phase.name for phase in self.recipe.phases)

    def variants(self, phases: Sequence[str] = ()) -> list[Variant]:
        """The models of a probe: the source first, the floors of both vocabularies last.

        Args:
            phases: after these only; empty takes all.

        Raises:
            RecipeError: the run has no such phase.
        """
        for name in phases:
            if name not in self.phases:
                raise RecipeError(
                    f"--phase: {self.run.path} has no phase {name!r}; it has "
                    f"{', '.join(self.phases)}"
                )
        translation: tuple[Layers, ...] = ("with", "without") if any(self.places) else ("none",)
        suffixes = {"with": ".itl", "without": ".no-itl", "none": ""}
        kept_phases = [phase for phase in self.phases if not phases or phase in phases]
        return [
            Variant(SOURCE, None, "none", "source"),
            *(
                Variant(f"{phase}{suffixes[layers]}.{vocabulary}-vocab", phase, layers, vocabulary)
                for phase in kept_phases
                for vocabulary in VOCABULARIES
                for layers in translation
            ),
            Variant("random.target-vocab", kept_phases[0], translation[0], "target", random=True),
            Variant("random.source-vocab", None, "none", "source", random=True),
        ]

    def weights(self, phase: str) -> Path:
        """The best weights of a phase.

        Raises:
            DataError: the phase is not done, or its weights were not kept.
        """
        stage = self.run.stage(phase)
        again = command("adapt", self.run.recipe_path, "--out", self.run.path)
        if stage.fingerprint() is None:
            raise DataError(
                f"{stage.path}: the phase is not done; finish it ({again}), "
                "or name those that are with --phase"
            )
        best = stage.path / "best"
        if not (best / "config.json").is_file():
            raise DataError(
                f"{best}: the weights after this phase were not kept; a study keeps them with "
                f'keep = "all" in its recipe; else delete {stage.path} and make it again ({again})'
            )
        return best

    @property
    def tokenizer(self) -> Path:
        """The folder of the target's tokenizer.

        Raises:
            DataError: it is not there.
        """
        folder = self.run.stage("tokenizer").path
        if not folder.is_dir():
            raise DataError(
                f"{folder}: is missing, and the models need the target's tokenizer; "
                f"make it again ({command('stage', self.run.path, 'tokenizer')})"
            )
        return folder

    def notes(self) -> list[str]:
        """What a reader of the table must know of the run."""
        notes = []
        if not any(self.places):
            notes.append(
                "The run has no translation layers: the rows without them are left out, "
                "there is nothing to take away."
            )
        if self.recipe.graft.source_weights == "random":
            notes.append(
                "The run drew the source's weights anew: its layers never knew the source's "
                "language."
            )
        return notes
