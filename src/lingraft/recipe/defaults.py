"""Automatic settings: one table that decides, before a run, what its recipe leaves open.

A value is measured where studies in the repository's `research/` compared it on such a source with
such a budget; elsewhere it is extrapolated. What a recipe gives itself is left to the caller.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from lingraft.recipe.phase import Batch, Validation
from lingraft.recipe.records import method_named
from lingraft.recipe.run import CHARACTERS_OF_A_SENTENCE, KEEPING, OLD, UNSIZED, Evaluation

METHOD = "xpt-sp"
NARROW, WIDE = 320, 448
"""Widths up to which results at 256, and at 384, are taken."""
LEAST, LITTLE, SHORT, LONG = 100_000, 600_000, 3_000_000, 12_000_000
"""Tokens of training: the fewest measured; up to which results at 0.3, 1 and 10 M are taken."""
FEW_PASSES = 11.0
"""Passes over the text up to which dropout is left out."""
MANY_PASSES, DECAY, MOST_DECAY = 5.0, 1.0, 2.0
"""Passes from which weights decay; the decay times steps times their peak rate; the most decay."""
FOCUS_CHARACTERS, FOCUS_SECONDS = 20_000, 60.0
"""Least text and time of a whole run for static vectors."""
CHARACTERS_A_TOKEN, TOKENS_PER_SENTENCE = 3.0, 30
"""Rough figures, for text that no tokenizer has read."""
OF_LETTERS = {True: 4.0, False: 2.0}
"""Characters in a token, by whether letters are Latin: Spanish and French have 3.9, Korean 2.1."""
FEWEST_TOKENS, TOKENS_A_PIECE = 300_000, 50
"""Tokens of training at least, for a model and for each of its pieces."""
SIZES, LARGEST = ((3e6, 4_000), (3e7, 8_000), (3e8, 16_000), (3e9, 32_000)), 50_000
"""Characters below which a vocabulary has so many pieces; those of larger texts."""
LATIN, LATIN_TOKENS, LATIN_CHARACTERS, MOST_NEW = 8_000, 250_000, 500_000, 10_000
RATE, NARROW_RATE, FASTER = 1e-3, 2e-3, 4.0
"""Peak learning rates at widths 384 and 256; how many times as fast the embeddings learn."""
SMALLEST_STEP, LARGEST_STEP = 9, 16
"""Powers of two: the tokens of a step."""
VALIDATING, VALIDATIONS, EVALUATING, FORWARD = 0.05, 10, 0.10, 3.0
"""Shares of a budget in time; forward passes that take as long as one step on the same tokens."""


@dataclass(frozen=True)
class Facts:
    """Facts that are known before a run."""

    kind: str
    """Kind of the source: masked, causal or seq2seq."""
    width: int
    """Numbers in a hidden state of the source."""
    characters: float
    """Characters of the training text of all streams."""
    tokens: float
    """Tokens of training; of a budget in time at a rough speed."""
    seconds: float | None = None
    """The budget of the whole run where it is in time."""
    method: str | None = None
    """As asked for; None: the table decides."""
    tokenizer: str | None = None
    """`tokenizer.action` as asked for; None: the method or the table decides."""
    source_weights: str | None = None
    """`graft.source_weights` as asked for."""
    tied: bool = False
    """The source's output projection is its word embeddings."""
    has_dropout: bool = False
    """The source's configuration has a dropout above 0."""
    has_vectors: bool = False
    """Static word vectors can be learnt here (gensim is installed)."""
    share: float = 1.0
    """Share of the text that the phases read."""
    latin: bool = False
    """All text is in languages that are written in Latin letters."""
    step: int | None = None
    """Tokens of a step where the recipe gives the batch."""
    rate: float | None = None
    """Peak learning rate; None: the table decides."""


@dataclass(frozen=True)
class Default:
    """Decision for a key of the recipe."""

    key: str
    value: Any
    """None: the library's default; of dropout the source's own."""
    measured: bool
    """On such a source with such a budget; else extrapolated."""
    why: str = ""


class Row(NamedTuple):
    """A value, or a function of the facts, where all words of `when` hold."""

    value: Any
    when: str = ""
    why: str = ""
    measured: str = "known"
    """Words that hold where it was measured; of a `guess` nowhere."""


guess = partial(Row, measured="nowhere")


def conditions(facts: Facts) -> dict[str, bool]:
    """Return the words of the table's conditions, and which hold."""
    record, tokens = method_named(facts.method or METHOD), facts.tokens
    pieces = facts.tokenizer or record.tokenizer.get("action", "new")
    pretrained = (facts.source_weights or record.graft.get("source_weights")) != "random"
    masked, causal = facts.kind == "masked", facts.kind == "causal"
    small, wide = facts.width <= NARROW, masked and facts.width <= WIDE
    short, little_causal = wide and tokens <= SHORT, causal and small and tokens <= LITTLE
    keeps, measured_kept = pretrained and pieces in KEEPING, little_causal or (short and small)
    phases = (facts.tied and record.tied) or record.phases
    whole = len(phases) == 1 and "all" in (phases[0].train or ())
    passes = tokens * OF_LETTERS[facts.latin] / max(facts.characters * facts.share, 1.0)
    at_once = whole and pretrained and (not keeps or measured_kept)
    latin = tokens >= LATIN_TOKENS and facts.characters >= LATIN_CHARACTERS and facts.latin
    learns = facts.has_vectors and (facts.seconds is None or facts.seconds >= FOCUS_SECONDS)
    return {
        "masked": masked,
        "causal": causal,
        "narrow": wide and small,
        "wide": wide,
        "little": tokens <= LITTLE,
        "short": short,
        "under-12M": tokens <= LONG,
        "little-causal": little_causal,
        "known": little_causal or (wide and tokens <= LONG),
        "nowhere": False,
        "open-method": facts.method is None,
        "two-phases": len(phases) == 2,
        "own-shares": record.has_shares,
        "keeps": keeps,
        "at-once": at_once and facts.kind != "seq2seq",
        "large-causal": causal and not small and pretrained,
        "open-pieces": not (facts.tokenizer or record.tokenizer),
        "adds": pieces in ("add", "append"),
        "sized": pieces not in (*UNSIZED, "use"),
        "latin": latin and vocabulary_for(facts.characters, tokens) < LATIN,
        "new-rows": "init" not in record.embeddings and pieces not in OLD,
        "learns": learns,
        "vectors": learns and facts.characters * facts.share >= FOCUS_CHARACTERS,
        "few-passes": passes <= FEW_PASSES,
        "many-passes": whole and passes >= MANY_PASSES,
        "words-alone": not any(phase.objectives for phase in phases),
        "own-dropout": facts.has_dropout,
        "timed": facts.seconds is not None,
    }


def batch_for(tokens: float) -> int:
    """Return the tokens of a step: 1,024 at 1.2 M of training, growing with the square root."""
    power = round(math.log2(1_024 * math.sqrt(max(tokens, 1) / 1.2e6)))
    return 1 << min(LARGEST_STEP, max(SMALLEST_STEP, power))


def _batch(facts: Facts) -> str:
    return f"{batch_for(facts.tokens)} tokens"


def rate_by_step(whole: float, facts: Facts) -> float:
    """Return half of a rate in steps of 1,024 tokens, all of it from 4,096, by the root between.

    Source: Malladi et al. 2022, for Adam.
    """
    by_root = whole / 2 * math.sqrt((facts.step or batch_for(facts.tokens)) / 1_024)
    return float(f"{min(whole, max(whole / 2, by_root)):.2g}")


def rate_by_width(rate: float, facts: Facts) -> float:
    """Return a rate of width 384 for another, in inverse proportion; at most twice as high.

    Differs from muP (Yang et al. 2022), which scales the hidden matrices alone.
    """
    return float(f"{rate * min(2.0, 384 / facts.width):.2g}")


def decay_for(facts: Facts) -> float:
    """Return a weight decay that forgets as much over a run, however many steps it takes.

    Source: Wang and Aitchison 2024, who keep the time scale 1 / (rate x decay) of AdamW in epochs.
    """
    steps = facts.tokens / (facts.step or batch_for(facts.tokens))
    return float(f"{min(MOST_DECAY, DECAY / max(steps * (facts.rate or RATE), 1e-9)):.2g}")


def vocabulary_for(characters: float, tokens: float = math.inf) -> int:
    """Return the pieces of a new vocabulary: by the text, but no more than training can teach."""
    by_text = next((pieces for most, pieces in SIZES if characters < most), LARGEST)
    sizes = (*(size for _, size in SIZES), LARGEST)
    taught = [pieces for pieces in sizes if pieces * TOKENS_A_PIECE <= tokens]
    return min(by_text, max(taught, default=SIZES[0][1]))


def new_pieces(facts: Facts) -> int:
    """Return the pieces to add to a vocabulary: by the text, and what training can teach."""
    taught = max(1, int(facts.tokens / TOKENS_A_PIECE / 100)) * 100
    return min(vocabulary_for(facts.characters), taught, MOST_NEW)


def validated(facts: Facts) -> int:
    """Return the sentences of a validation that a budget in time affords."""
    affords = VALIDATING * facts.tokens * FORWARD / (VALIDATIONS * TOKENS_PER_SENTENCE)
    return min(Validation().max_sentences, max(100, int(affords)))


def evaluated(key: str, least: int, facts: Facts) -> int:
    """Return the test sentences or words that a budget in time affords."""
    section = Evaluation()
    if facts.kind == "causal":  # the model and its source read each document
        cost = 2 * section.max_sentences * CHARACTERS_OF_A_SENTENCE / CHARACTERS_A_TOKEN
    else:  # two ways of masking a sentence; a pass for each of two tokens of a word, in long ones
        cost = TOKENS_PER_SENTENCE * (2 * section.max_sentences + 2 * 2 * section.max_words)
    share = min(1.0, EVALUATING * facts.tokens * FORWARD / cost)
    return max(least, int(share * getattr(section, key)))


LAYERS = (
    Row(0, "open-method under-12M", "new layers cost more than they give"),
    guess(0, "open-method causal", "new layers cost more than they give"),
    guess(1, "open-method", "as in XPT"),
)
TABLE: dict[str, tuple[Row, ...]] = {
    "training.method": (
        Row(METHOD, "open-method narrow short", "one phase ends as low as two"),
        Row(METHOD, "open-method", "one phase ends as low as two", "little-causal"),
    ),
    "tokenizer.action": (guess("add", "open-pieces large-causal", "its own pieces know much"),),
    "tokenizer.vocab_size": (
        guess(new_pieces, "adds large-causal", "new pieces, by text and budget"),
        Row(LATIN, "open-pieces latin narrow short", "2.5 to 5 % lower than with 4,000"),
        guess(lambda f: vocabulary_for(f.characters, f.tokens), "sized", "by text and budget"),
    ),
    "embeddings.init": (
        guess("focus", "new-rows vectors wide !narrow little", "lowest of three at width 256"),
        Row("focus", "new-rows vectors", "lower than mean and random rows"),
        Row("mean", "new-rows", "FOCUS needs gensim, a minute and 20,000 characters"),
    ),
    "embeddings.vector_width": (
        Row(64, "learns wide under-12M", "as low as FOCUS' 300, in less time"),
        Row(300, "learns", "as in FOCUS"),
    ),
    "embeddings.vector_units": (
        Row(3_000_000, "learns wide under-12M", "as low as FOCUS' five million, in less time"),
    ),
    "graft.inserted_before": LAYERS,
    "graft.inserted_after": LAYERS,
    "training.masking_rate": (Row(0.4, "masked", "a step teaches more than with 0.15", "short"),),
    "training.dropout": (
        Row(0.0, "masked few-passes", "lower where a text is read few times"),
        guess(None, "masked own-dropout", "the source's own: the text is read many times"),
        Row(0.1, "masked", "lower where a text is read many times"),
    ),
    "training.embedding_rate_factor": (
        Row(FASTER, "at-once", "new rows have more to learn than layers"),
    ),
    "training.batch": (
        Row("512 tokens", "short little", "lower than 256, 1,024 and 2,048"),
        Row("1024 tokens", "short", "lower than 2,048"),
        guess(_batch, why="grows with the square root of the budget"),
    ),
    "training.learning_rate": (
        Row(partial(rate_by_step, NARROW_RATE), "narrow at-once !short", "long steps bear more"),
        Row(NARROW_RATE / 2, "narrow at-once", "lowest of 5e-4, 1e-3 and 2e-3"),
        Row(NARROW_RATE / 2, "little-causal at-once", "lowest of 5e-4, 1e-3 and 2e-3"),
        Row(NARROW_RATE, "narrow !keeps", "lowest of 1e-3, 2e-3 and 4e-3"),
        Row(partial(rate_by_step, RATE), "wide at-once !short under-12M", "long steps bear more"),
        Row(RATE / 2, "wide at-once", "lowest of 5e-4, 1e-3 and 2e-3"),
        Row(RATE / 2, "wide !keeps little", "lowest of 5e-4, 1e-3 and 2e-3"),
        Row(RATE, "wide !keeps", "lowest of 5e-4, 1e-3 and 2e-3"),
        guess(partial(rate_by_width, RATE / 2), "at-once", "from width 384, by width"),
        guess(partial(rate_by_width, RATE), why="from width 384, by width"),
    ),
    "training.weight_decay": (
        Row(
            decay_for,
            "narrow many-passes",
            "read many times, text is learnt by heart",
            measured="at-once short !little",
        ),
    ),
    "training.mean_teacher": (
        Row(
            0.5,
            "narrow many-passes words-alone",
            "its labels are less sure of what was learnt by heart",
            measured="at-once short !little",
        ),
    ),
    "training.warmup": (Row(0.1, why="a tenth of a phase, as in all studies"),),
    "training.first_phase_warmup": (Row(0.3, "two-phases", "shorter, some seeds learn nothing"),),
    "training.first_phase_share": (Row(0.4, "two-phases !own-shares", "as in all studies"),),
    "validation.max_sentences": (guess(validated, "timed", "ten take 5 % of the time"),),
    "evaluation.max_sentences": (
        guess(partial(evaluated, "max_sentences", 300), "timed", "all take 10 % of the time"),
    ),
    "evaluation.max_words": (
        guess(partial(evaluated, "max_words", 100), "timed !causal", "all take 10 % of the time"),
    ),
}
"""Rows by key: the first whose words hold decides; `!` negates a word."""


def hold(words: str, known: dict[str, bool]) -> bool:
    """Return whether all words hold, those with `!` not."""
    return all(known[word.removeprefix("!")] != word.startswith("!") for word in words.split())


def defaults(facts: Facts) -> list[Default]:
    """Return what the table decides, in its order: each key once, if it applies."""
    decided, known = [], conditions(facts)
    for key, rows in TABLE.items():
        row = next((row for row in rows if hold(row.when, known)), None)
        if row is None:
            continue
        value = row.value(facts) if callable(row.value) else row.value
        measured = facts.tokens >= LEAST and hold(row.measured, known)
        decided.append(Default(key, value, measured, row.why))
        known["adds"] |= key == "tokenizer.action"
        if key == "training.learning_rate" and facts.rate is None:
            facts = replace(facts, rate=value)
    return decided


def at_steps(facts: Facts, steps: float) -> Facts:
    """Return the facts with the tokens of a budget in steps.

    Where the recipe gives no batch it is the smallest that the table takes for so many steps of it.
    """
    if facts.step is not None:
        return replace(facts, tokens=steps * facts.step)
    for power in range(SMALLEST_STEP, LARGEST_STEP + 1):
        facts = replace(facts, tokens=steps * 2**power)
        chosen = {one.key: one.value for one in defaults(facts)}
        if Batch.model_validate(chosen["training.batch"]).size <= 2**power:
            break
    return facts
