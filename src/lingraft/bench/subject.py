"""What is measured: a model, the phases that train it, and text.

Speed does not depend on the values of weights, so a model from a recipe has random ones; only its
configuration is read.

Text is made up as token ids, with the lengths of sentences; nothing has to be downloaded for it.
Lengths are log-normal. Half of the tokens follow from the token before them (a fixed permutation),
the others are drawn by Zipf's law, so that a model has something to learn.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from transformers import AutoConfig

from lingraft.errors import RecipeError
from lingraft.models import source
from lingraft.models.families import check_masked, family_of
from lingraft.models.graft import build, deeper_config
from lingraft.models.loading import stock_class
from lingraft.models.modules import wanted_by
from lingraft.models.plans import layer_plans
from lingraft.objectives.common import TokenIds
from lingraft.pipeline.foreseeing import decided_now
from lingraft.pipeline.rows import names_rows, new_rows
from lingraft.pipeline.stages import position_settings
from lingraft.pretrained import load as pretrained
from lingraft.recipe import Batch
from lingraft.recipe.methods import read_recipe, recipe_from
from lingraft.rundir import Run
from lingraft.tokenizer.shards import SMALL, Tokens

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from transformers import PreTrainedConfig, PreTrainedModel

    from lingraft.models.families import Family
    from lingraft.recipe import Phase, Recipe

MADE_UP = "made-up"
HEAD_WIDTH = 64


@dataclass(frozen=True)
class Shape:
    """A RoBERTa with translation layers, by its size."""

    layers: int
    """Translation layers included."""
    width: int
    vocabulary: int

    @classmethod
    def parse(cls, written: str) -> Shape:
        """Read `LAYERSxWIDTHxVOCABULARY`.

        Raises:
            RecipeError: it is something else.
        """
        numbers = written.lower().replace("×", "x").split("x")
        if len(numbers) != 3 or not all(n.isdecimal() and len(n) < 9 for n in numbers):
            raise RecipeError(
                f"--shape {written}: write LAYERSxWIDTHxVOCABULARY, for instance 14x768x50000"
            )
        shape = cls(*(int(number) for number in numbers))
        fewest = SMALLEST_VOCABULARY
        is_large = shape.layers >= 3 and shape.width and shape.vocabulary >= fewest
        if not is_large or shape.width % HEAD_WIDTH:
            raise RecipeError(
                f"--shape {written}: 3 layers at least (two are translation layers), "
                f"a width that {HEAD_WIDTH} divides, and {fewest} pieces at least"
            )
        return shape

    def config(self, longest: int) -> PreTrainedConfig:
        """The configuration of the source, without translation layers.

        Args:
            longest: tokens of the longest sentence.
        """
        return AutoConfig.for_model(
            "roberta",
            vocab_size=self.vocabulary,
            hidden_size=self.width,
            num_hidden_layers=self.layers - 2,
            num_attention_heads=self.width // HEAD_WIDTH,
            intermediate_size=4 * self.width,
            max_position_embeddings=max(512, longest) + PAD + 1,
            type_vocab_size=1,
        )


@dataclass(frozen=True)
class Subject:
    """Everything that a measurement needs, as plain data that another process can be given."""

    recipe: Recipe
    shape: Shape | None
    """None reads the model of `run` or the recipe's source."""
    run: Path | None
    """A run whose graft and text are taken."""
    lengths: TextShape

    @property
    def name(self) -> str:
        """For tables."""
        if self.shape is not None:
            return f"RoBERTa {self.shape.layers} × {self.shape.width} × {self.shape.vocabulary:,}"
        return f"run {self.run.name}" if self.run is not None else self.recipe.name

    def model(self) -> tuple[PreTrainedModel, Family, frozenset[int]]:
        """The grafted model in fp32 on the CPU, its family and its translation layers.

        Raises:
            LingraftError: its configuration cannot be read, or the recipe wants modules.
        """
        pretrained.quiet_transformers()
        graft = self.recipe.graft
        before, after, every = graft.places
        if self.run is not None:
            loaded = source.load_model(str(Run.existing(self.run).stage("graft").path / "model"))
            check_masked(loaded.family, "bench")
            depth = int(getattr(loaded.model.config, loaded.family.depth_key))
            return loaded.model, loaded.family, graft.places.inserted(depth)
        for module in wanted_by(graft):
            raise RecipeError(
                f"graft.{module.part}: bench builds no {module.part} from a recipe; "
                "give the folder of a run of it"
            )
        config = self._config()
        if self.shape is None:
            self._check_length()
        family = family_of(config.model_type)
        check_masked(family, "bench")
        (plan,) = layer_plans(config, family, before, after, "random", every)
        target = deeper_config(config, family, plan, self._vocabulary(config))
        model_class = stock_class(target)
        assert model_class is not None, f"{family.model_type} has no class for its kind"
        return (
            build(model_class, target, self.recipe.seed),
            family,
            graft.places.inserted(len(plan)),
        )

    def _config(self) -> PreTrainedConfig:
        section = self.recipe.source
        if self.shape is not None:
            return self.shape.config(self.lengths.longest)
        if section.model is not None:
            return pretrained.load_config(section.model, section.revision)
        size = self.recipe.tokenizer.vocab_size
        return source.from_architecture(section, size, _specials(), self.recipe.seed).model.config

    def _check_length(self) -> None:
        longest = position_settings(self.recipe)[1]
        if self.lengths.longest > longest:
            raise RecipeError(
                f"--longest {self.lengths.longest}: the source reads {longest} tokens at most; "
                f"give --longest {longest} or less"
            )

    def _vocabulary(self, config: PreTrainedConfig) -> dict[str, Any]:
        size = int(config.vocab_size)
        if self.shape is None:
            size = self.recipe.tokenizer.most_rows(size)
        return {"vocab_size": size, **_specials()}

    def new_rows(self, phase: Phase) -> tuple[bool, ...] | None:
        """[V] whether the vocabulary stage added each row; None where the phase names no rows.

        Raises:
            RecipeError: it does, and without a run nobody knows which.
        """
        if self.run is not None:
            return new_rows(Run.existing(self.run).stage("graft").path, phase)
        if names_rows(phase):
            raise RecipeError(
                f"phase '{phase.name}': trains some rows of the vocabulary, which a run alone "
                "knows; give the folder of a run of it"
            )
        return None

    def text(self, vocab_size: int) -> tuple[Tokens, TokenIds]:
        """Sentences and vocabulary: the run's, or made-up ones.

        Args:
            vocab_size: rows of the model's embeddings.
        """
        if self.run is not None:
            return of_run(Run.existing(self.run))
        return made_up(self.lengths, vocab_size), token_ids(vocab_size)


def _specials() -> dict[str, int]:
    return {
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "cls_token_id": BOS,
        "eos_token_id": EOS,
        "sep_token_id": EOS,
    }


def subject(
    path: Path | None,
    model: str | None,
    shape: str | None,
    lengths: TextShape,
    batch: int | None,
    settings: Sequence[str],
) -> Subject:
    """Make a subject of what was asked for; what a recipe leaves to rules they choose now.

    Args:
        path: a recipe, or the folder of a run.
        model: a source, directory or Hub id, grafted by the method xpt.
        shape: a size in the place of both, `LAYERSxWIDTHxVOCABULARY`.
        lengths: of made-up sentences.
        batch: sentences a step, in the place of the phases' own batches.
        settings: `a.b=c` overrides of the recipe.

    Raises:
        RecipeError: not exactly one of the three is given, or one is wrong; rules are to choose
            for a source that is not on this machine.
    """
    if sum(value is not None for value in (path, model, shape)) != 1:
        raise RecipeError("give a recipe, the folder of a run, --source or --shape, and only one")
    run = path if path is not None and path.is_dir() else None
    if path is not None:
        written = Run.existing(run).recipe_path if run else path
        recipe = decided_now(read_recipe(written, settings))
    else:
        plain: dict[str, Any] = {
            "name": "bench",
            "language": "und",
            "source": {"model": model or MADE_UP},
            "corpus": {"text": [MADE_UP]},
        }
        recipe = recipe_from(plain, settings, "command line")
    if batch is not None:
        use = Batch(size=batch)
        phases = tuple(phase.model_copy(update={"batch": use}) for phase in recipe.phases)
        recipe = recipe.model_copy(update={"phases": phases})
    lengths.check()
    return Subject(recipe, Shape.parse(shape) if shape else None, run, lengths)


def spread(values: Sequence[float]) -> dict[str, float]:
    """Smallest, middle and largest of some measurements."""
    return {"min": min(values), "median": statistics.median(values), "max": max(values)}


Array = np.ndarray[Any, Any]

BOS, PAD, EOS, UNKNOWN = 0, 1, 2, 3
ORDINARY = 4
"""The first token that is not special; the last one of the vocabulary is the mask."""
SMALLEST_VOCABULARY = 16


@dataclass(frozen=True)
class TextShape:
    """Lengths of made-up sentences, in tokens with the two special ones."""

    mean: float = 30.0
    spread: float = 0.6
    """Standard deviation of the logarithm; 0 gives all sentences one length."""
    longest: int = 128
    sentences: int = 4_096

    def check(self) -> None:
        """Refuse what gives no sentences.

        Raises:
            RecipeError: a number is out of range.
        """
        if not 3 <= self.mean <= self.longest:
            raise RecipeError(
                f"--mean-length: must be between 3 and --longest ({self.longest}); "
                f"got {self.mean:g}"
            )

    def lengths(self, generator: np.random.Generator) -> Array:
        """[S] drawn lengths; clipping at both ends moves the mean a little."""
        centre = np.log(self.mean) - self.spread**2 / 2
        samples = generator.lognormal(centre, self.spread, self.sentences)
        return np.clip(np.rint(samples), 3, self.longest).astype(np.int32)


def token_ids(vocab_size: int) -> TokenIds:
    """The special tokens of a made-up vocabulary.

    Raises:
        RecipeError: it is too small.
    """
    if vocab_size < SMALLEST_VOCABULARY:
        raise RecipeError(
            f"a vocabulary of {vocab_size} is too small; {SMALLEST_VOCABULARY} pieces at least"
        )
    mask = vocab_size - 1
    return TokenIds(vocab_size, mask, PAD, (BOS, PAD, EOS, UNKNOWN, mask))


def made_up(shape: TextShape, vocab_size: int, seed: int = 0) -> Tokens:
    """Sentences between the two special tokens.

    Args:
        shape: how many, and how long.
        vocab_size: rows of the vocabulary, special tokens included.
        seed: another seed, another text of the same language.
    """
    shape.check()
    ordinary = max(token_ids(vocab_size).special) - ORDINARY  # the mask token is the last piece
    follower = np.random.default_rng(0).permutation(ordinary)
    generator = np.random.default_rng([1, seed])
    lengths = shape.lengths(generator)
    frequencies = 1 / np.arange(1, ordinary + 1)
    cumulated = np.cumsum(frequencies / frequencies.sum())
    width = int(lengths.max())
    size = (len(lengths), width)
    pieces = np.minimum(np.searchsorted(cumulated, generator.random(size)), ordinary - 1)
    follows = generator.random(size) < 0.5
    for column in range(1, width):
        before = pieces[:, column - 1]
        pieces[:, column] = np.where(follows[:, column], follower[before], pieces[:, column])
    ids = pieces + ORDINARY
    ids[:, 0] = BOS
    ids[np.arange(len(lengths)), lengths - 1] = EOS
    tokens = ids[np.arange(width)[None] < lengths[:, None]]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64)
    return Tokens(tokens.astype(np.uint16 if vocab_size <= SMALL else np.uint32), offsets, lengths)


def of_run(run: Run) -> tuple[Tokens, TokenIds]:
    """The training text (the first stream's) and the vocabulary of a run."""
    from lingraft.recipe.methods import read_recipe
    from lingraft.tokenizer import files as tokenizer_files

    folder = run.stage("tokenizer").path
    vocabulary = TokenIds.of(tokenizer_files.load(str(folder)))
    first = read_recipe(run.recipe_path).texts[0]
    return Tokens.open(folder, f"{first.prefix}train"), vocabulary
