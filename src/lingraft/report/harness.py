"""Results of lm-evaluation-harness, read from the JSON that its `--output_path` writes.

The harness itself need not be installed. Its numbers stay as it has them (accuracies are shares,
not per cent), with the task's version, the number of examples in the prompt and its standard error.
What lies in RUN/lm-eval is found by itself.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError
from lingraft.report import numbers
from lingraft.report.table import Cell, Column, row, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lingraft.report.table import Table
    from lingraft.report.variants import Variant
    from lingraft.rundir import Run

FOLDER = "lm-eval"
"""In a run: what the harness wrote about its model (`lm_eval … --output_path RUN/lm-eval`)."""
STDERR = "_stderr"
NO_FILTER = "none"
UNHASHED = ""
ARROWS = {True: " ↑", False: " ↓", None: ""}


@dataclass(frozen=True)
class Result:
    """One number that the harness measured."""

    model: str
    """As it was called there: a Hub id or a folder."""
    task: str
    version: str
    """Of the task; empty where it has none."""
    shots: int | None
    """Examples in the prompt; None for groups of tasks."""
    metric: str
    filter: str
    value: float
    stderr: float | None
    n: int
    """How many documents; 0 where the file does not say."""
    higher: bool | None
    """Whether more is better."""
    fingerprint: str
    """Hash of the task's documents and prompts (with --log_samples), or `UNHASHED`."""
    date: float
    """Of the evaluation, seconds since 1970."""
    harness: str
    """The harness's own version."""
    is_old: bool = False
    """Whether it lies in a run whose model was made, or made anew, after the evaluation."""

    @property
    def name(self) -> str:
        """Of the metric, with the filter of the answers where there is one."""
        return self.metric if self.filter == NO_FILTER else f"{self.metric} ({self.filter})"

    @property
    def key(self) -> tuple[str, str, int, str]:
        """Equal for numbers of the same question."""
        return self.task, self.version, -1 if self.shots is None else self.shots, self.name


def read(path: Path) -> list[Result]:
    """The numbers of a results file, or of all in a folder; of a number measured twice the newest.

    Args:
        path: `results_….json`, or a folder that holds some at any depth.

    Raises:
        DataError: there is none, or it is no such file.
    """
    if path.is_dir():
        files = sorted({*path.rglob("results_*.json"), *path.rglob("results.json")})
        if not files:
            raise DataError(
                f"{path}: holds no results_….json of lm-evaluation-harness; name the folder that "
                "its --output_path wrote"
            )
    else:
        files = [path]
    newest: dict[tuple[Any, ...], Result] = {}
    for result in sorted((r for file in files for r in _read(file)), key=lambda r: r.date):
        newest[result.model, *result.key] = result
    return list(newest.values())


def _read(path: Path) -> list[Result]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: is no JSON ({' '.join(str(error).split())[:100]})") from None
    if not isinstance(data, dict) or not isinstance(data.get("results"), dict):
        raise DataError(
            f"{path}: has no 'results', so it is no results file of lm-evaluation-harness; give "
            "the results_….json that its --output_path wrote"
        )
    tables = {**data["results"], **(data.get("groups") or {})}
    try:
        return [r for task, values in tables.items() for r in _of_task(data, task, values)]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path}: is another form of results than lm-evaluation-harness writes "
            f"({type(error).__name__}: {error}); evaluate again with a version from 0.4 on"
        ) from None


def _of_task(data: Mapping[str, Any], task: str, values: Mapping[str, Any]) -> Iterable[Result]:
    """The numbers of a task: `METRIC,FILTER` beside `METRIC_stderr,FILTER`."""
    of_task = {
        key: (data.get(key) or {}).get(task)
        for key in ("versions", "n-shot", "n-samples", "higher_is_better", "task_hashes")
    }
    samples = of_task["n-samples"] or {}
    config = data.get("config") or {}
    version = of_task["versions"]
    version_text = "" if version is None or isinstance(version, str) else f"{version:g}"
    for name, value in values.items():
        metric, comma, filter_name = name.partition(",")
        if not comma or metric.endswith(STDERR) or not isinstance(value, int | float):
            continue
        stderr = values.get(f"{metric}{STDERR},{filter_name}")
        shots, higher = of_task["n-shot"], (of_task["higher_is_better"] or {}).get(metric)
        yield Result(
            model=_model(data, config),
            task=task,
            version=version if isinstance(version, str) else version_text,
            shots=None if shots is None else int(shots),
            metric=metric,
            filter=filter_name,
            value=float(value),
            stderr=float(stderr) if isinstance(stderr, int | float) else None,
            n=int(samples.get("effective", values.get("sample_len", 0))),
            higher=higher if isinstance(higher, bool) else None,
            fingerprint=str(of_task["task_hashes"] or UNHASHED),
            date=float(data.get("date") or 0.0),
            harness=str(data.get("lm_eval_version") or ""),
        )


def _model(data: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """What the model is called: the harness writes `model_name`, and its arguments."""
    arguments = config.get("model_args")
    if isinstance(arguments, dict):
        pretrained = arguments.get("pretrained")
    else:
        pairs = (part.partition("=") for part in str(arguments or "").split(","))
        pretrained = {key.strip(): value for key, _, value in pairs}.get("pretrained")
    return str(data.get("model_name") or pretrained or config.get("model") or "")


def of_run(run: Run) -> list[Result]:
    """What the harness measured of a run's model, where it lies in the run; else nothing.

    Raises:
        DataError: a file there is broken.
    """
    folder, made = run.path / FOLDER, run.stage("model").done_path
    if not folder.is_dir() or not any(folder.rglob("results*.json")):
        return []
    since = made.stat().st_mtime if made.is_file() else math.inf
    return [replace(result, is_old=result.date < since) for result in read(folder)]


def collect(variants: Sequence[Variant], paths: Sequence[Path] = ()) -> dict[str, list[Result]]:
    """Results by the label of the model: those in the runs, then those of files.

    Args:
        variants: labelled variants, whose runs are looked into. Where one holds results of several
            models, they are told apart as those of files.
        paths: results files or folders. A model that is that of a run has the run's label, any
            other the name that the harness gives it.

    Raises:
        DataError: a file is missing or broken.
    """
    results: dict[str, list[Result]] = {}
    for variant in variants:
        found = of_run(variant.run)
        alone = len({result.model for result in found}) == 1
        for result in found:
            label = variant.label if alone else _label(result.model, variants)
            own = label == variant.label
            results.setdefault(label, []).append(result if own else replace(result, is_old=False))
    for path in paths:
        for result in read(path):
            results.setdefault(_label(result.model, variants), []).append(result)
    return results


def _label(model: str, variants: Sequence[Variant]) -> str:
    """Of the run whose model it is; where none is there under that path, of the one so named."""
    paths = {variant.label: variant.run.model_path.resolve() for variant in variants}
    own = [label for label, path in paths.items() if path == Path(model).resolve()]
    named = [label for label, path in paths.items() if path.parts[-2:] == Path(model).parts[-2:]]
    if own:
        return own[0]
    return named[0] if len(named) == 1 else model


def table_of(results: Mapping[str, Sequence[Result]]) -> Table | None:
    """Tasks × models, as the harness prints them; None where there is nothing."""
    if not results:
        return None
    by_key: dict[tuple[str, str, int, str], dict[str, Result]] = {}
    for label, measured in results.items():
        for result in measured:
            by_key.setdefault(result.key, {})[label] = result
    rows = []
    for (task, version, shots, name), of_models in by_key.items():
        result = next(iter(of_models.values()))
        rows.append(
            row(
                task,
                version or numbers.ABSENT,
                numbers.ABSENT if shots < 0 else str(shots),
                f"{name}{ARROWS[result.higher]}",
                numbers.count(max(r.n for r in of_models.values()) or None),
                *(_cell(of_models.get(label)) for label in results),
            )
        )
    texts = (Column("version", "text"), Column("n-shot"), Column("metric", "text"), Column("n"))
    versions = sorted({r.harness for measured in results.values() for r in measured} - {""})
    suffix = f" {', '.join(versions)}" if versions else ""
    notes = (
        f"Measured by lm-evaluation-harness{suffix}; ± is its standard error. ↑: more is better.",
        *_odd(by_key),
        *_old(results),
    )
    return table("lm-evaluation-harness", ("task", *texts, *results), rows, notes)


def _cell(result: Result | None) -> Cell:
    if result is None or not math.isfinite(result.value):
        return Cell(numbers.ABSENT)
    stderr = math.nan if result.stderr is None else result.stderr
    under = f"± {stderr:.4f}" if math.isfinite(stderr) else ""
    return Cell(f"{result.value:.4f}", under)


def _odd(by_key: Mapping[tuple[str, str, int, str], Mapping[str, Result]]) -> list[str]:
    """A note where models were asked different questions."""
    differing = sorted(
        {
            task
            for (task, *_), models in by_key.items()
            if len({result.n for result in models.values()} - {0}) > 1
            or len({result.fingerprint for result in models.values()} - {UNHASHED}) > 1
        }
    )
    if not differing:
        return []
    tasks = ", ".join(differing)
    return [f"Models had other documents or prompts and do not compare in: {tasks}."]


def _old(results: Mapping[str, Sequence[Result]]) -> list[str]:
    """A note where a model has been made anew since."""
    labels = [label for label, measured in results.items() if any(r.is_old for r in measured)]
    return [
        f"{label}: measured before the model that lies there now was made; evaluate it again."
        for label in labels
    ]
