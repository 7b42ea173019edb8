"""The recipe of a baseline: another method on the budget of a run.

A language joins a run that exists: the recipe of the run that goes on from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from lingraft.errors import RecipeError
from lingraft.recipe import Budget, Distil, Section, Training, methods
from lingraft.recipe.records import METHODS, PRESETS, method_named
from lingraft.recipe.run import UNSIZED, Tokenizer
from lingraft.recipe.streams import standard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.recipe import Optimizer, Recipe, Stream
    from lingraft.recipe.records import MethodRecord


S = TypeVar("S", bound=Section)


def _check_shared(recipe: Recipe, method: str, record: MethodRecord) -> None:
    """Refuse a baseline that cannot share the run's tokenizer, or its budget."""
    own, ours = METHODS[recipe.training.method].tokenizer, recipe.tokenizer
    given = {key: value for key, value in ours if key not in own or value != own[key]}
    action = (given | record.tokenizer).get("action", "new")
    if action != ours.action:
        raise RecipeError(
            f"baselines: method '{method}' needs tokenizer.action = \"{action}\", but baselines "
            f"share the run's, which is \"{ours.action}\"; run '{method}' by itself (a study does)"
        )
    if len({phase.budget.unit for phase in recipe.phases}) != 1:
        raise RecipeError("baselines: share the budget of phases, which must be in one unit")


def _at_peak(
    optimizer: Optimizer, peak: float, factor: float | None, train: Sequence[str]
) -> Optimizer:
    """Set another learning rate; of parts' own rates that of the embeddings alone, by a factor."""
    rates = methods.own_rates(peak, factor, train)
    return optimizer.model_copy(update={"learning_rate": peak, "rates": rates})


def _of_method(section: S, own: dict[str, Any], other: dict[str, Any]) -> S:
    """Return a table with what another method prescribes, and not what the run's own does."""
    alike = {key for key, value in other.items() if key in own and own[key] == value}
    taken_back = type(section)().model_dump(include=set(own) - alike)
    prescribed = {key: value for key, value in other.items() if key not in alike}
    return section.model_copy(update=taken_back | prescribed)


def baseline(recipe: Recipe, index: int) -> Recipe:
    """Make the recipe of a baseline: another method on the same budget, batch, schedule and masks.

    The budget is the sum over the run's phases; the settings are those of its last phase. What the
    run's own method prescribes of the graft is taken back first. Drawn layers have one rate.

    Raises:
        RecipeError: the phases count their budgets in different units, or the method needs another
            tokenizer than the run's.
    """
    section = recipe.baselines[index]
    record = method_named(section.method)
    _check_shared(recipe, section.method, record)
    last = recipe.phases[-1]
    total = Budget(value=sum(phase.budget.value for phase in recipe.phases), unit=last.budget.unit)
    shares = methods.shares_of(record.phases, Training() if record.has_shares else recipe.training)
    own = METHODS[recipe.training.method]
    graft = _of_method(recipe.graft, own.graft, record.graft)
    embeddings = _of_method(recipe.embeddings, own.embeddings, record.embeddings)
    peak = section.learning_rate or last.optimizer.learning_rate
    factor, own_rate = None, last.optimizer.rates.get(methods.EMBEDDINGS)
    if own_rate is not None and graft.source_weights != "random":
        factor = own_rate / last.optimizer.learning_rate
    phases = tuple(
        last.model_copy(
            update={
                "name": template.name,
                "train": train,
                "distil": (last.distil or Distil()) if template.distil else None,
                **(
                    methods.pairs_of(recipe, template, PRESETS[record.preset])
                    or methods.masked_sentences(last)
                ),
                "budget": Budget(value=value, unit=total.unit),
                "lora": template.lora,
                "optimizer": _at_peak(
                    last.optimizer, peak * template.rate / record.phases[-1].rate, factor, train
                ),
            }
        )
        for template, value in zip(record.phases, methods.split(total, shares), strict=True)
        for train in [template.train or methods.preset_of(recipe.training).first_phase]
    )
    made = recipe.model_copy(
        update={
            "name": f"{recipe.name}-{section.method}",
            "training": recipe.training.model_copy(update={"method": section.method}),
            "graft": graft,
            "embeddings": embeddings,
            "phases": phases,
            "baselines": (),
            "evaluation": recipe.evaluation.model_copy(update={"before": ()}),
        }
    )
    return _with_hard_labels(made) if methods.hard_labels(made) else made


def _with_hard_labels(recipe: Recipe) -> Recipe:
    phases = []
    for phase in recipe.phases:
        data = [entry.model_copy(update={"soft_labels": False}) for entry in phase.data]
        phases.append(phase.model_copy(update={"data": tuple(data)}))
    return recipe.model_copy(update={"phases": tuple(phases)})


METHOD = "join"
FEWEST = 32
KEPT_OF_THE_TOKENIZER = {
    "normalization", "character_coverage", "max_train_sentences", "max_tokens", "language_code",
}  # fmt: skip


def joined(
    theirs: Recipe,
    model: str,
    new: Sequence[dict[str, Any]],
    *,
    masked: bool = True,
    pieces: int | None = None,
) -> dict[str, Any]:
    """Return plain data of a recipe in which new languages join those of a finished run.

    The source is the run's model. Its vocabulary is extended by pieces of the new languages' text
    alone. Each of these languages gets as many as one of those that the run's own pieces were
    learnt from has on average. The old languages' text is drawn beside the new one's, so that they
    are not forgotten, and the run's own model is scored on it too, to say whether they were.

    Args:
        theirs: the run's recipe.
        model: the folder of the model that the run exported.
        new: streams of the new languages, as plain data.
        masked: whether the model is a masked one. A causal one is judged beside its source anyway.
        pieces: of the run's model; of a vocabulary that was not trained `vocab_size` says nothing.

    Raises:
        RecipeError: there is no new language, or one is among the run's.
    """
    old = [_named(stream) for stream in theirs.texts]
    codes = {standard(str(stream["language"])) for stream in old}
    if not new or any(standard(str(stream["language"])) in codes for stream in new):
        raise RecipeError(
            "--join: name the text of a language that the run has not yet, as --text sw=sw.txt"
        )
    tokenizer = theirs.tokenizer.model_dump(mode="json", include=KEPT_OF_THE_TOKENIZER)
    learnt = {
        code
        for stream in theirs.texts
        if not theirs.tokenizer.streams or stream.name in theirs.tokenizer.streams
        for code in stream.languages
    }
    section = theirs.tokenizer
    size = section.vocab_size
    if section.action == "extend":
        size = section.new_pieces
    elif section.action in (*UNSIZED, "use") and pieces is not None:
        size = min(pieces, Tokenizer().vocab_size)
    evaluation = theirs.evaluation.model_dump(mode="json", exclude_defaults=True)
    before = [stream["name"] for stream in old if masked and "/" not in stream["language"]]
    return {
        "source": {"model": model},
        "streams": [*old, *new],
        "tokenizer": tokenizer
        | {
            "action": "add",
            "vocab_size": max(FEWEST, size // len(learnt) * len(new)),
            "streams": [stream["name"] for stream in new],
        },
        "training": {"method": METHOD},
        "hardware": theirs.hardware.model_dump(mode="json", exclude_none=True),
        "evaluation": evaluation | {"before": before},
    }


def _named(stream: Stream) -> dict[str, Any]:
    """Return a stream as plain data; that of the short form is called by its language."""
    plain = stream.model_dump(mode="json", exclude_none=True)
    return plain | {"name": stream.name or stream.language.lower()}
