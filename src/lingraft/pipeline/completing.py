"""A recipe becomes complete: what it leaves open is decided before its run begins, and only here.

`adapt`, `check` and the cells of a study all call `complete`. What decides is in `recipe.defaults`;
what the recipe says itself is never touched. A run keeps its complete recipe in recipe.toml, and
beside it in choices.json what was asked for, the facts, and what was decided.

Estimate a recipe's text, budget and speed before its run, which reads the text.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import math
from dataclasses import asdict, dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar

from lingraft import processes
from lingraft.corpus import inputs as text_inputs, streams
from lingraft.corpus.cleaning import scripts
from lingraft.corpus.readers import documents
from lingraft.corpus.readers.columns import HUB_PREFIX
from lingraft.corpus.readers.lines import MAX_LINE_BYTES, Counts, kind, raw_lines
from lingraft.devices import device_for
from lingraft.errors import DataError, RecipeError
from lingraft.models.families import family_of
from lingraft.models.parts import check_layers
from lingraft.models.source import config_of
from lingraft.pipeline.model_kinds import for_model_kind
from lingraft.pipeline.preflight import is_source_tied, local_folder
from lingraft.pretrained.checkpoints import place_of
from lingraft.recipe import Corpus, Recipe, Section, defaults
from lingraft.recipe.base import learns_vectors
from lingraft.recipe.defaults import CHARACTERS_A_TOKEN, FEWEST_TOKENS, TOKENS_PER_SENTENCE, Facts
from lingraft.recipe.methods import as_written, expand, is_auto, time_budget, with_phases
from lingraft.training.machine import resolve_precision
from lingraft.training.throughput import matrix_product_ceiling

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from transformers import PreTrainedConfig

    from lingraft.corpus.readers.layout import TextSource
    from lingraft.recipe import Source, Stream


S = TypeVar("S", bound=Section)
OF_PHASES = "validation"
"""A section of every phase, not of the recipe."""


@dataclass(frozen=True)
class Completed:
    """A complete recipe, and how it came to be."""

    recipe: Recipe
    asked: dict[str, Any]
    facts: dict[str, Any] | None = None
    choices: tuple[dict[str, Any], ...] = ()
    """Choices, one a key that was left open or could have been: key, value, source and why."""
    notes: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        """Return what choices.json holds."""
        return {"asked": self.asked, "facts": self.facts, "choices": list(self.choices)}


def complete(asked: Recipe, *, processes: int = 1, download: bool = True) -> Completed:
    """Return a recipe with everything written out that its run will do.

    Args:
        asked: by `methods.read_recipe` or `methods.recipe_from`.
        processes: that will train; a budget in time has more tokens with more of them.
        download: fetch config.json of a model of the Hub; False takes only what is here.

    Raises:
        LingraftError: the recipe cannot work, or what decides is not known.
    """
    decided = decide(asked, processes=processes, download=download)
    if download or _is_here(asked.source):
        tied = decided.facts["tied"] if decided.facts else None
        return replace(decided, recipe=fitted(decided.recipe, tied=tied))
    return replace(decided, recipe=as_written(for_model_kind(decided.recipe, None)))


def fitted(recipe: Recipe, *, tied: bool | None = None) -> Recipe:
    """Return a recipe with phases as its source's kind of model goes through them.

    Args:
        recipe: with phases.
        tied: whether the source's output projection is its word embeddings; None looks at it.
    """
    tied = is_source_tied(recipe.source) if tied is None else tied
    family = family_of(config_of(recipe.source).model_type)
    return as_written(for_model_kind(recipe, family, tied=tied))


def decide(asked: Recipe, *, processes: int = 1, download: bool = True) -> Completed:
    """Return a recipe with its phases, which have yet to be `fitted`.

    The arguments are those of `complete`.

    Raises:
        LingraftError: as `complete`.
    """
    plain, source = asked_of(asked), asked.source
    if not is_auto(asked):
        return Completed(asked, plain)
    if not (download or _is_here(source)):
        name = place_of(str(source.model)).name
        raise RecipeError(
            f"source '{name}': is not on this machine, and decides what the recipe leaves "
            f"open; download it first (hf download {name} config.json)"
        )
    tied, config = is_source_tied(source), config_of(source)
    facts, notes = facts_of(asked, config, tied=tied, processes=processes)
    choices = [_choice(asked, one) for one in defaults.defaults(facts)]
    recipe = _with(asked, choices)
    check_layers(family_of(config.model_type), config.to_dict(), recipe.graft)
    if not any(learns_vectors(recipe.embeddings, name) for name in recipe.embeddings.initializers):
        choices = [one for one in choices if not one["key"].startswith("embeddings.vector_")]
        recipe = _with(asked, choices)
    if facts.tokens < FEWEST_TOKENS:
        notes.append(f"the budget is small: about {facts.tokens:,.0f} tokens of training")
    return Completed(recipe, plain, asdict(facts), tuple(choices), tuple(notes))


def _is_here(source: Source) -> bool:
    return source.model is None or local_folder(source) is not None


def asked_of(asked: Recipe) -> dict[str, Any]:
    """Return what a recipe asks for, as plain data by which it is known again."""
    plain = asked.model_dump(mode="json", exclude_unset=True) | {"seed": asked.seed}
    return {key: value for key, value in plain.items() if value not in (None, {}, [])}


def _choice(asked: Recipe, default: defaults.Default) -> dict[str, Any]:
    """Return what is chosen for a key: what the recipe gives itself goes before."""
    name, _, key = default.key.partition(".")
    section = getattr(asked, name, None)
    if section is not None and key in section.model_fields_set:
        value = section.model_dump(mode="json")[key]
        return {"key": default.key, "value": value, "source": "given", "why": ""}
    source = "measured" if default.measured else "extrapolated"
    return {"key": default.key, "value": default.value, "source": source, "why": default.why}


def _with(asked: Recipe, choices: Sequence[dict[str, Any]]) -> Recipe:
    """Return the recipe with what was chosen, and with its phases."""
    values: dict[str, dict[str, Any]] = {}
    for one in choices:
        section, _, key = one["key"].partition(".")
        values.setdefault(section, {})[key] = one["value"]
    looks = values.pop(OF_PHASES, {})
    update = {name: _filled(getattr(asked, name), own) for name, own in values.items()}
    recipe = with_phases(expand(asked.model_copy(update=update)))
    phases = (
        phase.model_copy(update={OF_PHASES: _filled(phase.validation, looks)})
        for phase in recipe.phases
    )
    return recipe.model_copy(update={"phases": tuple(phases)})


def _filled(section: S, values: dict[str, Any]) -> S:
    """Return a section with these values where it gives none."""
    return type(section).model_validate(values | section.model_dump(exclude_unset=True))


DENSITY = {True: 1.0, False: 0.4}
"""Characters in a byte of UTF-8, by whether letters are Latin; a rough figure."""
SAMPLE = 1 << 24
"""Bytes of a file whose characters are counted."""
ASSUMED_CHARACTERS = 1e8
"""Characters of a text whose size nobody knows before it is read."""
PREDICTED = 0.15
"""Share of the tokens that are predicted."""
GPU, CPU = (0.3, 0.045), (0.6, 0.03)
"""Share of a matrix product's speed that training reaches; seconds that each step takes beside."""
ELEMENTWISE = 8.2e-8
"""Seconds of a processor's core for a number of a hidden state in a layer, beside its products.

With `CPU` near the speeds of 4 and 6 layers of 256 and of 14 of 768 on two cores (performance.md).
"""


def facts_of(
    asked: Recipe, config: PreTrainedConfig, *, tied: bool, processes: int
) -> tuple[Facts, list[str]]:
    """Return what defaults are chosen by, and what was assumed.

    Raises:
        RecipeError: preset 'auto' has no budget.
    """
    characters, latin, notes = _text(asked.texts)
    sentences = characters / CHARACTERS_A_TOKEN / TOKENS_PER_SENTENCE
    family, method, batch = family_of(config.model_type), asked.training, asked.training.batch
    action = _given(asked.tokenizer, "action")
    of_unit = 1 if batch is None or batch.unit == "tokens" else TOKENS_PER_SENTENCE
    facts = Facts(
        kind=family.kind,
        width=int(config.hidden_size),
        characters=characters,
        tokens=0.0,
        seconds=time_budget(asked),
        method=_given(method, "method"),
        tokenizer="new" if asked.tokenizer.algorithm != "source" else action,
        source_weights=_given(asked.graft, "source_weights"),
        tied=tied,
        has_dropout=any(getattr(config, key, 0) for key in family.dropout_keys),
        has_vectors=importlib.util.find_spec("gensim") is not None,
        share=min(1.0, (method.max_train_sentences or sentences) / max(sentences, 1.0)),
        latin=latin,
        step=None if batch is None else batch.size * of_unit,
        rate=_given(method, "learning_rate"),
    )
    return _with_budget(asked, facts, int(getattr(config, family.depth_key)), processes), notes


def _given(section: Section, key: str) -> Any:
    return getattr(section, key) if key in section.model_fields_set else None


def _with_budget(asked: Recipe, facts: Facts, depth: int, processes: int) -> Facts:
    """Return the facts with the tokens of the budget; of one in time at a rough speed."""
    if facts.seconds is not None:
        rate = processes * tokens_a_second(asked, facts, depth)
        return replace(facts, tokens=facts.seconds * rate / (1 + len(asked.baselines)))
    budget = asked.training.budget
    if budget is None:
        raise RecipeError(
            "training.budget: is not given, and preset 'auto' needs one, such as --budget 30m"
        )
    if budget.unit == "steps":
        return defaults.at_steps(facts, budget.value)
    a_pass = facts.characters * facts.share / defaults.OF_LETTERS[facts.latin]
    return replace(facts, tokens=budget.value * (a_pass if budget.unit == "epochs" else 1))


def tokens_a_second(asked: Recipe, facts: Facts, depth: int) -> float:
    """Return roughly how fast one process trains here, by the speed of a matrix product."""
    device, precision = device_for(asked.hardware.device), resolve_precision(asked.hardware)
    on_gpu = device.type == "cuda"
    ceiling = matrix_product_ceiling(device, precision, facts.width, seconds=0.3, rows=512)
    efficiency, a_step = GPU if on_gpu else CPU
    predicted = PREDICTED * defaults.vocabulary_for(facts.characters) * facts.width
    a_token = 6 * (12 * depth * facts.width**2 + predicted) / (efficiency * ceiling)
    a_token += 0.0 if on_gpu else ELEMENTWISE * depth * facts.width / processes.cores()
    step, speed = defaults.batch_for(0), 0.0
    for _ in range(8):  # a longer budget has longer steps, of which fewer are needed
        speed = step / (a_step + step * a_token)
        step = defaults.batch_for(speed * (facts.seconds or 0.0))
    return speed


JSON = (".jsonl", ".ndjson", ".json")


def _density(stream: Stream) -> float | None:
    """Return characters of text in a byte of the largest JSON file; None of other text.

    Other fields are no text, nor are the rows of other streams.
    """
    with contextlib.suppress(DataError, OSError):  # the corpus' stage says what is wrong
        every = () if stream.bilingual else documents.resolve(stream.corpus.text)
        if rows := [one for one in every if one.format in JSON]:
            largest = max(rows, key=lambda one: one.file.stat().st_size)
            part, stat = replace(largest, span=(0, SAMPLE)), largest.file.stat()
            return _counted(part, stream.corpus.model_dump_json(), stat.st_size, stat.st_mtime_ns)
    return None


@functools.cache
def _counted(part: TextSource, section: str, *_: int) -> float:
    """Return characters of text in a byte; cells of a study ask for one file many times.

    Args:
        part: what is read.
        section: the stream's [corpus] as JSON.
        _: size and time of change of the file.
    """
    read = documents.read(part, Corpus.model_validate_json(section), Counts())
    characters = sum(len(one.text) for one in read)
    rows = raw_lines(part.file, MAX_LINE_BYTES, part.span)
    return characters / max(1, sum(len(row or b"") + 1 for row in rows))


def _text(texts: Iterable[Stream]) -> tuple[float, bool, list[str]]:
    """Return about how many characters all text has, whether it is Latin, and what was assumed."""
    characters, all_latin, unknown = 0.0, True, []
    for stream in texts:
        files, own = streams.inputs_of(stream), stream.corpus.scripts
        written = [scripts.of_language(code, own, warn=False) for code in stream.languages]
        latin = all(names == ("Latn",) for names in written)
        most = (stream.corpus.max_train_sentences or math.inf) * CHARACTERS_A_TOKEN
        plain: list[dict[str, Any]] = []
        rows: list[dict[str, Any]] = []
        for file in files:
            (rows if kind(PurePath(file["name"])) in JSON else plain).append(file)
        whole = text_inputs.unpacked_bytes(plain) * DENSITY[latin]
        whole += text_inputs.unpacked_bytes(rows) * (_density(stream) or DENSITY[latin])
        characters += min(whole, most * TOKENS_PER_SENTENCE)
        unknown += [file["name"] for file in files if file["name"].startswith(HUB_PREFIX)]
        all_latin = all_latin and latin
    if not unknown:
        return characters, all_latin, []
    note = f"the size of {', '.join(unknown)} is not known before it is read, and assumed"
    return characters + ASSUMED_CHARACTERS, all_latin, [note]
