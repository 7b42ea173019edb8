"""A vocabulary, or a source with another vocabulary, without a run and without training."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.corpus import streams
from lingraft.errors import RecipeError
from lingraft.files import removed_on_failure
from lingraft.models import export
from lingraft.models.embeddings import INITIALIZERS
from lingraft.pipeline import preflight, stages
from lingraft.pipeline.grafting import Grafting
from lingraft.pipeline.model_kinds import for_model_kind
from lingraft.pipeline.phase_data import initializer_sentences
from lingraft.pretrained.load import load_config, quiet_transformers
from lingraft.recipe import catalogue
from lingraft.recipe.base import learns_vectors
from lingraft.recipe.decoding import assignments, decode, override
from lingraft.recipe.defaults import vocabulary_for
from lingraft.recipe.streams import named_texts
from lingraft.rundir import Run
from lingraft.tokenizer import files as tokenizer_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from lingraft.pipeline.grafted import GraftReport
    from lingraft.recipe import Recipe

logger = logging.getLogger(__name__)

NO_TEXT = "no text"
"""Stands where a recipe names its text; nothing reads it."""
USED = ("source", "language", "corpus", "streams", "tokenizer", "graft", "embeddings", "seed")
"""Tables and keys of a recipe that decide what a model starts as."""


def graft(
    source: str,
    tokenizer: str | PreTrainedTokenizerFast | None,
    text: Sequence[str],
    *,
    language: str | None = None,
    init: str = "focus",
    vocab_size: int | None = None,
    settings: Mapping[str, Any] | Sequence[str] = (),
) -> tuple[PreTrainedModel, PreTrainedTokenizerFast, GraftReport]:
    """Give a source another vocabulary, with the graft stage's own code; train nothing.

    Args:
        source: folder, Hub id, or a name of `lingraft show models`.
        tokenizer: folder, Hub id, or the tokenizer itself; None trains one on `text`.
        text: files, folders or hub:DATASET, or LANGUAGE=PATH each; cleaned as a run cleans it.
        language: of the text; None: not known.
        init: initializer of the new rows.
        vocab_size: pieces of the vocabulary that is trained; None: by the size of the text.
        settings: of a recipe's [source], [corpus], [tokenizer], [graft] and [embeddings].

    Returns:
        The model, in fp32 on the CPU, its tokenizer and what became of each tensor and row.

    Raises:
        LingraftError: whatever the caller can mend, on one line.
    """
    with tempfile.TemporaryDirectory(prefix="lingraft-") as folder:
        run = Run(Path(folder))
        tables: dict[str, Any] = {
            "tokenizer": _tokenizer(tokenizer, run),
            "graft": {"inserted_before": 0, "inserted_after": 0},
            "embeddings": {"init": init},
        }
        recipe = _recipe(source, text, language, vocab_size, tables, settings)
        ours = _vocabulary(recipe, run)
        plan = Grafting(
            recipe,
            stages.source_tokenizer(recipe),
            ours,
            lambda: initializer_sentences(recipe, run),
            lambda purpose: stages.seed_for(recipe.seed, purpose),
        )
        model, report = plan.build()
    for note in report.notes:
        logger.info("graft: %s", note)
    return model.eval(), ours, report


def train_tokenizer(
    text: Sequence[str],
    *,
    like: str,
    language: str | None = None,
    vocab_size: int | None = None,
    settings: Mapping[str, Any] | Sequence[str] = (),
) -> PreTrainedTokenizerFast:
    """Train a tokenizer as a run does: on text that is cleaned, for a model of `like`'s kind.

    The arguments are those of `graft`; `like` is the source.

    Raises:
        LingraftError: whatever the caller can mend, on one line.
    """
    if not text:
        raise RecipeError("train_tokenizer: text names no file; name at least one")
    with tempfile.TemporaryDirectory(prefix="lingraft-") as folder:
        run, tables = Run(Path(folder)), {"embeddings": {"init": "random"}}
        return _vocabulary(_recipe(like, text, language, vocab_size, tables, settings), run)


def save(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    report: GraftReport,
    folder: Path,
    source: str,
) -> None:
    """Write a checkpoint that stock transformers loads, prove that it does, and its report.

    Its numbers are stored as those of the source's files.

    Raises:
        DataError: it cannot be written, or what was written is not the model.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with removed_on_failure(folder):
        export.write_model(model, folder, export.dtype_of(load_config(catalogue.resolve(source))))
        tokenizer_files.save(tokenizer, folder)
        export.check_reload(model, folder)
        report.save(folder)


def _tokenizer(tokenizer: str | PreTrainedTokenizerFast | None, run: Run) -> dict[str, Any]:
    """Return the table of a tokenizer that exists; an empty one where it is to be trained."""
    if tokenizer is None:
        return {}
    if not isinstance(tokenizer, str):
        folder = run.path / "given"
        tokenizer_files.save(tokenizer_files.fast(tokenizer), folder)
        tokenizer = str(folder)
    return {"action": "use", "model": tokenizer}


def _recipe(
    source: str,
    text: Sequence[str],
    language: str | None,
    vocab_size: int | None,
    tables: dict[str, Any],
    settings: Mapping[str, Any] | Sequence[str],
) -> Recipe:
    """Return the recipe of a graft, as its source's kind of model needs it.

    Raises:
        RecipeError: a setting is of something else, or the size of a vocabulary is not trained.
    """
    quiet_transformers()
    paths = list(text) or [NO_TEXT]
    texts = named_texts(paths, language) or named_texts(paths, "und")  # nobody gave the language
    given = [*assignments(settings), *assignments({"tokenizer.vocab_size": vocab_size})]
    data = override({"source": {"model": catalogue.resolve(source)}} | texts | tables, given)
    if idle := [key for key in data if key not in USED]:
        raise RecipeError(f"{idle[0]}: decides nothing here; settings are of {', '.join(USED)}")
    recipe = decode(data, "graft")
    return for_model_kind(recipe, stages.source_family(recipe.source))


def _vocabulary(recipe: Recipe, run: Run) -> PreTrainedTokenizerFast:
    """Clean the text, where there is any, and return the target's tokenizer.

    Args:
        recipe: of the graft.
        run: takes the text, in the folder of the corpus stage, and the tokenizer.
    """
    text, folder = run.stage("corpus").path, run.stage("tokenizer").path
    if recipe.texts[0].corpus.text == (NO_TEXT,):
        rows = recipe.embeddings
        reads = [
            name
            for name in rows.initializers
            if INITIALIZERS[name].runs_model or learns_vectors(rows, name)
        ]
        if reads or recipe.tokenizer.action not in ("use", "keep"):
            raise RecipeError(
                "graft: give text (--text), or both a tokenizer (--tokenizer) and an init that "
                "reads none, such as mean or match"
            )
        preflight.check_words(recipe)
        stages.check_tokenizers(recipe)
    else:
        preflight.check(recipe, download=True)
        text.mkdir()
        characters = streams.prepare(recipe, text)["splits"]["train"]["characters"]
        if "vocab_size" not in recipe.tokenizer.model_fields_set:
            update = {"vocab_size": vocabulary_for(characters)}
            section = recipe.tokenizer.model_copy(update=update)
            recipe = recipe.model_copy(update={"tokenizer": section})
    made, _ = stages.make_tokenizer(recipe, stages.source_tokenizer(recipe), text)
    tokenizer_files.save(made, folder)
    made = tokenizer_files.load(folder)
    made.name_or_path = ""
    return made
