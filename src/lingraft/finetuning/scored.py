"""From what a finished seed left on disk to its rows of results.jsonl; no torch."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError, RecipeError
from lingraft.evaluation.records import BLOCKS
from lingraft.finetuning import outcomes
from lingraft.finetuning.names import language_of, unsized, without_language
from lingraft.report.row import RESULTS, Blocks, Score, Value, read, write
from lingraft.report.scored import jackknife
from lingraft.rundir import digest
from lingraft.tasks import TASKS
from lingraft.tasks.definition import decode, task_of
from lingraft.tasks.examples import align, document
from lingraft.tasks.weighted import on_all

if TYPE_CHECKING:
    from lingraft.finetuning.outcomes import Outcome
    from lingraft.tasks import Task
    from lingraft.tasks.examples import Example

TOLERANCE = 0.01
"""Points by which a score made anew may differ from the saved one."""


def rows_of(outcome: Outcome, folder: Path | None = None) -> list[Score]:
    """Return all scores of a seed; those that papers report with blocks.

    Args:
        outcome: of the seed.
        folder: of the results, which the rows name the seed's place in.

    Raises:
        DataError: examples or predictions are missing, or the task is not known.
    """
    data, languages = outcome.data, outcome.languages
    facts: dict[str, Any] = {
        "weights": outcome.model_fingerprint,
        "splits": outcome.split_note,
        "dev": data.get("best", {}).get("score"),
        "learning_rate": data["settings"].get("learning_rate"),
        "train_examples": data.get("train_examples"),
        "seconds": round(float(data.get("seconds", 0.0)), 2),
        "place": str(outcome.folder.relative_to(folder)) if folder else "",
    }
    rows = []
    for split in outcome.splits:
        axes: dict[str, Value] = {}
        name, scores = outcome.task, outcome.scores(split)
        if languages is not None:
            tag = language_of(split)
            name = languages.names.get(tag, f"{languages.task}-{tag}")
            axes = {"task": languages.task, "train": "+".join(languages.train), "language": tag}
        shown = outcome.shown if split in outcome.evaluation else ()
        blocks = _blocks(outcome, split) if shown else {}
        masks = digest(outcomes.existing(outcome.folder / f"examples-{split}.jsonl"))[:16]
        rows += [
            Score(
                model=outcome.model_label,
                data=name,
                split=without_language(split) if languages else split,
                metric=metric,
                value=value,
                n=outcome.n(split),
                seed=outcome.seed,
                masks=masks,
                reported=metric in shown,
                inputs=outcome.fingerprint,
                axes=axes,
                facts={key: value for key, value in facts.items() if value not in (None, "")},
                blocks=blocks.get(metric),
            )
            for metric, value in scores.items()
        ]
    return rows


def write_results(folder: Path) -> None:
    """Bring results.jsonl to all finished seeds; without one there is none."""
    if any(folder.glob(outcomes.FINISHED)):
        write(folder / RESULTS, rows_in(folder))
    else:
        (folder / RESULTS).unlink(missing_ok=True)


def rows_in(folder: Path) -> list[Score]:
    """Return the rows of all finished seeds; what results.jsonl has of them is not made again.

    Raises:
        DataError: no seed is finished, or a file is broken.
    """
    path, known = folder / RESULTS, dict[str, list[Score]]()
    for row in read(path) if path.is_file() and not outcomes.is_older(path) else ():
        known.setdefault(f"{row.facts.get('place')} {row.inputs}", []).append(row)
    rows = []
    for outcome in outcomes.outcomes(folder):
        place = outcome.folder.relative_to(folder)
        own = known.get(f"{place} {outcome.fingerprint}", [])
        reported = {(row.split, row.metric) for row in own if row.reported}
        asked = {(without_language(split) if outcome.languages else split, metric)
                 for split in outcome.evaluation for metric in outcome.shown}  # fmt: skip
        rows += own if reported == asked else rows_of(outcome, folder)
    return rows


def task_in(outcome: Outcome, split: str) -> Task:
    """Return a benchmark's task, or the user's own as the results have it; in its language.

    Raises:
        DataError: it is not known, or its saved definition is broken.
    """
    name, definition = outcome.task, outcome.task_definition
    if languages := outcome.languages:
        language = language_of(split)
        name = languages.names.get(language, name)
        definition = languages.definitions.get(language)
    if definition is None:
        if unsized(name) in TASKS:
            return TASKS[unsized(name)]
        raise DataError(
            f"{outcome.folder}: lingraft has no task {name}, and its scores.json has no "
            "task_definition, as one of your own would; fine-tune it again"
        )
    try:
        return task_of(decode(dict(definition)), Path(), read_tags=False)
    except RecipeError as error:
        raise DataError(
            f"task {name}: its saved definition is broken ({error}); fine-tune it again"
        ) from None


def block_of(example: Example) -> int:
    """Return the block that an example falls into, by the hash of its document."""
    text = document(example).encode("utf-8", "surrogatepass")
    return int(hashlib.blake2b(text, digest_size=8).hexdigest(), 16) * BLOCKS >> 64


def _blocks(outcome: Outcome, split: str) -> dict[str, Blocks]:
    """Return blocks of a split that is reported, by score.

    Raises:
        DataError: predictions are missing, of another kind than the task, or do not give the saved
            scores.
    """
    task, saved = task_in(outcome, split), outcome.scores(split)
    examples, said = outcomes.examples(outcome, split), outcomes.predictions(outcome, split)
    functions = task.score_functions(examples, align(examples, said))
    shown = {key: functions[key] for key in outcome.shown if key in functions}
    for key, value in on_all(shown, len(examples)).items():
        if key not in saved or abs(value - saved[key]) > TOLERANCE:
            says = f"{saved[key]:.2f}" if key in saved else "nothing of it"
            raise DataError(
                f"{outcome.folder}: the saved predictions give {key} {value:.2f}, scores.json says "
                f"{says}; delete the folder and fine-tune this seed again"
            )
    return jackknife([block_of(one) for one in examples], shown, saved)
