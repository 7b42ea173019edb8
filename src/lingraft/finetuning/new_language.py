"""Prepare a task of translation before its training: a new language code, and more pairs.

A code gets a row of its own. Raw text in the target language is translated back by a model that
learns the pairs in both directions first, and which then goes on with these pairs too.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from lingraft.corpus.cleaning.decontamination import letters
from lingraft.devices import device_for
from lingraft.errors import DataError, RecipeError
from lingraft.finetuning import data as task_data, heads
from lingraft.models.encoder_decoder import translate, write_lines
from lingraft.pretrained.checkpoints import weights_fingerprint
from lingraft.pretrained.load import load_model
from lingraft.processes import check_one_process
from lingraft.rundir import Step, fingerprint
from lingraft.tasks import reading
from lingraft.tasks.examples import TranslationExample
from lingraft.tasks.splits import TRAIN
from lingraft.tokenizer.frame import languages, spelt, with_code

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from lingraft.finetuning.task_runs import TaskRun

    Train = Callable[[TaskRun, Path], Path]

logger = logging.getLogger(__name__)

FOLDER = "new-language"
"""In OUT: the model with its code, the training of the back-translator, the back-translations."""
MEAN = "mean"
FEWEST_PAIRS = 100
"""That a model can learn to translate back from."""


def prepare(run: TaskRun, out: Path, train: Train) -> TaskRun:
    """Return a task run whose model has the new code, and whose pairs have the back-translations.

    Args:
        run: of any task; most ask for neither.
        out: the folder of the results.
        train: fine-tunes a task run with its results in a folder; returns that of the best weights.

    Raises:
        LingraftError: the code cannot be added, or the text cannot be translated back.
    """
    table, place = run.task.table, out / FOLDER / run.place
    if table.new_code or table.raw:
        check_one_process("new_code and raw", "start it without torchrun or accelerate launch")
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
    known, problem = languages(tokenizer), ""
    new = [code for code in codes if code not in known]
    if not known:
        problem = "has no language codes; leave it out"
    elif len(new) != 1:
        problem = f"has {2 - len(new)} of the two codes {codes}; new_code adds one that it lacks"
    elif like not in (MEAN, *known):
        problem = f"has no {like!r}; give one of {', '.join((MEAN, *list(known)[:3]))} …"
    if problem:
        raise RecipeError(f"{run.task.name}: new_code: '{run.model}' {problem}")
    grown: Any = with_code(tokenizer, new[0])
    row, token = languages(grown)[new[0]], spelt(grown, new[0])
    model: Any = load_model(heads.HEADS["translation"], str(run.folder))[0]
    if row >= len(model.get_input_embeddings().weight):
        model.resize_token_embeddings(row + 1, mean_resizing=False)
    rows = [*known.values()] if like == MEAN else [known[like]]
    with step.building(mark) as (made, _), torch.no_grad():
        for part in (model.get_input_embeddings(), model.get_output_embeddings()):
            part.weight[row] = part.weight[rows].mean(0)
        heads.save(model, grown, made)
    logger.info("%s: row %d, from %s; src_lang of stock transformers: %s", new[0], row, like, token)
    return folder


def _turned(pairs: Iterable[Any], codes: tuple[str, str] | None = None) -> list[Any]:
    """Return the pairs of the task's direction in the other one."""
    return [
        replace(pair, text=pair.translation, translation=pair.text, codes=codes)
        for pair in pairs
        if not pair.codes
    ]


def _with_data(run: TaskRun, splits: Mapping[str, Any], **changes: Any) -> TaskRun:
    data = replace(run.data, splits=splits)
    return replace(run, data=data, data_fingerprint=task_data.fingerprint_of(data), **changes)


def _with_raw_text(run: TaskRun, path: Path, place: Path, train: Train) -> TaskRun:
    """Train in both directions, translate the text back, and go on from there with all pairs."""
    task, table = run.task, run.task.table
    splits: Any = run.data.splits
    held = {letters(pair.translation) for name in splits if name != TRAIN for pair in splits[name]}
    every = [line.strip() for line in reading.lines(path) if line.strip()]
    raw = [line for line in every if letters(line) not in held]
    if left := len(every) - len(raw):
        logger.warning("%s: raw: %d lines are answers of dev or test, left out", task.name, left)
    turned: dict[str, Any] = {name: _turned(examples) for name, examples in splits.items()}
    pairs, ways, codes = splits[TRAIN], None, table.codes
    if not raw or len(turned[TRAIN]) < FEWEST_PAIRS:
        told = f"{len(turned[TRAIN]):,} pairs and {len(raw):,} sentences to translate back"
        raise DataError(f"{task.name}: raw: {told}; give at least {FEWEST_PAIRS} pairs and a text")
    if codes is not None:
        ways = codes[::-1]
        turned[TRAIN] += [replace(pair, codes=pair.codes or codes) for pair in pairs]
    changes: Any = {"metrics": ("chrf",), "selection": "chrf", "headline": ()}
    changes["table"] = table.model_copy(update={"codes": ways, "language": "und"})
    back = replace(task, **changes)
    best = train(_with_data(run, turned, task=back), place / "back")
    coder: Any = heads.coder_for(best, back)
    longest, reader = coder.shape.max_length, coder.reader
    mark = fingerprint(weights_fingerprint(best), raw, longest)
    out = place / f"back-translations-{mark}.txt"
    if not out.is_file():
        model: Any = heads.build(best, back, coder.shape.tokenizer, 0)
        how = {"beams": 1, "max_new_tokens": longest}
        to_source = partial(translate, model.to(device_for()), reader, **how)
        write_lines(raw, to_source, out, mark, f"{task.name}: translate back")
    made = [
        TranslationExample(f"raw-{number}", text, line, table.language)
        for number, (text, line) in enumerate(zip(reading.lines(out), raw, strict=True))
        if text
    ]
    both = [*pairs, *(_turned(pairs, ways) if ways else ()), *made]
    return _with_data(run, {**splits, TRAIN: both}, folder=best if ways else run.folder)
