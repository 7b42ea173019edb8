"""Request of Python and the command line to `adapt`, as a recipe."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.errors import RecipeError
from lingraft.recipe import Recipe, Training, decoding
from lingraft.recipe.methods import read_recipe, recipe_from
from lingraft.recipe.streams import named_texts, plain_streams
from lingraft.rundir import Run, read_json

if TYPE_CHECKING:
    from lingraft.callbacks import Callback
    from lingraft.recipe import Budget

Paths = str | Path | Sequence[str | Path]
Texts = Paths | Mapping[str, Paths]
"""Files, folders or hub:DATASET; of several languages by language code."""
Settings = Mapping[str, Any] | Sequence[str]
"""Keys of a recipe and their values, or `key=value` each."""


@dataclass(kw_only=True)
class AdaptConfig:
    """Settings of an adaptation, which `lingraft.adapt` and `lingraft adapt` take.

    What stays None is decided by source, text and budget.
    """

    source: str | Path | None = None
    """The model to start from: a folder, a Hub id or a name of `lingraft show models`."""
    text: Texts | None = None
    """Raw text: files, folders or hub:DATASET; of several languages a dict of them by language, or
    LANGUAGE=PATH each."""
    language: str | None = None
    """Language of the text, a BCP 47 code such as "ko"."""
    out: str | Path | None = None
    """The run's folder; runs/LANGUAGE by default."""
    budget: str | None = None
    """Budget of the whole run: "8h", "30m", "5Mtok", "300steps", "2 epochs", or "paper", the
    preset's."""
    method: str | None = None
    """Method, one of `lingraft show methods`."""
    preset: str | None = None
    """Whose settings: "auto", or a paper's of `lingraft show presets`."""
    tokenizer: str | Path | None = None
    """A tokenizer that exists, in the place of a new one: a folder, or a model's Hub id."""
    baselines: Sequence[str] = ()
    """Methods to train beside it for as long, to compare."""
    join: str | Path | None = None
    """A finished run, in the place of `source`; the languages of `text` join its own."""
    seed: int | None = None
    """Seed of weights, order and masks."""
    settings: Settings = field(default_factory=dict)
    """More keys of a recipe, such as {"training.batch": "2048 tokens"}."""

    def __post_init__(self) -> None:
        """Read generators once."""
        self.text, self.baselines = names_of(self.text), names_of(self.baselines)

    def recipe(self) -> Recipe:
        """Return the recipe that this stands for; what it leaves open is decided by its run.

        Raises:
            RecipeError: something is missing or wrong.
            DataError: the run to join has no model.
        """
        texts = named_texts(names_of(self.text), self.language)
        if not (self.text and texts) or (self.source is None) == (self.join is None):
            raise RecipeError(
                "give a recipe, or source (--source) or a run to join (--join), text (--text) and "
                "language (--lang)"
            )
        own = {"action": "use", "model": str(self.tokenizer)} if self.tokenizer else {}
        training = {"method": self.method, "preset": self.preset, "budget": self.budget}
        data: dict[str, Any] = {
            "source": {"model": str(self.source)},
            **texts,
            "tokenizer": own,
            "training": {key: value for key, value in training.items() if value is not None},
            "baselines": [{"method": name} for name in self.baselines],
        }
        if self.join is not None:
            data = _joined(Path(self.join), texts, data)
        return recipe_from({"name": recipe_name(self.out, data)} | data, self.assignments, "adapt")

    @property
    def assignments(self) -> list[str]:
        """Return `settings` and `seed` as `key=value`."""
        return [*decoding.assignments(self.settings), *decoding.assignments({"seed": self.seed})]


def adapt(
    config: AdaptConfig | Recipe | Mapping[str, Any] | Run | str | Path | None,
    given: Mapping[str, Any],
    *,
    update: bool = False,
    force: bool = False,
    callback: Callback | None = None,
    command: str = "lingraft.adapt(...)",
    began: float | None = None,
) -> Run:
    """Run what is asked for: a new run, or a larger budget for a finished one.

    Args:
        config: what is asked for, a recipe, its tables or its file, or a finished run.
        given: fields of `AdaptConfig`, which go before those of `config`.
        update: bring a run of other settings up to these.
        force: delete what the run's folder holds first.
        callback: told of steps, validations and stages.
        command: how this was called, for the record.
        began: when a budget in time begins, on `time.monotonic`; None: now.

    Raises:
        LingraftError: whatever the caller can mend, on one line.
    """
    from lingraft.pipeline import adapt as pipeline

    place = config.path if isinstance(config, Run) else config
    call: dict[str, Any] = {"command": command, "began": began, "callback": callback}
    if isinstance(place, str | Path) and Run(Path(place)).recipe_path.is_file():
        more = {key: value for key, value in {"update": update, "force": force}.items() if value}
        folder = Path(place)
        return pipeline.adapt(larger_budget(folder, {**given, **more}), folder, **call)
    recipe, out = recipe_of(place, given), given.get("out")
    if isinstance(place, AdaptConfig):
        out = out or place.out
    folder = Path("runs") / recipe.name if out is None else Path(out)
    return pipeline.adapt(recipe, folder, update=update, force=force, **call)


def recipe_of(
    config: AdaptConfig | Recipe | Mapping[str, Any] | str | Path | None, given: Mapping[str, Any]
) -> Recipe:
    """Return the recipe that is asked for; what it leaves open is decided by its run.

    Args:
        config: as `adapt` takes it, but for a run.
        given: as `adapt` takes it.

    Raises:
        RecipeError: it is wrong, or something was given that does not go with a recipe.
    """
    if config is None or isinstance(config, AdaptConfig):
        return replace(config or AdaptConfig(), **given).recipe()
    if others := [name for name in given if name not in ("out", "budget", "seed", "settings")]:
        raise RecipeError(f"{others[0]}: is not given beside a recipe; set its key (KEY=VALUE)")
    beside = AdaptConfig(**given)
    changes = decoding.assignments({"training.budget": beside.budget}) + beside.assignments
    if isinstance(config, Recipe):
        if changes:
            raise RecipeError(f"{changes[0]}: a Recipe is complete; give its file or a dict")
        return config
    if isinstance(config, Mapping):
        return recipe_from(dict(config), changes)
    return read_recipe(Path(config), changes)


def larger_budget(folder: Path, given: Mapping[str, Any]) -> Budget:
    """Return the budget that a finished run is to have in all.

    Raises:
        RecipeError: none is given, or more than that.
    """
    told = decoding.checked(Training, {"budget": given.get("budget")}, "a larger budget")
    if told.budget is None or len(given) > 1:
        raise RecipeError(f"{folder}: is a run; give the budget that it may have in all alone")
    return told.budget


def recipe_name(folder: str | Path | None, data: Mapping[str, Any]) -> str:
    """Return what a recipe without a name is called: as its run's folder, or by its languages."""
    codes = [data.get("language"), *(stream.get("language") for stream in data.get("streams", ()))]
    languages = "-".join(dict.fromkeys(str(code) for code in codes if code))
    names = (Path(folder).resolve().name if folder else "", languages, "run")
    plain = (re.sub(r"[^A-Za-z0-9._-]+", "-", name).lstrip("-._") for name in names)
    return next(filter(None, plain))


def names_of(text: Texts | None) -> list[str]:
    """Return the files of texts by their names; of a dict by language as LANGUAGE=PATH."""
    if isinstance(text, Mapping):
        return [f"{code}={path}" for code in text for path in names_of(text[code])]
    several = () if text is None else [text] if isinstance(text, str | Path) else text
    return [str(path) for path in several]


def _joined(path: Path, texts: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """Return the recipe in which the languages of `texts` join those of a finished run."""
    from lingraft.models.families import family_of
    from lingraft.recipe.baselines import joined

    run = Run.existing(path)
    run_recipe = read_recipe(run.recipe_path)
    alone = {texts["language"]: texts["corpus"]["text"]} if "language" in texts else {}
    new = texts.get("streams") or plain_streams(alone)
    config = read_json(run.model_path / "config.json")
    masked = family_of(str(config["model_type"])).kind == "masked"
    pieces = int(config["vocab_size"])
    plain = joined(run_recipe, str(run.model_path), new, masked=masked, pieces=pieces)
    own = {key: plain[key] | data[key] for key in ("tokenizer", "training")}
    return plain | own | {"baselines": data["baselines"]}
