"""What a task of translation asks for before its training: a new language code, and more pairs.

A code gets a row of its own. Raw text in the target language is translated back by a model that
learns the pairs in both directions first, and which then goes on with these pairs too.
"""

from __future__ import annotations

import difflib
import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from lingraft.errors import DataError, RecipeError, UnsupportedModelError
from lingraft.finetuning import data as task_data, heads
from lingraft.models.encoder_decoder import translate, write_lines
from lingraft.pretrained.checkpoints import weights_fingerprint
from lingraft.pretrained.load import load_model
from lingraft.pretrained.tokenizers import load_tokenizer
from lingraft.processes import check_one_process
from lingraft.rundir import Step, fingerprint
from lingraft.tasks import reading
from lingraft.tasks.examples import DirectedExample, TranslationExample
from lingraft.tasks.splits import DEV, TRAIN
from lingraft.tokenizer.frame import languages, spelt
from lingraft.tokenizer.new_code import with_code

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from lingraft.finetuning.task_runs import TaskRun

logger = logging.getLogger(__name__)

FOLDER = "new-language"
"""In OUT: the model with its code, the training of the back-translator, the back-translations."""
MEAN = "mean"
FEWEST_PAIRS = 100
"""That a model can learn to translate back from."""


def prepare(run: TaskRun, out: Path, train: Callable[[TaskRun, Path], Path]) -> TaskRun:
    """Return a task run whose model has the new code, and whose pairs have the back-translations.

    Args:
        run: of any task; most ask for neither.
        out: the folder of the results.
        train: fine-tunes a task run with its results in a folder; returns that of the best weights.

    Raises:
        LingraftError: the code cannot be added, or the text cannot be translated back.
    """
    table, place = run.task.table, out / FOLDER / run.place
    if table.new_code is not None:
        run = replace(run, folder=_with_new_code(run, table.new_code, place / "model"))
    return run if table.raw is None else _with_raw_text(run, Path(table.raw), place, train)


def _with_new_code(run: TaskRun, like: str, folder: Path) -> Path:
    """Write the model with a row for the one of the task's codes that it lacks."""
    step, codes = Step(folder), run.task.table.codes or ()
    made_of = (weights_fingerprint(run.folder), heads.settings_fingerprint(run.folder))
    if step.is_done(mark := fingerprint(*made_of, codes, like)):
        return folder
    tokenizer = heads.tokenizer_for(run.folder, run.task)
    known, where = languages(tokenizer), f"{run.task.name}: new_code"
    if not known:
        raise UnsupportedModelError(f"{where}: '{run.model}' has no language codes; leave it out")
    new = [code for code in codes if code not in known]
    if len(new) != 1:
        raise RecipeError(
            f"{where}: '{run.model}' has {2 - len(new)} of the two codes {codes}; new_code adds "
            "one: leave it out if both are there, and spell the known one as the tokenizer does"
        )
    if like not in (MEAN, *known):
        near = difflib.get_close_matches(like, known, 3, 0.0)
        raise RecipeError(f"{where}: {like!r} is no code; give '{MEAN}', {', '.join(near)} …")
    grown: Any = with_code(tokenizer, new[0])
    row, token = languages(grown)[new[0]], spelt(grown, new[0])
    model: Any = load_model(heads.HEADS["translation"], str(run.folder))[0]
    if row >= len(model.get_input_embeddings().weight):
        model.resize_token_embeddings(row + 1, mean_resizing=False)
    with step.building(mark) as (partial, _), torch.no_grad():
        for part in (model.get_input_embeddings(), model.get_output_embeddings()):
            rows = [known[like]] if like != MEAN else list(known.values())
            part.weight[row] = part.weight[rows].mean(0)
        heads.save(model, grown, partial)
        stock: Any = load_tokenizer(str(partial))
        stock.src_lang = token
        if row not in stock("a")["input_ids"]:
            raise UnsupportedModelError(
                f"{where}: {type(stock).__name__} of transformers does not read {token} again"
            )
    logger.info("%s: %s is row %d, as %s; stock src_lang is %r", where, new[0], row, like, token)
    return folder


def _turned(pair: Any) -> TranslationExample:
    return TranslationExample(pair.id, pair.translation, pair.text)


def _directed(
    pairs: Iterable[TranslationExample], codes: tuple[str, str]
) -> list[TranslationExample]:
    return [DirectedExample(pair.id, pair.text, pair.translation, codes=codes) for pair in pairs]


def _with_data(run: TaskRun, splits: Mapping[str, Any], **changes: Any) -> TaskRun:
    data = replace(
        run.data, splits=splits, evaluation=changes.pop("evaluation", run.data.evaluation)
    )
    return replace(run, data=data, data_fingerprint=task_data.fingerprint_of(data), **changes)


def _with_raw_text(
    run: TaskRun, path: Path, place: Path, train: Callable[[TaskRun, Path], Path]
) -> TaskRun:
    """Train in both directions, translate the text back, and go on from there with all pairs."""
    check_one_process("raw", "start it without torchrun or accelerate launch")
    task, codes = run.task, run.task.table.codes
    raw = [line.strip() for line in reading.lines(path) if line.strip()]
    pairs: Any = run.data.splits[TRAIN]
    others = [pair for pair in pairs if isinstance(pair, DirectedExample)]
    own = [pair for pair in pairs if not isinstance(pair, DirectedExample)]
    if not raw or len(own) < FEWEST_PAIRS:
        raise DataError(
            f"{task.name}: raw: {len(raw):,} sentences and {len(own):,} pairs; translating back "
            f"is learnt from at least {FEWEST_PAIRS} pairs, so add some or leave raw out"
        )
    ways = [_directed(own, codes), _directed(map(_turned, own), codes[::-1])] if codes else [[], []]
    table = task.table.model_copy(update={"codes": codes and codes[::-1], "language": "und"})
    scores: Any = {"metrics": ("chrf",), "selection": "chrf", "headline": ()}
    back = replace(task, table=table, **scores)
    splits: dict[str, Any] = {TRAIN: [*map(_turned, own), *ways[0], *others]}
    splits |= {DEV: [_turned(pair) for pair in run.data.splits[DEV]]}
    best = train(_with_data(run, splits, task=back, evaluation=(DEV,)), place / "back")
    coder: Any = heads.coder_for(best, back)
    model: Any = heads.build(best, back, coder.shape.tokenizer, 0)
    coder.adapt(model)
    made_of = fingerprint(weights_fingerprint(best), raw, coder.shape.max_length)
    out = place / f"back-translations-{made_of}.txt"
    if not out.is_file():
        limits = {"beams": 1, "max_new_tokens": coder.shape.max_length}
        write_lines(
            raw,
            lambda texts, done: translate(model, coder.reader, texts, on_batch=done, **limits),
            out,
            made_of,
            f"{task.name}: translate back",
        )
    made = zip(reading.lines(out), raw, strict=True)
    language = task.table.language
    synthetic = [
        TranslationExample(f"raw-{number}", text, line, language)
        for number, (text, line) in enumerate(made)
        if text
    ]
    logger.info("%s: %d back-translations beside %d pairs", task.name, len(synthetic), len(pairs))
    splits = {**run.data.splits, TRAIN: [*pairs, *ways[1], *synthetic]}
    return _with_data(run, splits, folder=best if codes else run.folder)
