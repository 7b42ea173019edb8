"""Names and tables that pages and cards of runs, and pages of corpora, share.

Tables of what a causal model kept of the source's language, and texts that it writes.

Masked sentences with what each model guesses, for the page.

Tables of a run's vocabulary and of its embedding rows; vocabulary pieces as people read them.

Decisions on a recipe, from choices.json: for the log and for the page.
"""

from __future__ import annotations

import logging
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from lingraft.corpus.cleaning.clean import REASONS
from lingraft.corpus.readers.columns import HUB_PREFIX
from lingraft.corpus.result import HELD_OUT, NOT_IN_SUBSET
from lingraft.recipe.base import DRAWN
from lingraft.report import numbers
from lingraft.report.page import PageText, section
from lingraft.report.table import Column, Table, TableCell, row, table
from lingraft.report.variants import evaluated
from lingraft.rundir import read_json, write_record
from lingraft.stats import Resampling
from lingraft.tokenizer.state import WORD_START

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lingraft.recipe import Recipe
    from lingraft.report.page import Part
    from lingraft.report.variants import TrainedModel
    from lingraft.rundir import Run

logger = logging.getLogger(__name__)


HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def title(models: Sequence[TrainedModel]) -> str:
    """Name what was made of what, or which runs are compared."""
    names = [model.run_name for model in models if not model.is_baseline]
    if len(names) > 1:
        return f"{len(names)} runs compared: {', '.join(names)}"
    recipe = models[0].recipe
    return f"{recipe.name}: {source_name(recipe)} → {', '.join(recipe.languages)}"


def source_name(recipe: Recipe) -> str:
    """Name what the run starts from, without the folders of this machine."""
    model = recipe.source.model
    if model is None:
        name = str((recipe.source.architecture or {})["model_type"])
    else:
        parts = Path(model).parts[-2:]
        folder = "/".join(parts if parts[-1] in ("model", "best") else parts[-1:])
        name = model if on_hub(model) else folder
    return name if takes_weights(recipe) else f"{name} (architecture only, random weights)"


def takes_weights(recipe: Recipe) -> bool:
    """Say whether the model has anything of the source's weights, or learns from them."""
    embeddings = recipe.embeddings
    pretrained = recipe.graft.source_weights == "pretrained" or embeddings.copies_special_tokens
    taught = any(phase.distil for phase in recipe.phases)
    rows = any(initializer not in DRAWN for initializer in embeddings.initializers)
    return recipe.source.model is not None and (pretrained or rows or taught)


def on_hub(name: str | None) -> bool:
    """Say whether a model's name is an id on the Hub, and no local directory."""
    return name is not None and HUB_ID.fullmatch(name) is not None and not Path(name).exists()


def notices(corpus: dict[str, Any]) -> list[PageText]:
    """Return what was guessed of the files, and what to know of the text."""
    return [
        PageText(told, "strong") for key in ("guesses", "notices") for told in corpus.get(key, ())
    ]


def corpus_sources(sources: Sequence[Mapping[str, Any]]) -> Table:
    """List files that were read, without the folders of this machine."""
    rows = []
    for source in sources:
        name = str(source["name"])
        name = name if name.startswith(HUB_PREFIX) else Path(name).name
        rows.append((name, numbers.size(source["bytes"]), numbers.count(source["documents"])))
    return table("Sources of the text", ("source", "size", "documents"), rows)


def corpus_splits(corpus: dict[str, Any], tokens: Mapping[str, Any]) -> Table:
    """Count what trains and what is held out; tokens by split where they are known."""
    head = ("split", "documents", "sentences", "characters", "tokens", "cut")
    rows = [
        (
            name,
            *(numbers.count(split[key]) for key in head[1:4]),
            *(numbers.count(tokens.get(name, {}).get(key)) for key in head[4:]),
        )
        for name, split in corpus["splits"].items()
    ]
    return table("Splits", head, rows).filled()


def left_out(corpus: dict[str, Any]) -> Table:
    """Count what was left out by reason, the commonest first."""
    counts = by_count(corpus["dropped"] | corpus.get("subset", {}))
    named = {f"{name}{unit_of(name)}": n for name, n in counts.items() if n > 0}
    return bars("Left out", ("reason", "sentences, or documents"), named)


def unit_of(reason: str) -> str:
    """Say that whole documents are left out for a reason; nothing of single sentences."""
    return "" if reason in (*REASONS, HELD_OUT, NOT_IN_SUBSET) else " (documents)"


def by_count(counts: Mapping[str, int]) -> dict[str, int]:
    """Put the largest first."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def bars(title: str, head: tuple[str, str], counts: Mapping[str, int], total: int = 0) -> Table:
    """Draw a bar a row, the longest over the whole width.

    Args:
        title: of the table.
        head: what the names and the counts are.
        counts: by name, in the order of the rows.
        total: what the shares are of; 0 takes the sum of the counts.
    """
    whole, most = total or sum(counts.values()), max(counts.values(), default=1)
    rows = []
    for name, n in counts.items():
        width = round(100 * n / max(most, 1), 2)
        share = numbers.percent(n / max(whole, 1))
        rows.append(row(name, numbers.count(n), share, TableCell("", width=width)))
    return table(title, (*head, "share", Column("", "bar")), rows)


SOURCE = "source untouched"


def kept_table(models: Sequence[TrainedModel]) -> Table | None:
    """Show the source's language before and after, on the same texts."""
    rows = []
    for model, evaluation in evaluated(models):
        untouched = evaluation.get("untouched") or {}
        for name, result in evaluation.get("kept", {}).items():
            before, bounds, source_bits, gain = untouched.get("kept", {}).get(name), "", None, None
            model_bits = result["likelihood"]["bits_per_byte"]
            if before and before["text"] == result["text"]:
                source_bits = before["likelihood"]["bits_per_byte"]
                gain = model_bits - source_bits
                own, other = (
                    side["blocks"][f"kept/{name}"]["bits_per_byte"]
                    for side in (evaluation, untouched)
                )
                if found := Resampling().between_blocks(own, other):
                    bounds = numbers.between(found.low, found.high, 3, sign=True)
            shown = (numbers.fixed(source_bits, 3), numbers.fixed(model_bits, 3))
            size = numbers.count(result["likelihood"]["bytes"])
            difference = (numbers.signed(gain, 3), bounds or numbers.ABSENT)
            rows.append(row(name, model.label, size, *shown, *difference))
    head = ("text", Column("model", "text"), "bytes", "before", "after", "difference")
    notes = ("Bits per byte of the source and of the model on the same bytes; above 0 is a loss.",)
    return table("Source language kept", (*head, "95 % interval"), rows, notes) if rows else None


def answers_table(models: Sequence[TrainedModel]) -> Table | None:
    """Show how a chat model and its source end their answers, on the same prompts."""
    rows = [
        row(label, one["prompts"], *(numbers.percent(one[key]) for key in ("stopped", "form")))
        for model, evaluation in evaluated(models)
        for label, side in ((SOURCE, evaluation.get("untouched")), (model.label, evaluation))
        if (one := (side or {}).get("chat"))
    ]
    head = (Column("model", "text"), "prompts", "answers that end", "as a turn ends")
    notes = ("An answer as a turn ends has text, no other special token, and the end of a turn.",)
    return table("Answers to prompts", head, rows, notes) if rows else None


def continuations_shown(models: Sequence[TrainedModel], lang: str) -> list[Part]:
    """Show beginnings of documents with what each model, and its source, writes behind them."""
    sides: dict[str, dict[str, Any]] = {}
    for model, evaluation in evaluated(models):
        sides[model.label] = evaluation
        sides.setdefault(SOURCE, evaluation.get("untouched") or {})
    parts: list[Part] = []
    for number, sample in enumerate(sides[models[0].label].get("generated", ()), start=1):
        rows = [
            (label, mode, one[mode])
            for label, side in sides.items()
            for one in side.get("generated", ())
            if one["beginning"] == sample["beginning"]
            for mode in ("greedy", "drawn")
        ]
        text = Markup("{beginning}<mark>{written}</mark>").format_map(sample)
        head = ("model", Column("how", "text"), Column("continuation", "long", lang=lang))
        written = table(f"Continuations of document {number}", head, rows)
        sentence = PageText(text, "sentence", lang)
        parts += section(f"Document {number}", sentence, written, level=3)
    return parts


GUESS = Markup('<span class="guess{}"><bdi>{}</bdi> <small>{}</small></span> ')
BLANK = Markup("{}<mark>{}<sup>{}</sup></mark>")
GOLD = Markup("<bdi>{}</bdi><sup>{}</sup>")


def guesses_shown(models: Sequence[TrainedModel], kind: str, specials: Sequence[str]) -> list[Part]:
    """Show the main model's masked sentences, with the guesses of all that saw the same masks.

    Args:
        models: the first is the main one.
        kind: of its tokenizer.
        specials: tokens that are not shown.
    """
    pairs = evaluated(models)
    _, main = pairs[0]
    same = {
        model.label: {sample["text"]: sample["predictions"] for sample in evaluation["samples"]}
        for model, evaluation in pairs
        if evaluation["masks"]["fingerprint"] == main["masks"]["fingerprint"]
    }
    lang = models[0].recipe.languages[0]
    parts: list[Part] = []
    for number, sample in enumerate(main["samples"], start=1):
        gold = {int(one["index"]): str(one["gold"]) for one in sample["predictions"]}
        places = {index: place for place, index in enumerate(sorted(gold), start=1)}
        text = Markup().join(
            _token(running(gold.get(index, piece), kind), places.get(index))
            for index, (piece, _) in enumerate(sample["tokens"])
            if index in gold or piece not in specials
        )
        guesses = [_by_index(texts.get(sample["text"], ())) for texts in same.values()]
        rows = [
            row(
                GOLD.format(gold[index], place),
                *(_guesses(of_model.get(index, ()), gold[index]) for of_model in guesses),
            )
            for index, place in places.items()
        ]
        head = (Column("hidden", "text", lang=lang), *(Column(m, "long", lang=lang) for m in same))
        guessed = table(f"Predictions for sentence {number}", head, rows)
        parts += section(f"Sentence {number}", PageText(text, "sentence", lang), guessed, level=3)
    return parts


def _by_index(predictions: Sequence[Mapping[str, Any]]) -> dict[int, Sequence[Any]]:
    return {int(prediction["index"]): prediction["top"] for prediction in predictions}


def _token(text: str, blank: int | None) -> Markup:
    space = " " if text.startswith(" ") else ""
    return escape(text) if blank is None else BLANK.format(space, text.strip(), blank)


def _guesses(top: Sequence[Sequence[Any]], gold: str) -> TableCell:
    """Show guesses in order, the right one marked."""
    shown = (
        GUESS.format(" right" if piece == gold else "", piece, numbers.percent(float(share), 0))
        for piece, share in top
    )
    return TableCell(Markup().join(shown) or numbers.ABSENT)


NUMBER, SHARE = partial(numbers.fixed, decimals=2), partial(numbers.percent, decimals=2)
STATISTICS: tuple[tuple[str, str, Callable[[float | None], str]], ...] = (
    ("tokens_per_word", "tokens per word (fertility)", NUMBER),
    ("characters_per_token", "characters per token", NUMBER),
    ("unknown_rate", "unknown tokens", SHARE),
    ("character_coverage", "characters covered", SHARE),
    ("marks_kept", "accents, vowel signs and joiners kept", SHARE),
    ("text_kept", "characters that come back", SHARE),
    ("round_trip", "sentences that come back exactly", SHARE),
)


def running(piece: str, kind: str) -> str:
    """Return a readable piece as part of a sentence: with the space that it stands for."""
    if kind == "wordpiece":
        return piece.removeprefix("##") if piece.startswith("##") else f" {piece}"
    return piece.replace(WORD_START, " ")


def statistics(tokenizer: dict[str, Any]) -> Table:
    """Measure the new tokenizer beside the source's on held-out text, of each stream."""
    texts = tokenizer.get("streams") or {"": tokenizer}
    columns = [
        (" ".join(filter(None, (which, name))), of_text[key]["test"])
        for name, of_text in texts.items()
        for which, key in (("new", "statistics"), ("source", "source_statistics"))
        if of_text.get(key)
    ]
    rows = [
        (title, *(show(column.get(key)) for _, column in columns))
        for key, title, show in STATISTICS
    ]
    return table("Tokenizer on held-out text", ("", *(name for name, _ in columns)), rows)


def rows_by_rule(counts: Mapping[str, int]) -> Table:
    """Count embedding rows by the rule that made them."""
    total = max(sum(counts.values()), 1)
    ranked = by_count(counts).items()
    rows = [(rule, numbers.count(n), numbers.percent(n / total)) for rule, n in ranked]
    return table("Embeddings", ("rule", "rows", "share"), rows)


def lines(choices: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what was decided, a line a key; nothing where the recipe left nothing open."""
    decided = [
        f"  {one['key']} = {one['value']} ({one['source']}; {one['why']})" for one in choices
    ]
    return ["decided by source, text and budget:", *decided] if decided else []


def _record(run: Run) -> dict[str, Any]:
    return read_json(run.choices_path) if run.choices_path.is_file() else {}


def decided(run: Run) -> Table | None:
    """Return what was decided of a run's recipe; None where it left nothing open."""
    keys = ("key", "value", "source", "why")
    rows = [[str(one[key]) for key in keys] for one in _record(run).get("choices", ())]
    columns = (Column(name, "long" if name == "why" else "text") for name in keys)
    return table("What was decided", columns, rows) if rows else None


def note_time(run: Run, took: float, seconds: float) -> None:
    """Write down how long a run took whose budget is in time, and say it."""
    write_record(run.choices_path, _record(run) | {"took": took, "seconds": seconds})
    logger.log(logging.WARNING if took > seconds else logging.INFO, "time: %s", time_taken(run))


def time_taken(run: Run) -> str:
    """Return how long a run took beside its budget in time; empty where it has none."""
    record = _record(run)
    if "took" not in record:
        return ""
    return f"{numbers.duration(record['took'])} of {numbers.duration(record['seconds'])}"
