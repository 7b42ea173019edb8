"""Open the tokens of a phase's streams, as sentences, documents or pairs.

Check that phases can read the pairs that they ask for. No torch.
"""

from __future__ import annotations

import functools
import logging
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from lingraft.corpus import aligned
from lingraft.corpus.streams import folder_of, read_lines
from lingraft.errors import DataError, RecipeError
from lingraft.recipe.base import READ_PAIRS
from lingraft.recipe.phase import most_sentences
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.documents import Documents, before
from lingraft.tokenizer.pairs import Blocks, Edges, TokenPairs, neighbours, translations
from lingraft.tokenizer.shards import Tokens
from lingraft.training.data import Reading, subset
from lingraft.training.objectives import OBJECTIVES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from transformers import PreTrainedTokenizerFast

    from lingraft.recipe import Phase, PhaseData, Recipe, Stream
    from lingraft.rundir import Run
    from lingraft.training.data import Text


logger = logging.getLogger(__name__)


def readings(
    folder: Path, recipe: Recipe, section: Phase, tokenizer: PreTrainedTokenizerFast
) -> tuple[Reading, ...]:
    """Open what a phase reads: each stream's text under its objectives.

    Args:
        folder: of the tokenizer stage.
        recipe: names the streams.
        section: the phase; where it says nothing it reads all of them.
        tokenizer: of that folder.

    Raises:
        DataError: a text is missing or empty, or has no pairs where they are asked for.
    """
    most = recipe.tokenizer.max_tokens
    return tuple(
        _reading(folder, stream, entry, section, tokenizer, most)
        for entry, stream in recipe.read_in(section)
    )


def _reading(
    folder: Path,
    stream: Stream,
    entry: PhaseData,
    section: Phase,
    tokenizer: PreTrainedTokenizerFast,
    max_tokens: int,
) -> Reading:
    """Make one entry; what it reads also are readings of the same units."""
    longest = int(tokenizer.model_max_length)
    limit = min(entry.max_tokens or max_tokens, max_tokens, longest)

    @functools.cache
    def pairs(split: str) -> TokenPairs:
        return _pairs(folder, stream, Edges.of(tokenizer), limit, split)

    def load(split: str, reads: str) -> Any:
        most = section.max_train_sentences if split == "train" else None
        if reads in ("pairs", "joined pairs"):
            found = pairs(split)
            if reads == "joined pairs":
                found = replace(found, longest=longest)
            return _share(found, most, stream)
        units = _share(_whole(folder, stream, split), most, stream)
        if reads == "documents":
            return Documents.of(units, limit, before(tokenizer))
        if section.packing and split == "train":
            return Blocks.of(units, Edges.of(tokenizer), min(max_tokens, longest))
        return units

    def under(name: str, also: tuple[Reading, ...] = ()) -> Reading:
        reads = OBJECTIVES[name].reads
        masking = entry.masking or section.masking
        sides = load("train", reads), load("valid", reads)
        return Reading(
            entry.stream,
            *sides,
            name,
            masking,
            weight=entry.weight,
            also=also,
            bilingual=stream.bilingual,
            share=entry.share,
            soft=entry.soft_labels,
        )

    objective, *more = section.objectives_of(entry)
    return under(objective, tuple(under(name) for name in more))


def _whole(folder: Path, stream: Stream, split: str) -> Tokens:
    return nonempty(Tokens.open(folder, f"{stream.prefix}{split}"), split)


def _pairs(folder: Path, stream: Stream, edges: Edges, limit: int, split: str) -> TokenPairs:
    tokens = _whole(folder, stream, split)
    sides = translations(tokens) if stream.bilingual else neighbours(tokens, edges, limit)
    of = f"stream '{stream.name}'" if stream.name else "the text"
    if not len(sides):
        raise DataError(
            f"{of}: the {split} text has no pair of at most {limit} tokens a side; give longer "
            "documents (of .txt files: corpus.document = 'block' or 'file'), or another max_tokens"
        )
    documents = len(tokens.documents())
    left = documents - len(sides) if stream.bilingual else 0
    logger.info("%s, %s: %s pairs, %s too long", of, split, f"{len(sides):,}", f"{left:,}")
    return TokenPairs(tokens, sides, edges, limit)


def training_text(folder: Path, stream: Stream, sentences: int | None) -> Tokens:
    """Open what a phase trains on of a stream: all of the training text, or a share of it.

    Raises:
        DataError: it is missing, empty, or smaller than the share.
    """
    return _share(_whole(folder, stream, "train"), sentences, stream)


def initializer_sentences(recipe: Recipe, run: Run) -> Iterator[str]:
    """Give the text that an initializer may learn from: what the phases train on, and no more.

    Of each language at most `embeddings.max_sentences` sentences.
    """
    for stream in recipe.texts:
        yield from islice(_trained_on(recipe, run, stream), recipe.embeddings.max_sentences)


def _trained_on(recipe: Recipe, run: Run, stream: Stream) -> Iterator[str]:
    most = most_sentences(recipe.phases)
    if most is None:
        yield from read_lines(folder_of(run.stage("corpus").path, stream) / "train.txt")
        return
    folder = run.stage("tokenizer").path
    tokenizer = tokenizer_files.load(str(folder))
    for rows in training_text(folder, stream, most).chunks():
        yield from tokenizer.batch_decode([row.tolist() for row in rows], skip_special_tokens=True)


def check_shares(folder: Path, recipe: Recipe) -> None:
    """Refuse phases that want more sentences than there are, before the first one trains.

    Args:
        folder: of the tokenizer stage.
        recipe: names the streams.

    Raises:
        DataError: as `training_text`.
    """
    for phase in recipe.phases:
        if phase.max_train_sentences is not None:
            readings(folder, recipe, phase, tokenizer_files.load(str(folder)))


def _share(units: Text, sentences: int | None, stream: Stream) -> Text:
    """Draw so many sentences or pairs of a stream; None takes all."""
    return units if sentences is None else subset(units, sentences, stream.corpus.split_seed)


def nonempty(tokens: Tokens, split: str) -> Tokens:
    """Return the tokens of a split, where there are any.

    Raises:
        DataError: there are none.
    """
    if len(tokens) == 0:
        raise DataError(f"the {split} text holds no sentences; give more text")
    return tokens


def check_pairs(recipe: Recipe) -> None:
    """Check objectives on pairs against the graft, the streams and what trains, and their text.

    Raises:
        RecipeError: the first thing that is wrong.
    """
    for stream in recipe.texts:
        if stream.bilingual:
            aligned.check_stream(stream.corpus)
    crosses = recipe.graft.cross_attention
    for phase in recipe.phases:
        read = recipe.read_in(phase)
        for entry, stream in read:
            if problem := _problem(phase, entry, bilingual=stream.bilingual, crosses=crosses):
                raise RecipeError(f"phase '{phase.name}': stream '{entry.stream}': {problem}")
        mixture = phase.mixture
        alternates, kinds = mixture.draw == "alternate", {stream.bilingual for _, stream in read}
        if alternates > (len(kinds) > 1) or (mixture.bilingual_batch and not alternates):
            raise RecipeError(
                f"phase '{phase.name}': mixture.draw = 'alternate', which mixture.bilingual_batch "
                "goes with, takes turns between streams in one language and streams of "
                "translations (language = 'en/ko')"
            )


def _problem(phase: Phase, entry: PhaseData, *, bilingual: bool, crosses: bool) -> str | None:
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
    if "ca_mlm" in names and not crosses:
        return "'ca_mlm' needs graft.cross_attention = true, or training.method = 'veco'"
    if phase.crosses_alone and set(names) != {"ca_mlm"}:
        return "the phase trains cross-attention alone, which only 'ca_mlm' plugs in; train more"
    return None
