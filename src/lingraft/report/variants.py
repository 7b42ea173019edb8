"""What the files of a run say of its model and its baselines."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError
from lingraft.evaluation.records import NEXT_TOKEN
from lingraft.recipe import STAGE_NAMES, decoding
from lingraft.report.row import Blocks, Score
from lingraft.rundir import DONE, ENVIRONMENT, Run, Step, read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from lingraft.models.kinds import KindName
    from lingraft.recipe import Phase, Recipe

    Number = tuple[str, float, int, str]
    "Of a metric: its name, the value, how many things it is a mean over, and their fingerprint."

HEADLINE_SCHEME = "mask-only"
"""All predicted tokens are hidden; under 'bert' (80/10/10) a tenth is visible and flatters PPL."""


def headline(evaluation: dict[str, Any], scheme: str = HEADLINE_SCHEME) -> str:
    """The scheme that tables show: of an encoder–decoder the one that it has."""
    metrics = evaluation["metrics"]
    return scheme if scheme in metrics else str(next(iter(metrics)))


def kind_of(evaluation: dict[str, Any] | None) -> KindName:
    """The kind of model that was evaluated, by what it was asked for; masked before that."""
    schemes = (HEADLINE_SCHEME,) if evaluation is None else evaluation["metrics"]
    if NEXT_TOKEN in schemes:
        return "causal"
    return "masked" if HEADLINE_SCHEME in schemes else "seq2seq"


def writes(evaluation: dict[str, Any] | None) -> bool:
    """Whether an encoder–decoder was evaluated, on what its decoder writes."""
    return kind_of(evaluation) == "seq2seq"


TITLES = {
    "xpt": "XPT",
    "xpt-sp": "XPT-SP",
    "xpt-no-itl": "XPT without ITL",
    "xpt-random": "XPT from a random source",
    "adapters": "Adapters",
    "mono-trans": "MonoTrans",
    "lapt": "LAPT",
    "join": "joined",
    "metaxlm": "MetaXLM",
    "metaxlm-dict": "MetaXLM+Dict",
    "metaxlm-freeze": "MetaXLM, body frozen",
    "xlm": "XLM",
    "xlm-kd": "XLM+KD",
    "xlm-init-body": "XLM, body from the source",
    "xlm-init-emb": "XLM, embeddings from the source",
}
VERSION_KEYS = ("lingraft", "python", "torch", "transformers", "tokenizers")


@dataclass(frozen=True)
class PhaseRecord:
    """One phase of one model: what the recipe asked for and what has happened so far."""

    name: str
    plan: Phase | None
    result: dict[str, Any] | None
    """What done.json says; None while the phase has not ended."""
    train: tuple[dict[str, Any], ...]
    """Rows of metrics.jsonl of kind 'train', by step."""
    valid: tuple[dict[str, Any], ...]
    """Rows of metrics.jsonl of kind 'valid', by step."""

    @property
    def tokens(self) -> int | None:
        """Real tokens so far; None before the first one is logged."""
        if self.result is not None:
            return int(self.result["tokens"])
        counts = [int(row["tokens"]) for row in (*self.train, *self.valid)]
        return max(counts) if counts else None


@dataclass(frozen=True)
class Variant:
    """One model of a run: the run's own, or one of its baselines."""

    run: Run
    method: str
    recipe: Recipe
    """The baseline's own where it has one, else that of the run it belongs to."""
    environment: dict[str, Any] | None
    is_baseline: bool = False
    label: str = ""
    """What tables and curves call it; unique on a page."""
    run_name: str = ""
    """What its run is called there: as much of the end of the path as tells the runs apart."""

    def result(self, stage: str) -> dict[str, Any] | None:
        """The result of a stage; None while the stage has not ended."""
        folder = self.run.stage(stage)
        return folder.result() if folder.done_path.is_file() else None

    @cached_property
    def phases(self) -> tuple[PhaseRecord, ...]:
        """The phases in order: the recipe's; for a baseline without one, those found on disk."""
        metrics = [row for row in self.run.metrics() if "phase" in row]
        own_recipe = not self.is_baseline or self.run.recipe_path.is_file()
        plans = {phase.name: phase for phase in self.recipe.phases} if own_recipe else {}
        names = dict.fromkeys(plans)  # what an earlier recipe of the run had may lie there, too
        if not own_recipe:
            found = (str(row["phase"]) for row in metrics)
            names = dict.fromkeys([*found, *_finished_phases(self.run.path)])
        return tuple(
            PhaseRecord(
                name,
                plans.get(name),
                self.result(name),
                _series(metrics, name, "train"),
                _series(metrics, name, "valid"),
            )
            for name in names
        )

    @property
    def tokens(self) -> int | None:
        """Real tokens trained on so far, over all phases."""
        counts = [phase.tokens for phase in self.phases if phase.tokens is not None]
        return sum(counts) if counts else None

    @property
    def seconds(self) -> float | None:
        """Training time over all phases; None while one has not ended."""
        results = [phase.result for phase in self.phases]
        if not results or any(result is None for result in results):
            return None
        return float(sum(result["seconds"] for result in results if result is not None))

    @property
    def title(self) -> str:
        """The method's name as its paper writes it."""
        return TITLES.get(self.method, self.method)


def results_of(variants: Iterable[Variant], stage: str) -> list[tuple[Variant, dict[str, Any]]]:
    """The variants whose stage is finished, each with what it left."""
    pairs = ((variant, variant.result(stage)) for variant in variants)
    return [(variant, result) for variant, result in pairs if result is not None]


def _finished_phases(path: Path) -> list[str]:
    done = sorted(path.glob(f"*/{DONE}"))
    steps = (Step(file.parent) for file in done if file.parent.name not in STAGE_NAMES)
    return [step.name for step in steps if step.is_phase]


def _series(metrics: Iterable[dict[str, Any]], phase: str, kind: str) -> tuple[dict[str, Any], ...]:
    """The rows of a phase by step; where a resume wrote a step twice, the later one counts.

    A loss that is null was not finite.
    """
    rows = (row for row in metrics if row["phase"] == phase and row["kind"] == kind)
    by_step = {
        row["step"]: {
            key: math.nan if value is None and key.startswith("loss") else value
            for key, value in row.items()
        }
        for row in rows
    }
    return tuple(by_step[step] for step in sorted(by_step))


def variants(run: Run) -> list[Variant]:
    """The run's own model, then its recipe's baselines in order.

    One that an earlier recipe of the run had may lie there too: it is none of this one's.

    Raises:
        DataError: the folder is not a run.
        RecipeError: its recipe cannot be read.
    """
    if not run.recipe_path.is_file():
        raise DataError(
            f"{run.path}: not a run (recipe.toml is missing); "
            "give a folder that lingraft adapt wrote"
        )
    recipe = decoding.decode(decoding.load(run.recipe_path), where=str(run.recipe_path))
    path = run.path / ENVIRONMENT
    environment = read_json(path) if path.is_file() else None
    main = Variant(run, recipe.training.method, recipe, environment)
    names = dict.fromkeys(baseline.method for baseline in recipe.baselines)
    return [main, *(_baseline(main, run.path / "baselines" / name) for name in names)]


def _baseline(main: Variant, path: Path) -> Variant:
    run = Run(path, parent=main.run.path)
    recipe = main.recipe
    if run.recipe_path.is_file():
        recipe = decoding.decode(decoding.load(run.recipe_path), where=str(run.recipe_path))
    return Variant(run, path.name, recipe, main.environment, is_baseline=True)


def labelled(runs: Sequence[Run]) -> list[Variant]:
    """The variants of all runs, each with its own label: method, and run if there are several.

    A baseline that is named beside its run stands there once, as what comes first.
    """
    labels: list[str] = []
    models: list[Variant] = []
    groups = _each_once([variants(run) for run in runs])
    names = _names([of_run[0].run.path.resolve() for of_run in groups])
    for of_run, name in zip(groups, names, strict=True):
        for variant in of_run:
            base = label = variant.title if len(groups) == 1 else f"{name}: {variant.title}"
            again = 1
            while label in labels:
                again += 1
                label = f"{base} ({again})"
            labels.append(label)
            models.append(replace(variant, label=label, run_name=name))
    return models


def _each_once(groups: Sequence[Sequence[Variant]]) -> list[list[Variant]]:
    """The variants of each run, without baselines that are there already and runs that are such."""
    seen: dict[Path, bool] = {}
    kept = []
    for of_run in groups:
        new = []
        for variant in of_run:
            path = variant.run.path.resolve()
            if path not in seen or not (variant.is_baseline or seen[path]):
                new.append(variant)
            seen.setdefault(path, variant.is_baseline)
        kept += [new] if new else []
    return kept


def _names(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of paths that tell them apart; of equal ones, the last part."""
    names = []
    for path in paths:
        others = [other.parts for other in paths if other != path]
        lengths = range(1, len(path.parts) + 1)
        ends = (n for n in lengths if all(parts[-n:] != path.parts[-n:] for parts in others))
        names.append("/".join(path.parts[-next(ends, 1) :]))
    return names


STREAM = "stream/"
"""What the names of metrics on one of several streams begin with: `stream/NAME/METRIC`."""
COMPARED = ("bits_per_character", "mask-only/perplexity")
"""Of a stream the metrics that tables compare, so that their blocks are kept."""


def scores(variant: Variant) -> list[Score]:
    """Every metric of a model, those of each stream too; none before it is evaluated."""
    evaluation = variant.result("evaluation")
    if evaluation is None:
        return []
    parts = {"": evaluation}
    parts |= {f"{STREAM}{name}/": of for name, of in evaluation.get("streams", {}).items()}
    return [
        Score(
            model=variant.label or variant.title,
            seed=variant.recipe.seed,
            metric=prefix + metric,
            value=value,
            n=n,
            masks=masks,
            blocks=None if prefix and metric not in COMPARED else _blocks(part, metric),
        )
        for prefix, part in parts.items()
        for metric, value, n, masks in (*_of_tokens(part), *_of_text(part))
    ]


def _blocks(evaluation: dict[str, Any], metric: str) -> Blocks | None:
    """The sums by block behind a metric."""
    scheme, slash, name = metric.rpartition("/")
    of_scheme = evaluation.get("blocks", {}).get(scheme if slash else "words", {})
    pairs = of_scheme.get("loss" if name == "perplexity" else name)
    return None if pairs is None else tuple((float(total), float(n)) for total, n in pairs)


def _of_tokens(evaluation: dict[str, Any]) -> Iterator[Number]:
    masks = str(evaluation["masks"]["fingerprint"])
    for scheme, metrics in evaluation["metrics"].items():
        n = int(metrics["positions"])
        for name, value in metrics.items():
            if name != "positions":
                yield f"{scheme}/{name}", float(value), n, masks
    words = evaluation.get("words") or {}
    for name in ("bits_per_character", "exact"):
        if words.get(name) is not None:  # some word could be scored
            yield name, float(words[name]), int(words["words"]), masks
    unigrams = math.exp(evaluation["unigram_entropy"])
    yield "unigram_perplexity", unigrams, int(evaluation["masks"]["positions"]), masks


def _of_text(evaluation: dict[str, Any]) -> Iterator[Number]:
    """What a causal model has beside: compared where the text is the same."""
    if "likelihood" not in evaluation:
        return
    counted, text = evaluation["likelihood"], str(evaluation["text"])
    per_token = counted["characters"] / counted["tokens"]
    yield "likelihood/bits_per_byte", counted["bits_per_byte"], counted["bytes"], text
    yield (
        "likelihood/bits_per_character",
        counted["bits_per_character"],
        counted["characters"],
        text,
    )
    yield "likelihood/unknown", counted["unknown"], counted["tokens"], text
    yield "tokens_per_character", 1 / per_token, counted["characters"], text
    masks = str(evaluation["masks"]["fingerprint"])
    for group, ranks in evaluation["pieces"].items():
        for name in ("hits@1", "hits@5", "hits@10", "mean_rank", "median_rank"):
            yield f"{group}/{name}", ranks[name], ranks["positions"], masks
    for name, result in evaluation.get("kept", {}).items():
        of_text, text = result["likelihood"], result["text"]
        yield f"kept/{name}/bits_per_byte", of_text["bits_per_byte"], of_text["bytes"], text
        yield f"kept/{name}/unknown", of_text["unknown"], of_text["tokens"], text
