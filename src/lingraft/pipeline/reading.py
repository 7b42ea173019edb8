"""What a phase reads: the tokens of its streams, as sentences or as pairs."""

from __future__ import annotations

import functools
import logging
from itertools import islice
from typing import TYPE_CHECKING, Any

from lingraft.corpus.streams import folder_of, read_lines
from lingraft.errors import DataError
from lingraft.objectives import OBJECTIVES
from lingraft.recipe.phase import most_sentences
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.documents import Documents, before
from lingraft.tokenizer.pairs import Blocks, Edges, TokenPairs, neighbours, translations
from lingraft.tokenizer.shards import Tokens
from lingraft.training.data import Reading, subset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from transformers import PreTrainedTokenizerFast

    from lingraft.recipe import Data, Phase, Recipe, Stream
    from lingraft.rundir import Run
    from lingraft.training.data import Text

logger = logging.getLogger(__name__)


def readings(
    folder: Path, recipe: Recipe, section: Phase, tokenizer: PreTrainedTokenizerFast
) -> tuple[Reading, ...]:
    """What a phase reads: each stream's text under its objectives.

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
    entry: Data,
    section: Phase,
    tokenizer: PreTrainedTokenizerFast,
    max_tokens: int,
) -> Reading:
    """One entry; what it reads also are readings of the same units."""
    longest = int(tokenizer.model_max_length)
    limit = min(entry.max_tokens or max_tokens, max_tokens, longest)
    objective, *more = section.objectives_of(entry)
    units: dict[str, Callable[[str], Any]] = {
        "sentences": functools.partial(_whole, folder, stream)
    }
    reads = OBJECTIVES[objective].reads
    if reads == "documents":
        units = {
            reads: functools.partial(
                _documents, folder, stream, limit, before(tokenizer), section.max_train_sentences
            )
        }
    elif reads != "sentences":
        edges = Edges.of(tokenizer)
        pairs = functools.cache(functools.partial(_pairs, folder, stream, edges, limit))
        units = {
            "pairs": pairs,
            "joined pairs": lambda split: _joined(pairs(split), longest, entry),
        }

    def under(name: str, also: tuple[Reading, ...] = ()) -> Reading:
        reads = OBJECTIVES[name].reads
        load = units[reads]
        train = load("train")
        if reads != "documents":  # whose share is one of documents, not of their pieces
            train = _share(train, section.max_train_sentences, stream)
        if section.packing and reads == "sentences":
            train = Blocks.of(train, Edges.of(tokenizer), min(max_tokens, longest))
        return Reading(
            entry.stream,
            train,
            load("valid"),
            name,
            entry.masking or section.masking,
            entry.weight,
            also,
            stream.bilingual,
            entry.share,
        )

    return under(objective, tuple(under(name) for name in more))


def _whole(folder: Path, stream: Stream, split: str) -> Tokens:
    kind = {"train": "training", "valid": "validation"}[split]
    return nonempty(Tokens.open(folder, f"{stream.prefix}{split}"), kind)


def _documents(
    folder: Path,
    stream: Stream,
    context: int,
    prefix: Sequence[int],
    sentences: int | None,
    split: str,
) -> Documents:
    most = sentences if split == "train" else None
    return Documents.of(_share(_whole(folder, stream, split), most, stream), context, prefix)


def _pairs(folder: Path, stream: Stream, edges: Edges, limit: int, split: str) -> TokenPairs:
    tokens = _whole(folder, stream, split)
    sides = translations(tokens) if stream.bilingual else neighbours(tokens, edges, limit)
    of = f"stream '{stream.name}'" if stream.name else "the text"
    if not len(sides):
        why = (
            "no pair whose sides are a row of tokens each; raise tokenizer.max_tokens"
            if stream.bilingual
            else f"no document of two stretches of {limit} tokens; give longer documents (of .txt "
            "files: corpus.document = 'block' or 'file'), or lower phases.….data.….max_tokens"
        )
        raise DataError(f"{of}: the {split} text has {why}")
    documents = len(tokens.documents())
    if stream.bilingual and len(sides) < documents:
        left = documents - len(sides)
        logger.info("%s: %s of %s pairs are too long, left out", of, f"{left:,}", f"{documents:,}")
    logger.info("%s, %s: %s pairs", of, split, f"{len(sides):,}")
    return TokenPairs(tokens, sides, edges, limit)


def _joined(pairs: TokenPairs, longest: int, entry: Data) -> TokenPairs:
    return TokenPairs(
        pairs.tokens, pairs.sides, pairs.edges, pairs.limit, longest, entry.reset_positions
    )


def training_text(folder: Path, stream: Stream, sentences: int | None) -> Tokens:
    """What a phase trains on of a stream: all of the training text, or a share of it.

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
        ids = [row.tolist() for row in rows]
        yield from tokenizer.batch_decode(ids, skip_special_tokens=True)


def check_shares(folder: Path, recipe: Recipe) -> None:
    """Refuse phases that want more sentences than there are, before the first one trains.

    Args:
        folder: of the tokenizer stage.
        recipe: names the streams.

    Raises:
        DataError: as `training_text`.
    """
    streams = {stream.name: stream for stream in recipe.texts}
    for phase in recipe.phases:
        if phase.max_train_sentences is not None:
            for name in [entry.stream for entry in phase.data] or streams:
                training_text(folder, streams[name], phase.max_train_sentences)


def _share(units: Text, sentences: int | None, stream: Stream) -> Text:
    """So many sentences or pairs of a stream; None takes all."""
    return units if sentences is None else subset(units, sentences, stream.corpus.split_seed)


def nonempty(tokens: Tokens, kind: str) -> Tokens:
    """The tokens of a split, where there are any.

    Raises:
        DataError: there are none.
    """
    if len(tokens) == 0:
        raise DataError(
            f"the {kind} text holds no sentences; give more text, "
            "or another corpus.valid / corpus.test share"
        )
    return tokens
