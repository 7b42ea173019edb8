"""What a causal model is judged by beside the likelihood of its test text.

The source as it is, in its own vocabulary, on the same bytes; how much of its language is kept;
multiple-choice questions; what is generated, and how fast.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.corpus.readers import documents
from lingraft.corpus.readers.lines import Reading, without_holes
from lingraft.errors import DataError
from lingraft.evaluation import choices as answering
from lingraft.evaluation import generated, intrinsic, likelihood, pieces
from lingraft.evaluation.records import BLOCKS
from lingraft.evaluation.scorer import Scorer
from lingraft.objectives.common import TokenIds
from lingraft.paths import path_of
from lingraft.pretrained.load import (
    USUAL_LENGTH,
    check_longest,
    load_config,
    longest_text,
)
from lingraft.recipe import Choices, Corpus
from lingraft.recipe.evaluation import CHARACTERS_OF_A_SENTENCE
from lingraft.rundir import fingerprint
from lingraft.tasks import choice_metrics
from lingraft.tasks import choices as asking
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.documents import before

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from transformers import PreTrainedTokenizerFast

    from lingraft.evaluation.records import Blocks
    from lingraft.recipe import Evaluation, Recipe
    from lingraft.rundir import Stage
    from lingraft.tasks.choice_metrics import Answered
    from lingraft.tasks.choices import Question

logger = logging.getLogger(__name__)

FORM = "documents by characters in windows that begin as texts"
"""Part of the fingerprint of what is judged; other words make all of it again."""


@dataclass(frozen=True)
class Judged:
    """A causal model ready to be judged."""

    scorer: Scorer
    tokenizer: PreTrainedTokenizerFast
    context: int
    """Tokens that it reads at once here: of a run, as many as in training."""

    @classmethod
    def load(
        cls, name: str, precision: str, context: int | None = None, revision: str | None = None
    ) -> Judged:
        """A checkpoint.

        Args:
            name: directory or Hub id.
            precision: auto, bf16 or fp32.
            context: tokens that are read at once; None takes all that it can read.
            revision: on the Hub.

        Raises:
            DataError: there is none, it is broken, or is no causal model.
        """
        config = load_config(name, revision)
        tokenizer = tokenizer_files.load(name, revision)
        ids = TokenIds.of(tokenizer, "causal")
        scorer = Scorer.load(name, ids.pad, precision, "causal", revision)
        usual = max(context or 0, USUAL_LENGTH)
        longest = check_longest(name, longest_text(config, ids.pad, usual))
        return cls(scorer, tokenizer, min(longest, context or longest))


def on_text(model: Judged, texts: Sequence[str], new: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Score whole documents.

    Args:
        model: any causal model.
        texts: the documents.
        new: ids of its pieces that are new; empty for a model with the source's own vocabulary.

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
        "pieces": pieces.by_piece(text, scores, new),
        "targets": np.concatenate([item.targets for item in text.tokens.items]),
        "blocks": {
            likelihood.SCHEME: scores.blocks(),
            "likelihood": likelihood.likelihood_blocks(text, scores),
        },
    }


def judge(
    model: Judged, section: Evaluation, texts: Mapping[str, Sequence[str]], partial: Path, name: str
) -> dict[str, Any]:
    """What else a causal model is judged by: kept texts, questions, what it generates.

    Args:
        model: the run's, or the source.
        section: what is asked for.
        texts: the test documents of each stream; samples go on with the first's.
        partial: takes the answers, one file for each file of questions.
        name: what the names of these files begin with.

    Returns:
        kept, choices, speeds and generated, each where it is asked for; `blocks` of the first two.
    """
    result: dict[str, Any] = {"blocks": {}}
    own, none = list(next(iter(texts.values()))), np.zeros(0, np.int64)
    for path in section.kept:
        text_scores = on_text(model, texts_of([path], section.sentences), none)
        title = Path(path).name
        summary = {key: text_scores[key] for key in ("text", "likelihood")}
        result.setdefault("kept", {})[title] = summary
        result["blocks"][f"kept/{title}"] = text_scores["blocks"]["likelihood"]
    for choices in section.choices:
        scores, answers = choose(model, choices)
        choice_metrics.write(partial / choice_metrics.file_name(choices.title, name), answers)
        result.setdefault("choices", {})[choices.title] = scores
        result["blocks"][f"choices/{choices.title}"] = blocks_of(answers)
    if section.generated:
        stock = model.scorer.model
        speeds = generated.speeds(stock, model.tokenizer, own, section.generated, model.context)
        result["speeds"] = [asdict(speed) for speed in speeds]
        if section.samples:
            result["generated"] = generated.samples(
                stock,
                model.tokenizer,
                generated.beginnings(own, section.samples),
                section.generated,
                model.context,
                section.seed,
            )
    return result


def untouched(
    recipe: Recipe, texts: Mapping[str, Sequence[str]], context: int, partial: Path
) -> dict[str, Any] | None:
    """The source as it is, judged by the same; None where there is none or it is not asked for.

    Args:
        recipe: names the source.
        texts: the test documents of each stream.
        context: tokens that are read at once, as the run's model does.
        partial: takes the answers.

    Returns:
        As `judge`, and for each stream, under `streams`, as `on_text`.
    """
    section, source = recipe.evaluation, recipe.source
    if not section.untouched or source.model is None:
        return None
    model = Judged.load(source.model, recipe.training.precision, context, source.revision)
    none = np.zeros(0, np.int64)
    scores = {name: on_text(model, of_stream, none) for name, of_stream in texts.items()}
    for of_stream in scores.values():
        del of_stream["targets"]
    return judge(model, section, texts, partial, choice_metrics.UNTOUCHED) | {"streams": scores}


def check_choices(recipe: Recipe, vocabulary: Stage) -> None:
    """Refuse, before anything trains, questions that could not be asked of the model behind it.

    Args:
        recipe: with the files of questions, and the source where that is asked too.
        vocabulary: of the run, made.

    Raises:
        DataError: a file is broken, or a choice cannot be scored.
    """
    section, source = recipe.evaluation, recipe.source
    if not section.choices:
        return
    longest = int(vocabulary.result()["max_tokens"])
    tokenizers = [tokenizer_files.load(str(vocabulary.path))]
    if section.untouched and source.model is not None:
        tokenizers.append(tokenizer_files.load(source.model, source.revision))
    for choices in section.choices:
        questions = asking.read(path_of(choices.file), choices.shape)
        for tokenizer in tokenizers:
            answering.check(tokenizer, questions, longest)


def choose(
    model: Judged, choices: Choices, limit: int | None = None
) -> tuple[dict[str, Any], list[Answered]]:
    """Answer a file of questions.

    Args:
        model: any causal model.
        choices: the file and its shape.
        limit: at most the first so many questions.

    Returns:
        Scores as `choice_metrics.metrics` with shape, `cut` (choices whose context lost its start)
        and `text` (fingerprint of what is asked); and the answers.

    Raises:
        DataError: the file is broken, or a choice cannot be scored.
    """
    questions: list[Question] = asking.read(path_of(choices.file), choices.shape, limit)
    result = answering.answer(model.scorer, model.tokenizer, questions, model.context)
    if result.cut:
        logger.warning(
            "%s: %s choices have more tokens with their context than the %s that are read at once; "
            "contexts lost their start",
            choices.file,
            f"{result.cut:,}",
            f"{model.context:,}",
        )
    about = {
        "shape": asking.shape_named(choices.shape or asking.PLAIN).name,
        "cut": result.cut,
        "text": choice_metrics.asked(questions),
    }
    return choice_metrics.metrics(result.answers) | about, result.answers


def blocks_of(answers: Sequence[Answered]) -> dict[str, Blocks]:
    """Right answers and questions by block, those of one context together."""
    where = np.array([int(answer.context, 16) * BLOCKS >> 64 for answer in answers])
    counts = np.bincount(where, minlength=BLOCKS).tolist()
    return {
        metric: [
            [float(right), float(count)]
            for right, count in zip(
                np.bincount(where, choice_metrics.right(answers, metric), BLOCKS),
                counts,
                strict=True,
            )
        ]
        for metric in choice_metrics.METRICS
    }


def spread_over(texts: Sequence[str], sentences: int) -> list[str]:
    """Some of a text's documents, spread evenly, whatever the tokenizer is; one at least.

    Args:
        texts: all documents.
        sentences: as many documents as hold so many times `CHARACTERS_OF_A_SENTENCE` characters,
            but no more than so many.
    """
    mean = sum(map(len, texts)) / len(texts)
    number = int(min(sentences, sentences * CHARACTERS_OF_A_SENTENCE / mean, len(texts)))
    spread = np.linspace(0, len(texts) - 1, max(1, number)).astype(np.int64)
    return [texts[index] for index in spread]


def texts_of(names: Sequence[str], sentences: int) -> list[str]:
    """Documents of files, from their start, until they hold about so many sentences.

    A document of a .txt file is a block between empty lines.

    Args:
        names: files or directories, as in a recipe.
        sentences: so many times `CHARACTERS_OF_A_SENTENCE` characters are read.

    Raises:
        DataError: one cannot be read, or there is no text.
    """
    section, reading = Corpus(text=tuple(names), document="block"), Reading()
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
