"""The models of a run, its own and its baselines, from the run's files."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lingraft.evaluation.records import NEXT_TOKEN
from lingraft.recipe import decoding
from lingraft.report.row import Blocks, Score
from lingraft.rundir import ENVIRONMENT, Run, read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lingraft.models.families.record import KindName
    from lingraft.recipe import Phase, Recipe

    Number = tuple[str, float, int, str]
    "Name of a metric, its value, the number of things it is a mean over, and their fingerprint."

HEADLINE_SCHEME = "mask-only"
"""All predicted tokens are hidden; under 'bert' (80/10/10) a tenth is visible and flatters PPL."""
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
STREAM = "stream/"
"""Prefix of the names of metrics on one of several streams: `stream/NAME/METRIC`."""
COMPARED = ("bits_per_character", "mask-only/perplexity")
"""Metrics of a stream that tables compare, so that their blocks are kept."""


def headline(evaluation: dict[str, Any]) -> str:
    """Return the scheme that tables show: of an encoder-decoder the one that it has."""
    metrics = evaluation["metrics"]
    return HEADLINE_SCHEME if HEADLINE_SCHEME in metrics else str(next(iter(metrics)))


def kind_of(evaluation: dict[str, Any] | None) -> KindName:
    """Return the kind of model that was evaluated, by what it was asked for; masked before that."""
    schemes = (HEADLINE_SCHEME,) if evaluation is None else evaluation["metrics"]
    if NEXT_TOKEN in schemes:
        return "causal"
    return "masked" if HEADLINE_SCHEME in schemes else "seq2seq"


@dataclass(frozen=True)
class PhaseRecord:
    """A phase of a model: what the recipe asks for, and what has happened so far."""

    name: str
    plan: Phase
    result: dict[str, Any] | None
    """Content of done.json; None while the phase has not ended."""
    train: tuple[dict[str, Any], ...]
    """Rows of metrics.jsonl of kind 'train', by step."""
    valid: tuple[dict[str, Any], ...]
    """Rows of metrics.jsonl of kind 'valid', by step."""

    @property
    def tokens(self) -> int | None:
        """Return the real tokens so far; None before the first one is logged."""
        if self.result is not None:
            return int(self.result["tokens"])
        return max((int(row["tokens"]) for row in (*self.train, *self.valid)), default=None)


@dataclass(frozen=True)
class TrainedModel:
    """A model of a run: the run's own, or one of its baselines."""

    run: Run
    method: str
    recipe: Recipe
    environment: dict[str, Any] | None
    is_baseline: bool = False
    label: str = ""
    """Name in tables and curves; unique on a page."""
    run_name: str = ""
    """Name of its run there; unique, too."""

    def result(self, stage: str) -> dict[str, Any] | None:
        """Return the result of a stage; None while the stage has not ended."""
        folder = self.run.stage(stage)
        return folder.result() if folder.done_path.is_file() else None

    @cached_property
    def phases(self) -> tuple[PhaseRecord, ...]:
        """Return the recipe's phases in order."""
        metrics = [row for row in self.run.metrics() if "phase" in row]
        return tuple(
            PhaseRecord(
                plan.name,
                plan,
                self.result(plan.name),
                _series(metrics, plan.name, "train"),
                _series(metrics, plan.name, "valid"),
            )
            for plan in self.recipe.phases
        )

    @property
    def tokens(self) -> int | None:
        """Return the real tokens trained on so far, over all phases."""
        counts = [phase.tokens for phase in self.phases if phase.tokens is not None]
        return sum(counts) if counts else None

    @property
    def seconds(self) -> float | None:
        """Return the training time over all phases; None while one has not ended."""
        results = [phase.result for phase in self.phases]
        if not results or any(result is None for result in results):
            return None
        return float(sum(result["seconds"] for result in results if result is not None))

    @property
    def title(self) -> str:
        """Return the method's name as its paper writes it."""
        return TITLES.get(self.method, self.method)


def evaluated(models: Iterable[TrainedModel]) -> list[tuple[TrainedModel, dict[str, Any]]]:
    """Return the models whose evaluation is finished, each with what it left."""
    pairs = ((model, model.result("evaluation")) for model in models)
    return [(model, result) for model, result in pairs if result is not None]


def _series(metrics: Iterable[dict[str, Any]], phase: str, kind: str) -> tuple[dict[str, Any], ...]:
    """Return the rows of a phase by step; where a resume wrote a step twice, the later one counts.

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


def models_of(run: Run) -> list[TrainedModel]:
    """Return the run's own model, then its recipe's baselines in order.

    Raises:
        DataError: the folder is not a run.
        RecipeError: its recipe cannot be read.
    """
    Run.existing(run.path)
    recipe = _recipe(run)
    path = run.path / ENVIRONMENT
    environment = read_json(path) if path.is_file() else None
    models = [TrainedModel(run, recipe.training.method, recipe, environment)]
    for name in dict.fromkeys(baseline.method for baseline in recipe.baselines):
        own = Run(run.path / "baselines" / name, parent=run.path)
        begun = _recipe(own) if own.recipe_path.is_file() else recipe
        models.append(TrainedModel(own, name, begun, environment, is_baseline=True))
    return models


def _recipe(run: Run) -> Recipe:
    return decoding.decode(decoding.load(run.recipe_path), where=str(run.recipe_path))


def labelled(runs: Sequence[Run]) -> list[TrainedModel]:
    """Return the models of all runs, each with a label: method, and run if there are several."""
    folders = [run.path.resolve() for run in runs]
    names = [folder.name for folder in folders]
    if len(set(names)) < len(names):
        names = [f"{folder.parent.name}/{folder.name}" for folder in folders]
    models: list[TrainedModel] = []
    for run, name in zip(runs, names, strict=True):
        for model in models_of(run):
            label = model.title if len(runs) == 1 else f"{name}: {model.title}"
            again = sum(other.label.removesuffix(" (again)") == label for other in models)
            models.append(replace(model, label=label + " (again)" * again, run_name=name))
    return models


def scores(model: TrainedModel) -> list[Score]:
    """Return every metric of a model, those of each stream too; none before it is evaluated."""
    evaluation = model.result("evaluation")
    if evaluation is None:
        return []
    parts = {"": evaluation}
    parts |= {f"{STREAM}{name}/": of for name, of in evaluation.get("streams", {}).items()}
    return [
        Score(
            model=model.label or model.title,
            seed=model.recipe.seed,
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
    """Return the sums by block behind a metric."""
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
    """Yield what a causal model has beside: compared where the text is the same."""
    if "likelihood" not in evaluation:
        return
    counted, text = evaluation["likelihood"], str(evaluation["text"])
    characters = counted["characters"]
    yield "likelihood/bits_per_byte", counted["bits_per_byte"], counted["bytes"], text
    yield "likelihood/bits_per_character", counted["bits_per_character"], characters, text
    yield "likelihood/unknown", counted["unknown"], counted["tokens"], text
    yield "tokens_per_character", 1 / (characters / counted["tokens"]), characters, text
    masks = str(evaluation["masks"]["fingerprint"])
    for group, ranks in evaluation["pieces"].items():
        for name in ("hits@1", "hits@5", "hits@10", "mean_rank", "median_rank"):
            yield f"{group}/{name}", ranks[name], ranks["positions"], masks
    if asked := evaluation.get("chat"):
        for name in ("stopped", "form"):
            yield f"answers/{name}", asked[name], asked["prompts"], asked["text"]
    for name, result in evaluation.get("kept", {}).items():
        of_text, text = result["likelihood"], result["text"]
        yield f"kept/{name}/bits_per_byte", of_text["bits_per_byte"], of_text["bytes"], text
        yield f"kept/{name}/unknown", of_text["unknown"], of_text["tokens"], text
