"""Estimate a recipe's text, budget and speed before its run, which reads the text."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lingraft import threads
from lingraft.corpus import inputs as text_inputs
from lingraft.corpus import streams
from lingraft.corpus.cleaning import scripts
from lingraft.devices import device_for
from lingraft.errors import RecipeError
from lingraft.models.families import family_of
from lingraft.recipe import defaults
from lingraft.recipe.defaults import CHARACTERS_A_TOKEN, TOKENS_PER_SENTENCE, Facts
from lingraft.recipe.methods import time_budget
from lingraft.training.machine import resolve_precision
from lingraft.training.throughput import matrix_product_ceiling

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

    from lingraft.recipe import Recipe, Section

BYTES_A_CHARACTER = {True: 1.0, False: 2.5}
"""Bytes of a character in UTF-8, by whether its letters are Latin; a rough figure."""
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
    characters, latin, notes = _text(asked)
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
    a_pass = facts.characters * facts.share / CHARACTERS_A_TOKEN
    return replace(facts, tokens=budget.value * (a_pass if budget.unit == "epochs" else 1))


def tokens_a_second(asked: Recipe, facts: Facts, depth: int) -> float:
    """Return roughly how fast one process trains here, by the speed of a matrix product."""
    device, precision = device_for(asked.hardware.device), resolve_precision(asked.hardware)
    on_gpu = device.type == "cuda"
    ceiling = matrix_product_ceiling(device, precision, facts.width, seconds=0.3, rows=512)
    efficiency, a_step = GPU if on_gpu else CPU
    predicted = PREDICTED * defaults.vocabulary_for(facts.characters) * facts.width
    a_token = 6 * (12 * depth * facts.width**2 + predicted) / (efficiency * ceiling)
    a_token += 0.0 if on_gpu else ELEMENTWISE * depth * facts.width / threads.cores()
    step, speed = defaults.batch_for(0), 0.0
    for _ in range(8):  # a longer budget has longer steps, of which fewer are needed
        speed = step / (a_step + step * a_token)
        step = defaults.batch_for(speed * (facts.seconds or 0.0))
    return speed


def _text(asked: Recipe) -> tuple[float, bool, list[str]]:
    """Return about how many characters all text has, whether it is Latin, and what was assumed."""
    characters, all_latin, unknown = 0.0, True, []
    for stream in asked.texts:
        files, own = streams.inputs_of(stream), stream.corpus.scripts
        written = [scripts.of_language(code, own, warn=False) for code in stream.languages]
        latin = all(names == ("Latn",) for names in written)
        characters += text_inputs.unpacked_bytes(files) / BYTES_A_CHARACTER[latin]
        unknown += [file["name"] for file in files if file.get("bytes") is None]
        all_latin = all_latin and latin
    if not unknown:
        return characters, all_latin, []
    note = f"the size of {', '.join(unknown)} is not known before it is read, and assumed"
    return characters + ASSUMED_CHARACTERS, all_latin, [note]
