"""Evaluate a causal model on whole documents: bits per byte, the source beside it, kept text."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.corpus.inputs import lines_of
from lingraft.corpus.readers import documents
from lingraft.corpus.readers.lines import Counts, without_holes
from lingraft.errors import DataError
from lingraft.evaluation import intrinsic, likelihood, samples
from lingraft.evaluation.scorer import Scorer
from lingraft.pretrained.load import USUAL_LENGTH, check_longest, load_config, longest_text
from lingraft.recipe import Corpus
from lingraft.recipe.run import CHARACTERS_OF_A_SENTENCE
from lingraft.rundir import fingerprint
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.documents import before
from lingraft.training.objectives.common import TokenIds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from transformers import PreTrainedTokenizerFast

    from lingraft.models.families.record import KindName
    from lingraft.recipe import Evaluation, Recipe


@dataclass(frozen=True)
class ScoredModel:
    """A model ready to be evaluated."""

    scorer: Scorer
    tokenizer: PreTrainedTokenizerFast
    context: int
    """Tokens that it reads at once here: of a run, as many as in training."""

    @classmethod
    def load(
        cls,
        name: str,
        precision: str,
        context: int | None = None,
        revision: str | None = None,
        kind: KindName = "causal",
    ) -> ScoredModel:
        """Load a checkpoint.

        Args:
            name: directory or Hub id.
            precision: auto, bf16 or fp32.
            context: tokens that are read at once; None takes all that it can read.
            revision: on the Hub.
            kind: of the model.

        Raises:
            DataError: there is none, it is broken, or is of another kind.
        """
        config = load_config(name, revision)
        tokenizer = tokenizer_files.load(name, revision)
        ids = TokenIds.of(tokenizer, kind)
        scorer = Scorer.load(name, ids.pad, precision, kind, revision)
        usual = max(context or 0, USUAL_LENGTH)
        longest = check_longest(name, longest_text(config, ids.pad, usual))
        return cls(scorer, tokenizer, min(longest, context or longest))


def score_documents(
    model: ScoredModel, texts: Sequence[str], new: np.ndarray[Any, Any] | None = None
) -> dict[str, Any]:
    """Score whole documents.

    Args:
        model: any causal model.
        texts: the documents.
        new: ids of its pieces that are new; None for a model with the source's own vocabulary.

    Returns:
        masks, metrics by scheme, likelihood, pieces, blocks; `begins`, the special tokens that each
        window begins with; `text`, the fingerprint of the bytes; and `targets`, the predicted
        tokens, which are not for files.
    """
    text = likelihood.text_of(model.tokenizer, texts, model.context)
    scores = intrinsic.measure(model.scorer, text.tokens)
    hashed = hashlib.blake2b(digest_size=8)
    for document in texts:
        hashed.update(f"{document}\0".encode("utf-8", "surrogatepass"))
    return {
        "text": hashed.hexdigest(),
        "masks": {
            "fingerprint": fingerprint(text.tokens.fingerprint),
            "sentences": len(texts),
            "positions": text.tokens.positions,
        },
        "metrics": {likelihood.SCHEME: scores.metrics()},
        "begins": model.tokenizer.convert_ids_to_tokens(before(model.tokenizer)),
        "likelihood": likelihood.likelihood(text, scores),
        "pieces": likelihood.by_piece(text, scores, np.zeros(0, np.int64) if new is None else new),
        "targets": np.concatenate([item.targets for item in text.tokens.items]),
        "blocks": {
            likelihood.SCHEME: scores.blocks(),
            "likelihood": likelihood.likelihood_blocks(text, scores),
        },
    }


def score_kept_and_sample(
    model: ScoredModel, section: Evaluation, texts: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Score the kept texts, and go on with beginnings of test documents.

    Args:
        model: the run's, or the source.
        section: what is asked for.
        texts: the test documents of each stream; samples go on with the first's.

    Returns:
        kept and generated, each where it is asked for; `blocks` of the first.
    """
    result: dict[str, Any] = {"blocks": {}}
    for path in section.kept:
        scores = score_documents(model, read_documents([path], section.max_sentences))
        title = Path(path).name
        result.setdefault("kept", {})[title] = {key: scores[key] for key in ("text", "likelihood")}
        result["blocks"][f"kept/{title}"] = scores["blocks"]["likelihood"]
    if section.prompts:
        lines = list(islice(lines_of([section.prompts]), samples.PROMPTS))
        asked = (model.scorer.model, model.tokenizer, lines, model.context)
        result["chat"] = {"text": fingerprint(lines)} | samples.answers(*asked)
    if section.samples:
        result["generated"] = samples.continuations(
            model.scorer.model,
            model.tokenizer,
            samples.beginnings(next(iter(texts.values())), section.samples),
            model.context,
            section.seed,
        )
    return result


def evaluate_source(
    recipe: Recipe, texts: Mapping[str, Sequence[str]], context: int
) -> dict[str, Any] | None:
    """Evaluate the source as it is; None where there is none or it is not asked for.

    Args:
        recipe: names the source.
        texts: the test documents of each stream.
        context: tokens that are read at once, as the run's model does.

    Returns:
        As `score_kept_and_sample`, and for each stream, under `streams`, as `score_documents`.
    """
    section, source = recipe.evaluation, recipe.source
    if not section.untouched or source.model is None:
        return None
    model = ScoredModel.load(source.model, recipe.hardware.precision, context, source.revision)
    scores = {name: score_documents(model, of_stream) for name, of_stream in texts.items()}
    for of_stream in scores.values():
        del of_stream["targets"]
    return score_kept_and_sample(model, section, texts) | {"streams": scores}


def choose_documents(texts: Sequence[str], sentences: int) -> list[str]:
    """Choose documents of a text, spread evenly, whatever the tokenizer is; one at least.

    Args:
        texts: all documents.
        sentences: as many documents as hold so many times `CHARACTERS_OF_A_SENTENCE` characters,
            but no more than so many.
    """
    mean = sum(map(len, texts)) / len(texts)
    number = int(min(sentences, sentences * CHARACTERS_OF_A_SENTENCE / mean, len(texts)))
    spread = np.linspace(0, len(texts) - 1, max(1, number)).astype(np.int64)
    return [texts[index] for index in spread]


def read_documents(names: Sequence[str], sentences: int) -> list[str]:
    """Read documents of files, from their start, until they hold about so many sentences.

    A document of a .txt file is a block between empty lines.

    Args:
        names: files or directories, as in a recipe.
        sentences: so many times `CHARACTERS_OF_A_SENTENCE` characters are read.

    Raises:
        DataError: one cannot be read, or there is no text.
    """
    section, reading = Corpus(text=tuple(names), document="block"), Counts()
    documents.tell(names)
    document_texts = (
        without_holes(document.text)
        for source in documents.resolve(names)
        for document in documents.read(source, section, reading)
    )
    room, texts = sentences * CHARACTERS_OF_A_SENTENCE, list[str]()
    for text in document_texts:
        if room <= 0:
            break
        texts.append(text[:room])
        room -= len(text)
    reading.warn()
    if not any(texts):
        raise DataError(f"{', '.join(names)}: holds no text; give UTF-8 text")
    return texts
