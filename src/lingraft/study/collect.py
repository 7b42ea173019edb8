"""From the folder of a finished step to its rows of results.jsonl."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.evaluation import records
from lingraft.evaluation.records import BLOCKS
from lingraft.finetuning import outcomes
from lingraft.finetuning.recipe import decode_finetune, tasks_of
from lingraft.report import variants
from lingraft.report.row import Blocks, Score
from lingraft.rundir import read_json
from lingraft.stats import FEWEST_BLOCKS
from lingraft.study.analysis import BITS, PERPLEXITY
from lingraft.study.rows import AnyRow, CurveRow, EndRow, MetricRow, TaskRow
from lingraft.tasks.examples import align, document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.finetuning.outcomes import Outcome
    from lingraft.report.variants import PhaseRecord, Variant
    from lingraft.rundir import Run
    from lingraft.study.rows import Value
    from lingraft.tasks import Task
    from lingraft.tasks.examples import Example, Prediction

Rows = list[AnyRow]
LONGEST_CURVE = 100
"""Points; a longer curve is averaged over neighbours."""
MACHINE_KEYS = ("cpu", "cores", "threads", "processes", "precision")
BLOCK_NAMES = {"perplexity": "loss"}
"""Metrics whose blocks stand under another name."""


def machine_of(environment: dict[str, Any]) -> dict[str, Value]:
    """What a row tells of the machine."""
    return {
        "device": ", ".join(dict.fromkeys(map(str, environment.get("devices", ())))),
        **{key: environment[key] for key in MACHINE_KEYS if key in environment},
    }


def training(common: dict[str, Any], run: Run) -> Rows:
    """The rows of a cell that was trained and evaluated.

    Args:
        common: fields of every row.
        run: the cell's folder.
    """
    (variant, *_) = variants.variants(run)
    evaluation = run.stage("evaluation").result()
    phases = {phase.name: phase.result or {} for phase in variant.phases}
    metrics = [
        MetricRow(
            **common,
            **score.model_dump(exclude={"blocks"}),
            blocks=_blocks(evaluation, score.metric),
            seed=variant.recipe.seed,
            tokens=variant.tokens or 0,
            seconds=variant.seconds or 0.0,
            words=_words(run, variant.recipe.texts[0].prefix) if score.metric == BITS else None,
        )
        for score in variants.scores(variant)
    ]
    curves = _curves(common, variant)
    environment, stages = variant.environment or {}, ("graft", *phases, "evaluation")
    form: dict[str, Value] = {"evaluation": f"form {evaluation.get('form', 2)}"}
    end = EndRow(
        **common,
        status="done",
        seconds=round(sum(run.stage(name).done()["seconds"] for name in stages), 2),
        tokens=variant.tokens or 0,
        parameters=int(run.stage("graft").result()["parameters"]["total"]),
        trained_parameters={
            name: int(result["trainable_parameters"]) for name, result in phases.items()
        },
        machine=machine_of(environment) | form,
        versions={
            key: str(environment[key]) for key in variants.VERSION_KEYS if key in environment
        },
    )
    return [*metrics, *curves, end]


def _blocks(evaluation: dict[str, Any], metric: str) -> Blocks | None:
    """The sums by block behind a metric; of a stream only where a table compares it."""
    if metric.startswith(variants.STREAM):
        _, stream, metric = metric.split("/", 2)
        if metric not in (BITS, PERPLEXITY):
            return None
        evaluation = evaluation["streams"][stream]
    scheme, slash, name = metric.rpartition("/")
    pairs = (
        evaluation.get("blocks", {})
        .get(scheme if slash else "words", {})
        .get(BLOCK_NAMES.get(name, name))
    )
    return None if pairs is None else tuple((float(total), float(n)) for total, n in pairs)


def _words(run: Run, prefix: str) -> Blocks:
    words = records.read(run.stage("evaluation").path / f"{prefix}{records.WORDS_FILE}")
    return tuple(
        (records.rounded(word.nats / math.log(2)), float(word.characters if word.scored else 0))
        for word in words
    )


def _curves(common: dict[str, Any], variant: Variant) -> list[CurveRow]:
    """Losses by phase over the tokens since the start of the first phase."""
    curves = []
    before = 0
    for phase in variant.phases:
        sizes, of_target = _sizes(variant, phase), _target_loss(variant, phase)
        for split, series in (("train", phase.train), ("valid", phase.valid)):
            loss = of_target if split == "valid" else "loss"
            points = [(before + int(row["tokens"]), float(row[loss])) for row in series]
            if points:
                thinned = _thinned(points)
                curves.append(
                    CurveRow(**common, phase=phase.name, split=split, points=thinned, **sizes)  # type: ignore[arg-type]
                )
        before += phase.tokens or 0
    return curves


def _is_causal(variant: Variant) -> bool:
    return variants.kind_of(variant.result("evaluation")) == "causal"


def _target_loss(variant: Variant, phase: PhaseRecord) -> str:
    """The column of a phase's looks: of a causal model that reads several texts its first one's.

    The others, which may be replayed text of the source's language, are no part of what the model
    is judged by.
    """
    first = variant.recipe.texts[0].name
    labels = [label for label in (phase.result or {}).get("streams") or {} if _is_causal(variant)]
    return next((f"loss/{label}" for label in labels if label.split("/")[0] == first), "loss")


def _sizes(variant: Variant, phase: PhaseRecord) -> dict[str, float]:
    """How long a token of a causal model is; of other models nothing, whose loss is of masks.

    In characters a token of what the phase read, of all streams as they were drawn; in bytes one of
    the first stream's held-out text. Nothing of a run so old that it has not counted what it drew.
    """
    if not _is_causal(variant):
        return {}
    result = variant.result("tokenizer") or {}
    streams = (phase.result or {}).get("streams") or {}
    if any("tokens" not in stream for stream in streams.values()):
        return {}
    tokens = {label.split("/")[0]: stream["tokens"] for label, stream in streams.items()}
    texts = {name: result["streams"][name] for name in tokens} if tokens else {"": result}
    total = sum(tokens.values())
    characters = sum(
        float(text["statistics"]["train"]["characters_per_token"])
        * (tokens[name] / total if total else 1.0)
        for name, text in texts.items()
    )
    measured = result["statistics"]["test"]
    return {
        "characters_per_token": characters,
        "bytes_per_token": float(measured["bytes_per_token"]),
    }


def _thinned(points: Sequence[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """At most LONGEST_CURVE points, six digits each; first and last stay as they are."""
    first, *middle = points
    last = [middle.pop()] if middle else []
    size = -(-len(middle) // (LONGEST_CURVE - 2)) or 1
    groups = [middle[start : start + size] for start in range(0, len(middle), size)]
    means = [
        (round(sum(t for t, _ in group) / len(group)), sum(y for _, y in group) / len(group))
        for group in groups
    ]
    return tuple((t, float(f"{y:.6g}")) for t, y in (first, *means, *last))


# -- fine-tuning


def fine_tunings(common: dict[str, Any], run: Run, job: dict[str, Any], failure: str) -> Rows:
    """Return the rows of a task's fine-tunings.

    Args:
        common: fields of every row.
        run: the cell's folder.
        job: what was asked for.
        failure: why seeds have no result.
    """
    recipe = decode_finetune(job["recipe"] | {"models": ["cell"]})
    (task,) = tasks_of(recipe, Path())
    found: Rows = []
    for seed in job["seeds"]:
        own = common | {"task": task.name, "task_fingerprint": job["fingerprint"], "seed": seed}
        folder = run.path / "tasks" / "cell" / task.name / f"seed-{seed}"
        if (folder / outcomes.SCORES).is_file():
            found.append(_fine_tuning(own, folder, task))
        else:
            message = f"task {task.name}, seed {seed}: {failure}"
            found.append(TaskRow(**own, status="failed", message=message))
    return found


def _fine_tuning(common: dict[str, Any], folder: Path, task: Task) -> TaskRow:
    outcome = outcomes.Outcome(folder, read_json(folder / outcomes.SCORES))
    rules = outcome.rules(outcome.evaluation[0])
    return TaskRow(
        **common,
        status="done",
        scores=tuple(
            score for split in outcome.evaluation for score in scores(outcome, task, split)
        ),
        shown=tuple(
            _metric(outcome, split, name) for split in outcome.evaluation for name in task.shown
        ),
        splits=outcome.split_note,
        rules={rule: {key: of[key] for key in task.shown} for rule, of in rules.items()},
        train_examples=int(outcome.data["train_examples"]),
        seconds=round(float(outcome.data["seconds"]), 2),
        machine=machine_of(outcome.data["machine"]),
    )


def _metric(outcome: Outcome, split: str, name: str) -> str:
    """A score's name; of several splits (GLUE's MNLI) the later ones have theirs in it."""
    first = split == outcome.evaluation[0]
    return f"task/{outcome.task}/{name}" if first else f"task/{outcome.task}/{split}/{name}"


def scores(outcome: Outcome, task: Task, split: str) -> list[Score]:
    """Return all scores of a split; those that papers report with blocks."""
    examples = outcomes.examples(outcome, split)
    predictions = align(examples, outcomes.predictions(outcome, split))
    blocks = _jackknife(examples, predictions, task, outcome.scores(split)) if task.shown else {}
    digest = hashlib.blake2b(digest_size=8)
    for example in examples:
        digest.update(f"{example.id}\n{example.text}\n".encode("utf-8", "surrogatepass"))
    return [
        Score(
            metric=_metric(outcome, split, name),
            value=value,
            n=len(examples),
            masks=digest.hexdigest(),
            blocks=blocks.get(name) if name in task.shown else None,
        )
        for name, value in outcome.scores(split).items()
    ]


def block_of(example: Example) -> int:
    """The block that an example falls into, by the hash of its document."""
    text = document(example).encode("utf-8", "surrogatepass")
    return int(hashlib.blake2b(text, digest_size=8).hexdigest(), 16) * BLOCKS >> 64


def _jackknife(
    examples: Sequence[Example],
    predictions: Sequence[Prediction],
    task: Task,
    values: dict[str, float],
) -> dict[str, Blocks]:
    """Return values of blocks of the test set whose mean is the score, whatever it is.

    Resampling them stands for resampling the examples and scoring anew (Efron & Tibshirani 1993,
    An Introduction to the Bootstrap, chapter 11): a block is worth as much more than the mean as
    the score loses without it. Shares, not per cent.
    """
    present, place_N = np.unique([block_of(example) for example in examples], return_inverse=True)
    if len(present) < FEWEST_BLOCKS:
        return {}
    without_BN = (np.arange(len(present))[:, None] != place_N).astype(float)
    functions = task.score_functions(examples, predictions)
    shares = {}
    for name, value in values.items():
        left_B = functions[name](without_BN)
        worth_B = value + (len(present) - 1) * (left_B.mean() - left_B)
        blocks = [(0.0, 0.0)] * BLOCKS
        for block, worth in zip(present, worth_B.tolist(), strict=True):
            blocks[block] = (round(worth / 100, 9), 1.0)
        shares[name] = tuple(blocks)
    return shares
