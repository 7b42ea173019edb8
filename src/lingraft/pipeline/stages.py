"""The stages of a run up to training, one function each.

A stage reads the run's folder and the recipe, and leaves a folder with `done.json`. It returns the
fingerprint of what it made, which the next stage's fingerprint contains: a stage is redone when its
own settings or anything before it changed, and only then.
"""

from __future__ import annotations

import functools
import logging
import time
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.callbacks import Callback
from lingraft.corpus import streams
from lingraft.corpus.split import SPLITS
from lingraft.errors import DataError, RecipeError, UnsupportedModelError
from lingraft.evaluation.written import with_written
from lingraft.models.embeddings import INITIALIZERS
from lingraft.models.families import family_of
from lingraft.models.source import config_of
from lingraft.pipeline import fingerprints, grafting, trackers
from lingraft.pipeline.phase_data import check_shares, initializer_sentences
from lingraft.pretrained import load as pretrained
from lingraft.pretrained.checkpoints import named_tokenizer
from lingraft.recipe import Embeddings
from lingraft.recipe.phase import most_sentences
from lingraft.rundir import FORMAT, Run, fingerprint
from lingraft.tokenizer import documents, extension as tokenizer_extension, files as tokenizer_files
from lingraft.tokenizer.frame import code_for, speak
from lingraft.tokenizer.shards import encode
from lingraft.tokenizer.statistics import check_kept, statistics, warn, warn_of_bytes
from lingraft.tokenizer.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable

    from accelerate import Accelerator
    from transformers import PreTrainedTokenizerFast

    from lingraft.models.families import Family
    from lingraft.recipe import Recipe, Source, Stream

logger = logging.getLogger(__name__)
STATISTICS_SENTENCES = 20_000


def seed_for(seed: int, purpose: str) -> int:
    """Return a seed that is fixed by another seed and a purpose."""
    return int(fingerprint(seed, purpose), 16) % 2**63


@dataclass
class Clock:
    """The time of a run whose budget is in time."""

    began: float
    """When the run began, on `time.monotonic`."""
    seconds: float
    """That the whole run may take."""
    before: float = 0.0
    """That earlier calls took for what is kept of them."""

    def passed(self) -> float:
        """Return the seconds of the run so far."""
        return time.monotonic() - self.began + self.before


@dataclass(frozen=True)
class Context:
    """Recipe, run and machine of every stage."""

    recipe: Recipe
    run: Run
    accelerator: Accelerator
    environment: dict[str, Any] | None = None
    """Environment of this process, if the run's `environment.json` is to name what trained it."""
    clock: Clock | None = None
    """None where the budget is not in time."""
    callback: Callback = field(default_factory=Callback)
    steps_before: dict[str, int] = field(default_factory=dict)
    """Steps of all other phases of the run and its baselines, by phase, for trackers; filled in."""

    def seed_for(self, purpose: str) -> int:
        """Return a seed that is fixed by the run's seed and a purpose."""
        return seed_for(self.recipe.seed, purpose)

    def report_row(self, row: dict[str, Any]) -> None:
        """Tell the callback, and the trackers that are asked for, of a row of metrics.jsonl."""
        if self.recipe.hardware.trackers:
            phase, main = row["phase"], Run(Path(self.accelerator.project_dir))
            if phase not in self.steps_before:
                self.steps_before[phase] = trackers.steps(main, (self.run, phase))
            trackers.log_row(self.accelerator, self.run, row, self.steps_before[phase])
        is_step = row["kind"] == "train"
        (self.callback.on_step if is_step else self.callback.on_validation)(self.run, row)


def corpus(context: Context) -> str:
    """Clean and split the raw text into sentences.

    Raises:
        DataError: a split that the run needs holds no sentences.
    """
    recipe, stage = context.recipe, context.run.stage("corpus")
    stage_fingerprint = fingerprints.corpus_fingerprint(recipe)
    if stage.is_done(stage_fingerprint):
        return stage_fingerprint
    with stage.building(stage_fingerprint) as (folder, result):
        seed = context.seed_for("written text")
        texts = tuple(with_written(stream, folder, seed) for stream in recipe.streams)
        files = recipe.model_copy(update={"streams": texts})
        written = {stream.name for stream in recipe.streams if stream.is_written}
        result.update(streams.prepare(files, folder, written), contents=stage_fingerprint)
        for stream in recipe.texts:
            splits = result.get("streams", {}).get(stream.name, result)["splits"]
            needed = ("valid", "test") if recipe.phases else ("test",)
            if empty := [split for split in needed if not splits[split]["sentences"]]:
                name = stream.name or "the text"
                raise DataError(f"corpus: {name} has no {empty[0]} sentences; give more text")
    return stage_fingerprint


def source_tokenizer(recipe: Recipe) -> PreTrainedTokenizerFast | None:
    """Load the source's tokenizer; None where the model is trained from nothing.

    For a vocabulary of another kind it need not cut text, and can stand in.
    """
    if recipe.source.model is None:
        return None
    section, distils = recipe.tokenizer, any(phase.distil for phase in recipe.phases)
    other = section.action == "use" or (section.action == "new" and section.algorithm != "source")
    reads = distils or recipe.evaluation.before or source_family(recipe.source).kind == "causal"
    return tokenizer_files.load(
        recipe.source.model, recipe.source.revision, may_stand_in=other and not reads
    )


def check_tokenizers(recipe: Recipe) -> None:
    """Refuse tokenizers of which no vocabulary can be made, before any text is read.

    Raises:
        LingraftError: as `tokenizer.extension.check` and `tokenizer.frame.code_for`; or prompts are
            to be answered, and the vocabulary has no chat template.
    """
    old_tokenizer, section = source_tokenizer(recipe), recipe.tokenizer
    if old_tokenizer is not None:
        tokenizer_files.kind_of(old_tokenizer)
        code_for(old_tokenizer, section.language_code, recipe.languages[0])
    template = old_tokenizer is not None and old_tokenizer.chat_template
    if template and section.algorithm != "source":
        logger.warning("tokenizer.algorithm: another than the source's has no chat template")
    if section.action == "use" and section.model is not None:
        template = tokenizer_files.load(section.model, section.revision).chat_template
    elif section.algorithm != "source":
        template = None
    if recipe.evaluation.prompts and not template:
        raise RecipeError(
            "evaluation.prompts: the vocabulary has no chat template; take a chat model, and "
            "leave out tokenizer.algorithm and tokenizer.model"
        )
    pad_id, _ = position_settings(recipe)
    causal = source_family(recipe.source).kind == "causal"
    tokenizer_extension.check(section, old_tokenizer, pad_id=pad_id, causal=causal)


def source_family(source: Source) -> Family:
    """Return the family of a source, whose configuration is downloaded where it is not here.

    Raises:
        UnsupportedModelError: it has no record.
    """
    return family_of(config_of(source).model_type)


def position_settings(recipe: Recipe) -> tuple[int | None, int]:
    """Return the padding id that position rows depend on, and the longest readable sentence."""
    config = config_of(recipe.source)
    family = family_of(config.model_type)
    # A model from a table gets a vocabulary of its own, whose padding is token 1.
    pad = config.pad_token_id if recipe.source.architecture is None else 1
    positions = getattr(config, "max_position_embeddings", None)
    usual = max(recipe.tokenizer.max_tokens, pretrained.USUAL_LENGTH)
    longest = usual if positions is None else int(positions)
    if not family.pad_decides_positions:
        return None, pretrained.check_longest(recipe.source.model, longest)
    if pad is None:
        raise UnsupportedModelError(
            f"source model '{recipe.source.model}': config.json has no pad_token_id, from which "
            f"a {family.model_type} counts positions; put the padding token's id there"
        )
    return pad, pretrained.check_longest(recipe.source.model, longest - pad - 1)


def tokenizer_fingerprint(recipe: Recipe, text_fingerprint: str) -> str:
    """Return the fingerprint of a vocabulary: of a text, whose own is given, and a source."""
    return fingerprint(
        FORMAT["tokenizer"],
        text_fingerprint,
        *named_tokenizer(recipe.tokenizer),
        fingerprints.source_fingerprint(recipe),
        recipe.split_seed,  # not the run's seed: runs with several seeds share a vocabulary
    )


def tokenizer(context: Context, text_fingerprint: str) -> str:
    """Train the vocabulary on the training text, and tokenise all three splits."""
    recipe, run = context.recipe, context.run
    stage = run.stage("tokenizer")
    stage_fingerprint = tokenizer_fingerprint(recipe, text_fingerprint)
    if stage.is_done(stage_fingerprint):
        return stage_fingerprint
    source, text = source_tokenizer(recipe), run.stage("corpus").path
    longest, max_tokens = position_settings(recipe)[1], recipe.tokenizer.max_tokens
    if longest < max_tokens:
        logger.info("context: %d tokens, not %d: as the source reads", longest, max_tokens)
        max_tokens = longest
    is_causal = source_family(recipe.source).kind == "causal"
    write = functools.partial(documents.encode if is_causal else encode, max_tokens=max_tokens)
    write_chats = functools.partial(write, special=True)
    with stage.building(stage_fingerprint) as (folder, result):
        made, extension = make_tokenizer(recipe, source, text)
        tokenizer_files.save(made, folder)
        vocabulary = Vocabulary.of(made)
        result |= {
            "kind": tokenizer_files.kind_of(made),
            "vocab_size": vocabulary.size,
            "extension": extension,
            "max_tokens": max_tokens,
            "specials": {
                role: [vocabulary.pieces[i], i] for role, i in vocabulary.specials.items()
            },
        }
        counts = {
            stream.name: _tokenise(
                stream,
                streams.folder_of(text, stream),
                made,
                source,
                folder,
                write_chats if is_causal and stream.is_written else write,
            )
            for stream in recipe.texts
        }
        result |= counts[recipe.texts[0].name]
        if recipe.streams:
            result["streams"] = counts
            result["tokens"] = {
                split: streams.added(of["tokens"][split] for of in counts.values())
                for split in SPLITS
            }
    return stage_fingerprint


def make_tokenizer(
    recipe: Recipe, source: PreTrainedTokenizerFast | None, text: Path
) -> tuple[PreTrainedTokenizerFast, dict[str, int] | None]:
    """Return the target's tokenizer, and what `extension.make` counts.

    Args:
        recipe: says what is made.
        source: the source's tokenizer; None where the model is trained from nothing.
        text: folder of the corpus stage; need not be there for a vocabulary that is kept or given.

    Raises:
        LingraftError: as `extension.make` and `frame.code_for`.
    """
    pad_id, longest = position_settings(recipe)
    causal = source_family(recipe.source).kind == "causal"
    language_code, language = recipe.tokenizer.language_code, recipe.languages[0]
    code = code_for(source, language_code, language) if source is not None else None
    read = functools.partial(streams.vocabulary_text, recipe, text)
    if causal and source is not None:
        source_kind = tokenizer_files.kind_of(source)
        read = functools.partial(read, documents.reader_for(recipe.tokenizer, source_kind))
    seed = seed_for(recipe.split_seed, "tokenizer")
    made, extension = tokenizer_extension.make(
        recipe.tokenizer, source, read, pad_id=pad_id, seed=seed, causal=causal
    )
    warn_of_bytes(made, islice(read(), STATISTICS_SENTENCES) if text.is_dir() else ())
    if code is not None:
        speak(made, code)
    # the source's may know more than config.json (BLOOM, T5)
    positions = getattr(config_of(recipe.source), "max_position_embeddings", None)
    made.model_max_length = longest
    if source is not None and not positions:
        made.model_max_length = max(longest, source.model_max_length)
    return made, extension


def _tokenise(
    stream: Stream,
    text: Path,
    made: PreTrainedTokenizerFast,
    source: PreTrainedTokenizerFast | None,
    folder: Path,
    write: Callable[..., dict[str, int]],
) -> dict[str, Any]:
    """Write a stream's tokens; return their counts, and the statistics of both tokenizers."""
    result: dict[str, Any] = {
        "tokens": {
            split: write(made, text / f"{split}.txt", folder, f"{stream.prefix}{split}")
            for split in SPLITS
        }
    }
    for name, which in (("statistics", made), ("source_statistics", source)):
        if which is not None and not isinstance(which, tokenizer_files.StandIn):
            result[name] = {
                split: statistics(
                    which, islice(streams.read_lines(text / f"{split}.txt"), STATISTICS_SENTENCES)
                )
                for split in ("train", "test")
            }
    found = result["statistics"]["train"]
    warn(stream.language, found)
    check_kept(f"tokenizer: {stream.language}", found["text_kept"])
    return result


def graft_fingerprint(recipe: Recipe, vocabulary_fingerprint: str) -> str:
    """Return the fingerprint of what decides the target model before training."""
    section, most = recipe.embeddings, most_sentences(recipe.phases)
    nowhere = {key: getattr(Embeddings(), key) for key in fingerprints.RESOURCES}
    learns = any(INITIALIZERS[name].learns_from_text for name in section.initializers)
    return fingerprint(
        FORMAT["graft"],
        vocabulary_fingerprint,
        fingerprints.source_fingerprint(recipe),
        recipe.graft,
        recipe.seed,
        section.decisive.model_copy(update=nowhere),
        fingerprints.resource_contents(section),
        *(["sentences", most] if learns and most is not None else []),
    )


def graft(context: Context, vocabulary_fingerprint: str) -> str:
    """Build the target model from the source; refuse phases that want more text than there is."""
    recipe, run = context.recipe, context.run
    check_shares(run.stage("tokenizer").path, recipe)
    stage, stage_fingerprint = run.stage("graft"), graft_fingerprint(recipe, vocabulary_fingerprint)
    if stage.is_done(stage_fingerprint):
        return stage_fingerprint
    pretrained.quiet_transformers()
    plan = grafting.Grafting(
        recipe,
        source_tokenizer(recipe),
        tokenizer_files.load(str(run.stage("tokenizer").path)),
        lambda: initializer_sentences(recipe, run),
        context.seed_for,
    )
    with stage.building(stage_fingerprint) as (folder, result):
        result.update(plan.run(folder))
    logger.info("graft: %s parameters", f"{result['parameters']['total']:,}")
    for note in result["notes"]:
        logger.info("graft: %s", note)
    return stage_fingerprint


def weights_before(context: Context, index: int) -> Path:
    """Return the checkpoint that phase `index` starts from; behind the last the final weights."""
    return context.run.weights([phase.name for phase in context.recipe.phases[:index]])
