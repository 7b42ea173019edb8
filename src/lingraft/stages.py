"""The stages of a run up to training, one function each.

A stage reads the run's folder and the recipe, and leaves a folder with `done.json`. It returns the
fingerprint of what it made, which the next stage's fingerprint contains: a stage is redone when its
own settings or anything before it changed, and only then.
"""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft import grafting, tokenizer_extension
from lingraft import tokenizer as tokenizers_module
from lingraft.corpus import streams
from lingraft.corpus.split import SPLITS
from lingraft.corpus.streams import read_lines
from lingraft.embeddings import INITIALISERS
from lingraft.errors import DataError
from lingraft.models import source
from lingraft.models.families import family_of
from lingraft.models.parts import itl_layers
from lingraft.objectives.common import TokenIds
from lingraft.preflight import named_files
from lingraft.recipe import Data, Resources
from lingraft.rundir import fingerprint, write_text
from lingraft.tokens import Tokens, encode
from lingraft.tokenstats import statistics
from lingraft.training.data import Reading, subset
from lingraft.training.loop import train_phase
from lingraft.training.machine import resolve_precision
from lingraft.training.phase import Job
from lingraft.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accelerate import Accelerator
    from transformers import PreTrainedTokenizerFast

    from lingraft.recipe import Phase, Recipe, Stream
    from lingraft.rundir import Run

logger = logging.getLogger(__name__)

FORMAT = 1
"""Part of every fingerprint; raise it when a stage's output changes for the same input."""
STATISTICS_SENTENCES = 20_000


def seed_for(seed: int, purpose: str) -> int:
    """A seed that is fixed by another seed and a purpose."""
    return int(fingerprint(seed, purpose), 16) % 2**63


@dataclass(frozen=True)
class Context:
    """What every stage is given."""

    recipe: Recipe
    run: Run
    accelerator: Accelerator

    def seed_for(self, purpose: str) -> int:
        """A seed that is fixed by the run's seed and a purpose."""
        return seed_for(self.recipe.seed, purpose)


def source_fingerprint(recipe: Recipe) -> str:
    """Names the source: its files' sizes and times where it is local, else id and revision."""
    if recipe.source.model is None:
        return fingerprint(recipe.source)
    path = Path(recipe.source.model).expanduser()
    if not path.is_dir():
        return fingerprint(recipe.source.model, recipe.source.revision)
    files = sorted(
        p for p in path.iterdir() if p.suffix in (".json", ".safetensors", ".bin", ".txt", ".model")
    )
    return fingerprint([(p.name, p.stat().st_size, p.stat().st_mtime_ns) for p in files])


def corpus(context: Context) -> str:
    """Raw text to clean, split sentences."""
    recipe = context.recipe
    stage = context.run.stage("corpus")
    made = fingerprint(FORMAT, *streams.inputs(recipe))
    if not stage.is_done(made):
        with stage.building(made) as (folder, result):
            result.update(streams.prepare(recipe, folder))
    return made


def source_tokenizer(recipe: Recipe) -> PreTrainedTokenizerFast | None:
    """The source's tokenizer; None where the model is trained from nothing."""
    if recipe.source.model is None:
        return None
    return tokenizers_module.load(recipe.source.model, recipe.source.revision)


def position_settings(recipe: Recipe) -> tuple[int | None, int]:
    """The padding id that position rows depend on (or None), and the longest readable sentence."""
    if recipe.source.architecture is not None:
        settings: dict[str, Any] = dict(recipe.source.architecture)
        family = family_of(str(settings["model_type"]))
        pad, longest = 1, settings.get("max_position_embeddings", 512)
    else:
        config = source.load_config(str(recipe.source.model), recipe.source.revision)
        family = family_of(config.model_type)
        pad, longest = config.pad_token_id, config.max_position_embeddings
    if not family.pad_decides_positions:
        return None, int(longest)
    return int(pad), int(longest) - int(pad) - 1


def tokenizer(context: Context, corpus_made: str) -> str:
    """Train the vocabulary on the training text, and tokenise all three splits."""
    recipe, run = context.recipe, context.run
    stage = run.stage("tokenizer")
    made = fingerprint(
        FORMAT,
        corpus_made,
        recipe.tokenizer,
        source_fingerprint(recipe),
        recipe.split_seed,  # not the run's seed: runs with several seeds share a vocabulary
    )
    if stage.is_done(made):
        return made
    pad_id, longest = position_settings(recipe)
    text = run.stage("corpus").path
    theirs = source_tokenizer(recipe)
    with stage.building(made) as (folder, result):
        ours, extension = tokenizer_extension.make(
            recipe.tokenizer,
            theirs,
            lambda: streams.vocabulary_text(recipe, text),
            pad_id=pad_id,
            seed=seed_for(recipe.split_seed, "tokenizer"),
        )
        max_tokens = min(recipe.tokenizer.max_tokens, longest)
        ours.model_max_length = longest
        tokenizers_module.save(ours, folder)
        vocabulary = Vocabulary.of(ours)
        result |= {
            "kind": tokenizers_module.kind_of(ours),
            "vocab_size": vocabulary.size,
            "extension": extension,
            "max_tokens": max_tokens,
            "specials": {
                role: [vocabulary.pieces[i], i] for role, i in vocabulary.specials.items()
            },
        }
        found = {
            stream.name: _tokenise(
                stream, streams.folder_of(text, stream), ours, theirs, folder, max_tokens
            )
            for stream in recipe.texts
        }
        result |= found[recipe.texts[0].name]
        if recipe.streams:
            result["streams"] = found
            result["tokens"] = {
                split: streams.added(one["tokens"][split] for one in found.values())
                for split in SPLITS
            }
    return made


def _tokenise(
    stream: Stream,
    text: Path,
    ours: PreTrainedTokenizerFast,
    theirs: PreTrainedTokenizerFast | None,
    folder: Path,
    max_tokens: int,
) -> dict[str, Any]:
    """Write a stream's tokens; their counts, and statistics of both tokenizers."""
    result: dict[str, Any] = {
        "tokens": {
            split: encode(
                ours, text / f"{split}.txt", folder, f"{stream.prefix}{split}", max_tokens
            )
            for split in SPLITS
        }
    }
    for name, which in (("statistics", ours), ("source_statistics", theirs)):
        if which is not None:
            result[name] = {
                split: statistics(which, _some(text / f"{split}.txt"))
                for split in ("train", "test")
            }
    return result


def _some(path: Path) -> Iterator[str]:
    for number, line in enumerate(read_lines(path)):
        if number == STATISTICS_SENTENCES:
            return
        yield line


def graft(context: Context, tokenizer_made: str) -> str:
    """Build the target model from the source."""
    recipe = context.recipe
    stage = context.run.stage("graft")
    made = fingerprint(
        FORMAT,
        tokenizer_made,
        source_fingerprint(recipe),
        recipe.graft,
        recipe.seed,
        *_resources(recipe),
        *_share(recipe),
    )
    if stage.is_done(made):
        return made
    source.quiet_transformers()
    plan = grafting.Grafting(
        recipe,
        source_tokenizer(recipe),
        tokenizers_module.load(str(context.run.stage("tokenizer").path)),
        lambda: _learnt_from(context),
        context.seed_for,
    )
    with stage.building(made) as (folder, result):
        result.update(plan.run(folder))
    logger.info("graft: %s parameters", f"{result['parameters']['total']:,}")
    for note in result["notes"]:
        logger.info("graft: %s", note)
    return made


def _resources(recipe: Recipe) -> list[Any]:
    """What an initialiser learns from beside source and text, as parts of a fingerprint."""
    resources = recipe.resources
    if resources == Resources():
        return []
    named = [Path(name).expanduser() for name in named_files(resources)]
    files = [file for path in named for file in ([path] if path.is_file() else path.rglob("*"))]
    stats = sorted((str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in files if p.is_file())
    return [resources, stats]


def _share(recipe: Recipe) -> list[Any]:
    """How much of the text an initialiser learns from, as parts of a fingerprint."""
    learns = INITIALISERS[recipe.graft.embeddings].learns_from_text
    most = _most_sentences(recipe)
    return ["sentences", most] if learns and most is not None else []


def _most_sentences(recipe: Recipe) -> int | None:
    """Of the phases' shares of the training text the largest; None where one takes all of it."""
    sizes = [phase.sentences for phase in recipe.phases]
    given = [size for size in sizes if size is not None]
    return max(given) if given and len(given) == len(sizes) else None


def _learnt_from(context: Context) -> Iterator[str]:
    """The text that an initialiser may learn from: what the phases train on, and no more."""
    most = _most_sentences(context.recipe)
    folder = context.run.stage("tokenizer").path
    tokenizer = tokenizers_module.load(str(folder))
    for stream in context.recipe.texts:
        if most is None:
            corpus = streams.folder_of(context.run.stage("corpus").path, stream)
            yield from read_lines(corpus / "train.txt")
            continue
        for rows in _training_text(folder, stream, most).chunks():
            ids = [row.tolist() for row in rows]
            yield from tokenizer.batch_decode(ids, skip_special_tokens=True)


def weights_before(context: Context, index: int) -> Path:
    """The checkpoint that phase `index` starts from; past the last phase, the final weights."""
    if index == 0:
        return context.run.stage("graft").path / "model"
    return context.run.stage(context.recipe.phases[index - 1].name).path / "best"


def phase(context: Context, index: int, before_made: str) -> str:
    """Train one phase."""
    recipe, run = context.recipe, context.run
    section: Phase = recipe.phases[index]
    stage = run.stage(section.name)
    precision = resolve_precision(recipe.training.precision)
    made = fingerprint(
        FORMAT, before_made, section, recipe.seed, precision, recipe.training.row_tokens
    )
    if stage.is_done(made):
        return made
    main = context.accelerator.is_main_process
    if main:
        _claim(run, stage.path, made)
    context.accelerator.wait_for_everyone()
    source.quiet_transformers()
    changed, kept = _dropout(weights_before(context, index), section)
    loaded = source.load_model(str(weights_before(context, index)), settings=changed)
    folder = run.stage("tokenizer").path
    depth = int(getattr(loaded.model.config, loaded.family.depth_key))
    job = Job(
        phase=section,
        training=recipe.training,
        family=loaded.family,
        itl_layers=itl_layers(depth, recipe.graft.layers_before, recipe.graft.layers_after),
        readings=readings(folder, recipe, section),
        vocabulary=TokenIds.of(tokenizers_module.load(str(folder))),
        seed=context.seed_for("training"),
        folder=stage.path,
        metrics_path=run.metrics_path,
        fingerprint=made,
        kept_config=kept,
    )
    result = train_phase(job, loaded.model, context.accelerator)
    if main:
        stage.finish(made, result, result["seconds"])
        for leftover in stage.path.glob("checkpoint-*"):
            shutil.rmtree(leftover)
    context.accelerator.wait_for_everyone()
    return made


def readings(folder: Path, recipe: Recipe, section: Phase) -> tuple[Reading, ...]:
    """What a phase reads: each stream's text under its objective.

    Args:
        folder: of the tokenizer stage.
        recipe: names the streams.
        section: the phase; where it says nothing it reads all of them.

    Raises:
        DataError: a text is missing or empty.
    """
    named = {stream.name: stream for stream in recipe.texts}
    entries = section.data or [Data(stream=name) for name in named]
    return tuple(
        Reading(
            entry.stream,
            _training_text(folder, named[entry.stream], section.sentences),
            nonempty(Tokens.open(folder, f"{named[entry.stream].prefix}valid"), "validation"),
            entry.objective or section.objective,
            entry.masking or section.masking,
            entry.weight,
        )
        for entry in entries
    )


def _training_text(folder: Path, stream: Stream, sentences: int | None) -> Tokens:
    """What a phase trains on of a stream: all of the training text, or a share of it."""
    whole = nonempty(Tokens.open(folder, f"{stream.prefix}train"), "training")
    if sentences is None:
        return whole
    return subset(whole, sentences, stream.corpus.split_seed)


def _claim(run: Run, folder: Path, made: str) -> None:
    """Make a phase's folder ready; what other settings left there, metrics too, is deleted."""
    mark, rows = folder / "inputs", run.metrics()
    if not mark.is_file() or mark.read_text() != made:
        rows = [row for row in rows if row["phase"] != folder.name]
        if folder.exists():
            shutil.rmtree(folder)
    # Also where the phase goes on: a kill may have left half a line.
    write_text(run.metrics_path, "".join(json.dumps(row) + "\n" for row in rows))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "done.json").unlink(missing_ok=True)
    mark.write_text(made)


def nonempty(tokens: Tokens, what: str) -> Tokens:
    """The tokens of a split, where there are any.

    Raises:
        DataError: there are none.
    """
    if len(tokens) == 0:
        raise DataError(
            f"the {what} text holds no sentences; give more text, "
            "or another corpus.valid / corpus.test share"
        )
    return tokens


def _dropout(checkpoint: Path, section: Phase) -> tuple[dict[str, Any], dict[str, Any]]:
    """Configuration values that set the phase's dropout, and those that put the source's back."""
    if section.dropout is None:
        return {}, {}
    config = source.load_config(str(checkpoint))
    keys = family_of(config.model_type).dropout_keys
    return dict.fromkeys(keys, section.dropout), {key: getattr(config, key) for key in keys}
