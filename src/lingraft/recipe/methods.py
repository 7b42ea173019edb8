"""Methods and presets: shorthand that fills in [graft], [embeddings] and [[phases]] of a recipe.

The records are in `recipe/records.py`; here is what a recipe makes of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.errors import RecipeError
from lingraft.recipe import Embeddings, Training, catalogue
from lingraft.recipe.base import READ_PAIRS, Section
from lingraft.recipe.decoding import decode, load, override
from lingraft.recipe.phase import Budget, Distil, Masking, Mixture, Phase, PhaseData, Validation
from lingraft.recipe.records import AUTO, PRESETS, method_named
from lingraft.recipe.run import KEEPING, Graft, Recipe, Tokenizer
from lingraft.recipe.streams import check_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lingraft.recipe import Batch
    from lingraft.recipe.records import MethodRecord, PhaseTemplate, Preset

# Of neighbouring stretches of a document, and of translations: the share of the tokens that is
# masked, and tokens of a side, of which the tokenizer may allow fewer (VECO, table 8).
PAIR_RATES, PAIR_TOKENS = (0.15, 0.25), (512, 128)
PAIR_ALPHA = 0.5  # of the mixture (VECO, §4; for translations ours)
EMBEDDINGS = "embeddings"  # the part


def preset_of(method: Training) -> Preset:
    """Return the preset that the recipe names, else that of the method's own paper."""
    return PRESETS[method.preset or method_named(method.method).preset]


def shares_of(templates: Sequence[PhaseTemplate], method: Training) -> list[float]:
    """Return what each phase gets of a budget: the recipe's shares, else the method record's.

    Args:
        templates: of the method, which need not be the one that `method` names.
        method: what the recipe says.
    """
    first = method.first_phase_share
    shares = [template.share for template in templates if template.share is not None]
    if len(templates) == 2 and ("first_phase_share" in method.model_fields_set or not shares):
        return [first, 1 - first]
    return shares or [1.0] * len(templates)


def split(budget: Budget, shares: Sequence[float]) -> list[float]:
    """Split a budget in parts; of steps each part has one at least, and they add up."""
    if not shares or budget.unit != "steps":
        return [budget.value * share for share in shares]
    left = steps = int(budget.value)
    if steps < len(shares):
        raise RecipeError(f"training.budget: {steps} steps are too few for {len(shares)} phases")
    parts = []
    for later, share in zip(range(len(shares) - 1, 0, -1), shares, strict=False):
        parts.append(float(min(max(1, round(steps * share)), left - later)))
        left -= int(parts[-1])
    return [*parts, float(left)]


def _replayed(
    replay: Mapping[str, float], names: Sequence[str], *, soft: bool
) -> tuple[PhaseData, ...]:
    """Return what a phase reads if streams are replayed; nothing (all alike) if none is.

    Args:
        replay: the share of the tokens that each of them gets.
        names: of all streams.
        soft: whether the source's probabilities are their labels.

    Raises:
        RecipeError: such a stream is not there, is all there is, or the shares leave nothing.
    """
    if not replay:
        return ()
    check_names("training.replay", replay, names)
    if len(replay) == len(names) or sum(replay.values()) >= 1:
        raise RecipeError("training.replay: leaves no tokens for the target's text; replay less")
    return tuple(
        PhaseData(stream=name, share=replay.get(name), soft_labels=soft and name in replay)
        for name in names
        if replay.get(name) != 0
    )


def phases_of(recipe: Recipe) -> tuple[Phase, ...]:
    """Return the phases that the recipe's method stands for; none where it does not train."""
    method, preset = recipe.training, preset_of(recipe.training)
    record = method_named(method.method)
    templates, budget = record.phases, method.budget or preset.budget
    values = split(budget, shares_of(templates, method))
    phases = []
    for index, (template, value) in enumerate(zip(templates, values, strict=True)):
        first = index == 0 and len(templates) > 1
        shortest = Budget(value=value if record.has_shares else min(values), unit=budget.unit)
        warmup = _warmup(preset, shortest, method.batch or preset.batch)
        warmups = (method.first_phase_warmup if first else None, method.warmup, warmup)
        peak = (method.learning_rate or preset.optimizer.learning_rate) * template.rate
        train = template.train or preset.first_phase
        phases.append(
            Phase(
                name=template.name,
                train=train,
                lora=template.lora,
                distil=Distil() if template.distil else None,
                **_read(recipe, template, preset),
                budget=Budget(value=value, unit=budget.unit),
                max_train_sentences=method.max_train_sentences,
                batch=method.batch or preset.batch,
                optimizer=preset.optimizer.model_copy(
                    update={
                        "learning_rate": peak,
                        "rates": preset.optimizer.rates
                        | own_rates(peak, method.embedding_rate_factor, train),
                        "weight_decay": preset.optimizer.weight_decay
                        if method.weight_decay is None
                        else method.weight_decay,
                        "max_gradient_norm": method.max_gradient_norm
                        or preset.optimizer.max_gradient_norm,
                    }
                ),
                schedule=method.schedule_from(
                    preset.schedule, next(given for given in warmups if given is not None)
                ),
                mean_teacher=method.mean_teacher or 0.0,
                dropout=preset.dropout if method.dropout is None else method.dropout,
                validation=Validation() if method.budget else preset.validation,
            )
        )
    return tuple(phases)


def own_rates(peak: float, factor: float | None, train: Sequence[str]) -> dict[str, float]:
    """Return the rates of parts that have their own: of the embeddings, where they train."""
    if factor is None or not {"all", EMBEDDINGS}.intersection(train):
        return {}
    return {EMBEDDINGS: float(f"{peak * factor:.6g}")}


def _read(recipe: Recipe, template: PhaseTemplate, preset: Preset) -> dict[str, Any]:
    """Return the keys of what a phase reads, and in what units."""
    if template.objectives:
        if recipe.training.replay:
            raise RecipeError("training.replay: is not for methods that read pairs; leave it out")
        return pairs_of(recipe, template, preset)
    rate, joins = recipe.training.masking_rate, recipe.training.packing
    masked = {} if rate is None else {"masking": Masking(rate=rate)}
    joins = preset.packing if joins is None else joins
    names = [stream.name for stream in recipe.texts]
    soft = template.lora is None and not hard_labels(recipe)
    data = _replayed(recipe.training.replay or {}, names, soft=soft)
    return {"packing": joins, "data": data, **masked}


def hard_labels(recipe: Recipe) -> str:
    """Return why no phase can learn by the source's probabilities; nothing where they can."""
    if recipe.source.model is None or recipe.graft.source_weights == "random":
        return "there is no source to learn from"
    kept = recipe.tokenizer.action in KEEPING and recipe.tokenizer.action != "trim"
    return "" if kept else "the vocabulary does not keep all of the source's pieces"


def _warmup(preset: Preset, budget: Budget, batch: Batch) -> float:
    """Return the preset's warm-up; of one in steps a short phase takes its first 6 % instead.

    So does one whose steps only the run will know.
    """
    steps = budget.value if budget.unit == "steps" else 0.0
    if budget.unit == batch.unit == "tokens":
        steps = budget.value / batch.size
    warmup = preset.schedule.warmup
    return warmup if warmup < 1 or warmup < steps / 4 else 0.06


def pairs_of(recipe: Recipe, template: PhaseTemplate, preset: Preset) -> dict[str, Any]:
    """Return what a phase reads if its method reads pairs: every stream, and how they are mixed."""
    if not template.objectives:
        return {}
    first, *more = template.objectives
    data = []
    for stream in recipe.texts:
        bilingual = stream.bilingual
        data.append(
            PhaseData(
                stream=stream.name,
                objective=first,  # type: ignore[arg-type]
                also=tuple(more) if bilingual else (),  # type: ignore[arg-type]
                masking=Masking(rate=recipe.training.masking_rate or PAIR_RATES[bilingual]),
                max_tokens=PAIR_TOKENS[bilingual],
            )
        )
    both = len({stream.bilingual for stream in recipe.texts}) == 2
    size = None if recipe.training.batch or not both else preset.bilingual_batch
    mixture = Mixture(
        alpha=PAIR_ALPHA, draw="alternate" if both else "sentences", bilingual_batch=size
    )
    return {"objective": first, "data": tuple(data), "mixture": mixture, "packing": False}


def masked_sentences(phase: Phase) -> dict[str, Any]:
    """Return the keys that make masked sentences of the same text of a phase on pairs."""
    objectives = [phase.objective, *(entry.objective for entry in phase.data)]
    if not any(name in READ_PAIRS for name in objectives):
        return {}
    return {"objective": "mlm", "data": (), "mixture": Mixture(alpha=phase.mixture.alpha)}


def with_tied_head(recipe: Recipe) -> Recipe:
    """Return the recipe for a source whose output projection is its word embeddings.

    A method whose record says so has other phases there; they keep the settings of those of their
    names, and share the whole budget. Doing it twice changes nothing.
    """
    tied = {template.name: template for template in method_named(recipe.training.method).tied}
    phases_by_name = {phase.name: phase for phase in recipe.phases}
    units = {phase.budget.unit for phase in recipe.phases}
    on_head = any(name.startswith("head.") for phase in recipe.phases for name in phase.train)
    if not on_head or not tied or len(units) > 1 or tied.keys() - phases_by_name.keys():
        return recipe
    budget = Budget(value=sum(phase.budget.value for phase in recipe.phases), unit=units.pop())
    values = split(budget, shares_of(list(tied.values()), recipe.training))
    phases = tuple(
        phases_by_name[name].model_copy(
            update={"train": template.train, "budget": budget.model_copy(update={"value": value})}
        )
        for (name, template), value in zip(tied.items(), values, strict=True)
    )
    return recipe.model_copy(update={"phases": phases})


def expand(recipe: Recipe) -> Recipe:
    """Write out what method and preset prescribe, of 'auto' all but the phases.

    Values that the recipe gives itself win. Expanding twice changes nothing. What 'auto' decides is
    decided when all that it depends on is known (`pipeline.completing`).

    Raises:
        RecipeError: an unknown method, or shorthand beside [[phases]] where it has no effect.
    """
    record = method_named(recipe.training.method)
    filled: dict[str, Any] = {
        "training": recipe.training.model_copy(
            update={"preset": recipe.training.preset or record.preset}
        ),
        "graft": Graft(**record.graft | _given(recipe.graft)),
        "embeddings": Embeddings(**record.embeddings | _given(recipe.embeddings)),
        "tokenizer": _taught(recipe, record),
    }
    expanded = recipe.model_copy(update=filled)
    if is_auto(expanded):
        return expanded
    if not recipe.phases:
        return with_phases(expanded)
    idle = sorted(recipe.training.model_fields_set - {"method", "preset", "first_phase_share"})
    if idle:
        raise RecipeError(
            f"training.{idle[0]}: has no effect because the recipe gives its own [[phases]]; "
            "set it there, or leave [[phases]] out"
        )
    check_times(expanded.phases)
    return expanded


def _taught(recipe: Recipe, record: MethodRecord) -> Tokenizer:
    """Return the vocabulary's table with the streams that it is learnt from: not what is replayed.

    An algorithm is of a new vocabulary. One that is trimmed keeps what replayed text uses, too.
    """
    new = {"action": "new"} if recipe.tokenizer.algorithm != "source" else {}
    section = Tokenizer(**record.tokenizer | new | _given(recipe.tokenizer))
    replayed = recipe.training.replay or {}
    if not replayed or section.streams or section.action == "trim":
        return section
    names = tuple(stream.name for stream in recipe.texts if stream.name not in replayed)
    return section.model_copy(update={"streams": names})


def with_phases(recipe: Recipe) -> Recipe:
    """Return the recipe with the phases that its method stands for.

    Raises:
        RecipeError: as `check_times`, or its budget is too small for so many phases.
    """
    phases = phases_of(recipe)
    check_times(phases)
    return recipe.model_copy(update={"phases": phases})


def is_auto(recipe: Recipe) -> bool:
    """Return whether preset 'auto' is to decide how the recipe trains."""
    trains = bool(method_named(recipe.training.method).phases)
    preset = recipe.training.preset or method_named(recipe.training.method).preset
    return preset == AUTO and trains and not recipe.phases


def check_times(phases: Sequence[Phase]) -> None:
    """Refuse budgets in time that cannot be added up, or whose steps nobody knows.

    Raises:
        RecipeError: they are mixed with others, or a warm-up is in steps.
    """
    if not any(phase.budget.seconds is not None for phase in phases):
        return
    if any(phase.budget.seconds is None or phase.schedule.warmup >= 1 for phase in phases):
        raise RecipeError(
            "phases: where a budget is in minutes or hours all must be, with a schedule.warmup "
            "that is a share of the phase, such as 0.06"
        )


def time_budget(recipe: Recipe) -> float | None:
    """Return the seconds that the whole run may take; None where its budget is not in time."""
    asked = () if recipe.training.budget is None else (recipe.training.budget,)
    seconds = [budget.seconds for budget in [phase.budget for phase in recipe.phases] or asked]
    return sum(filter(None, seconds)) if any(seconds) else None


def _given(section: Section) -> dict[str, Any]:
    return {key: getattr(section, key) for key in section.model_fields_set}


def read_recipe(path: str | Path, assignments: Sequence[str] = ()) -> Recipe:
    """Return the recipe that a file and these assignments ask for (`expand`).

    Overrides of phases apply after the method has filled them in: they work on any recipe.

    Raises:
        RecipeError: whatever is wrong with it, on one line.
    """
    return recipe_from(load(Path(path)), assignments, str(path))


def recipe_from(
    data: dict[str, Any], assignments: Sequence[str] = (), where: str = "recipe"
) -> Recipe:
    """Return the recipe that plain data ask for (`expand`); one assignment may stand by itself."""
    assignments = [assignments] if isinstance(assignments, str) else assignments
    has_phases = "phases" in data
    early = [text for text in assignments if has_phases or not text.strip().startswith("phases.")]
    late = [text for text in assignments if text not in early]
    changed = decode(override(data, early), where)
    old = decode(data, where).training if has_phases else changed.training
    becomes_auto = changed.training.preset == AUTO != old.preset
    if changed.training.method != old.method or becomes_auto:
        raise RecipeError(
            f"training.{'preset' if becomes_auto else 'method'}: [graft] and [[phases]] of "
            f"{where} are those of method '{old.method}'; leave both out of it"
        )
    recipe = expand(changed)
    if recipe.source.model is not None:  # may be a name of `lingraft show models`
        update = {"model": catalogue.resolve(recipe.source.model)}
        recipe = recipe.model_copy(update={"source": recipe.source.model_copy(update=update)})
    if not late:
        return recipe
    return expand(decode(override(_as_given(recipe), late), where))


def as_written(recipe: Recipe) -> Recipe:
    """Return the recipe as it is written into a run: with its phases, without their shorthand."""
    return decode(_as_given(recipe))


def _as_given(recipe: Recipe) -> dict[str, Any]:
    """Return plain data without defaults that nobody gave; of [training] what baselines use."""
    keys = {"method", "preset"} | ({"first_phase_share"} & recipe.training.model_fields_set)
    given = recipe.model_dump(mode="json", exclude_unset=True)
    return given | {"training": recipe.training.model_dump(include=keys)}
