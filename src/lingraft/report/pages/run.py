"""The report: one HTML file that needs nothing else, from the files of one run or several."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError
from lingraft.recipe import decoding
from lingraft.report import (
    after_run,
    causal,
    choices,
    numbers,
    page,
    plots,
    samples,
    streams,
    tables,
)
from lingraft.report.pages import sections
from lingraft.report.pieces import readable
from lingraft.report.table import Column, Row, Table, row, table
from lingraft.report.variants import HEADLINE_SCHEME, Variant, headline, kind_of, labelled, writes
from lingraft.report.verdict import verdict
from lingraft.rundir import Run, write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lingraft.recipe import Recipe


def write(runs: Sequence[Run], out: Path) -> Path:
    """Write the report of one run, or of several side by side.

    Args:
        runs: the first is the main one, whose details are shown; baselines are found by
            themselves. A run that has not ended gives a page that says what is not there yet.
        out: the HTML file.

    Returns:
        `out`.

    Raises:
        DataError: no run, or a folder that is not a run.
    """
    if not runs:
        raise DataError("report: no run given; name at least one folder that lingraft adapt wrote")
    variants = labelled(runs)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, page.render("run", **_context(variants)))
    return out


def _context(variants: Sequence[Variant]) -> dict[str, Any]:
    main = variants[0]
    recipe = main.recipe
    tokenizer, graft = main.result("tokenizer"), main.result("graft")
    evaluation = main.result("evaluation")
    kind = str(tokenizer["kind"]) if tokenizer else ""
    specials = [str(token) for token, _ in tokenizer["specials"].values()] if tokenizer else []
    compared = tables.compare(variants)
    pairs, before = streams.compared(variants), streams.against_source(main)
    sample_models, sentences = samples.samples(variants, kind, specials)
    return {
        "title": sections.title(variants),
        "verdict": verdict(compared),
        "next_step": after_run.after_run(main, compared.lines[0]),
        "facts": _facts(main),
        "main": main,
        "recipe": recipe,
        "stages": sections.stages(main),
        "made_from": "the files of the run",
        "comparison": compared,
        "compared": tables.table_of(compared).filled(),
        "scheme": headline(evaluation) if evaluation else HEADLINE_SCHEME,
        "writes": writes(evaluation),
        "predicts": kind_of(evaluation) == "causal",
        "schemes": sections.schemes(variants),
        "languages": sections.languages(variants),
        "stream_verdict": streams.verdict(main.label, pairs),
        "stream_pairs": streams.table_of(main.label, pairs, "Bits per character by stream"),
        "kept": streams.kept_or_lost(before) if before else "",
        "kept_pairs": streams.table_of(main.label, before, "Before and after"),
        "stream_draws": streams.draws(main),
        "stream_curves": streams.curves(variants),
        "lexicons": streams.lexicons(main),
        "causal": causal.section(variants),
        "differences": sections.differences(variants),
        "losses": plots.losses(variants),
        "learning_rates": plots.learning_rates(variants),
        "corpus": _corpus(main, tokenizer),
        **_vocabulary(recipe, tokenizer),
        "norms": norms(main),
        "graft": graft,
        "new_layers": sections.new_layers(graft) if graft else None,
        "parameters": sections.parameters(variants),
        "account": sections.account(variants),
        "tensors": sections.tensors(main),
        "provenance": provenance(main, kind),
        "schedule": sections.schedule(variants),
        "decided": choices.decided(main.run),
        "took": choices.took(main.run),
        "sample_models": sample_models,
        "samples": sentences,
        "environment": sections.environment(main.environment) if main.environment else None,
        "command": (main.environment or {}).get("command"),
        "recipe_toml": decoding.to_toml(recipe),
        "number": numbers,
    }


def _vocabulary(recipe: Recipe, tokenizer: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "tokenizer": tokenizer,
        "tokenizer_statistics": tokenizer_statistics(tokenizer) if tokenizer else None,
        "vocabulary_facts": vocabulary_facts(recipe, tokenizer) if tokenizer else [],
        "stream_vocabulary": streams.vocabulary(tokenizer),
    }


def _facts(main: Variant) -> list[tuple[str, str]]:
    recipe = main.recipe
    started = (main.environment or {}).get("started")
    facts = [
        ("source model", sections.source_name(recipe)),
        ("language" if len(recipe.languages) == 1 else "languages", ", ".join(recipe.languages)),
        ("method", f"{main.title}, preset {recipe.training.preset}"),
        ("seed", str(recipe.seed)),
    ]
    if started:
        facts.append(("started", f"{datetime.fromisoformat(started):%Y-%m-%d %H:%M %Z}"))
    return facts


def _corpus(main: Variant, tokenizer: dict[str, Any] | None) -> dict[str, Any] | None:
    corpus = main.result("corpus")
    if corpus is None:
        return None
    n_kept = sum(int(split["sentences"]) for split in corpus["splits"].values())
    return {
        "language": str(corpus["language"]),
        "scripts": ", ".join(str(script) for script in corpus["scripts"]),
        "documents": numbers.count(corpus["documents"]),
        "sentences_in": numbers.count(corpus["sentences_in"]),
        "kept": numbers.count(n_kept),
        "notices": [*corpus.get("guesses", ()), *corpus.get("notices", ())],
        "sources": sections.corpus_sources(corpus),
        "splits": sections.corpus_splits(corpus, tokenizer),
        "drops": [
            funnel
            for funnel in (sections.document_drops(corpus), sections.drops(corpus))
            if len(funnel.rows) > 2
        ],
    }


EXAMPLES_PER_RULE = 6
NUMBER, SHARE = partial(numbers.fixed, decimals=2), partial(numbers.percent, decimals=2)
STATISTICS: tuple[tuple[str, str, Callable[[float | None], str]], ...] = (
    ("tokens_per_word", "tokens per word (fertility)", NUMBER),
    ("characters_per_token", "characters per token", NUMBER),
    ("bytes_per_token", "bytes per token", NUMBER),
    ("unknown_rate", "unknown tokens", SHARE),
    ("character_coverage", "characters covered", SHARE),
    ("marks_kept", "accents, vowel signs and joiners kept", SHARE),
    ("text_kept", "characters that come back", SHARE),
    ("round_trip", "sentences that come back exactly", SHARE),
    ("sentences", "sentences measured", numbers.count),
    ("tokens", "tokens", numbers.count),
)


def tokenizer_statistics(tokenizer: dict[str, Any]) -> Table:
    """The new tokenizer beside the source's, on text it was trained on and on text it was not."""
    columns = [
        ("new, train", tokenizer["statistics"]["train"]),
        ("new, held out", tokenizer["statistics"]["test"]),
    ]
    source = tokenizer.get("source_statistics")
    if source is not None:
        columns += [("source, train", source["train"]), ("source, held out", source["test"])]
    rows = [
        (title, *(show(column.get(key)) for _, column in columns))
        for key, title, show in STATISTICS
    ]
    return table("Tokenizer statistics", ("", *(name for name, _ in columns)), rows)


def vocabulary_facts(recipe: Recipe, tokenizer: dict[str, Any]) -> list[str]:
    """What became of the source's vocabulary, a sentence each; empty for one of its own."""
    counts = tokenizer.get("extension")
    if counts is None:
        return []
    facts = [f"{numbers.count(counts['source'])} pieces of the source's."]
    if "removed" in counts:
        facts = [f"Of {facts[0][:-1]}, {numbers.count(counts['removed'])} are left out."]
    elif counts["added"]:
        facts.append(
            f"{numbers.count(counts['added'])} added, of which no text can give "
            f"{numbers.count(counts['unreachable'])}."
        )
    streams = tokenizer.get("streams") or {recipe.languages[0]: tokenizer}
    measured = {f"held-out text of {name}": stats.get("changed") for name, stats in streams.items()}
    measured["embeddings.source_text"] = tokenizer.get("source_text")
    return facts + [
        f"In {name}, {numbers.percent(stats['changed'], 2)} of the source's "
        f"{numbers.count(stats['tokens'])} tokens are others now."
        for name, stats in measured.items()
        if stats is not None
    ]


def norms(variant: Variant) -> Table | None:
    """Lengths of the embedding rows by where they came from; None where nobody measured them."""
    embeddings = (variant.result("graft") or {}).get("embeddings", {})
    sides = {"word embeddings": embeddings, "output projection": embeddings.get("output", {})}
    rows: list[Row] = []
    for name, side in sides.items():
        if (lengths := side.get("norms")) is None:
            continue
        source = numbers.significant(lengths["source"])
        rows.append(row(name, "source's", numbers.ABSENT, source, source))
        rows += [
            row(
                name,
                rule,
                numbers.count(group["rows"]),
                numbers.significant(group["before"]),
                numbers.significant(group["after"]),
            )
            for rule, group in lengths["groups"].items()
        ]
    columns = ("matrix", Column("rows that are", "text"), "rows", "as made", "as they start")
    return table("Median lengths of the rows", columns, rows) if rows else None


def provenance(variant: Variant, kind: str) -> Table | None:
    """By which rule the rows of the embedding matrix came to be, with a few pieces for each."""
    graft = variant.result("graft")
    if graft is None:
        return None
    counts = {str(rule): int(n) for rule, n in graft["embeddings"]["provenance"].items()}
    total = max(sum(counts.values()), 1)
    section = variant.recipe.tokenizer
    own = section.action == "use" or section.algorithm != "source"  # writes its pieces its own way
    source_kind = "" if own else kind
    examples = _examples(variant.run.stage("graft").path / "provenance.tsv", kind, source_kind)
    rows = [
        (rule, numbers.count(n), numbers.percent(n / total), "  ".join(examples.get(rule, ())))
        for rule, n in sections.by_count(counts).items()
    ]
    examples_column = Column("for example", "long", lang=variant.recipe.languages[0])
    title = "Provenance of the embeddings"
    return table(title, ("rule", "rows", "share", examples_column), rows)


def _examples(path: Path, kind: str, source_kind: str) -> dict[str, list[str]]:
    """The first pieces of each rule; 'new ← source' where the two are spelt differently."""
    examples: dict[str, list[str]] = {}
    if not path.is_file():
        return examples
    with path.open(encoding="utf-8", newline="\n") as file:
        next(file, None)
        for line in file:
            _, piece, rule, _, source_piece = (*line.rstrip("\n").split("\t"), "", "", "", "", "")[
                :5
            ]
            pieces = examples.setdefault(rule, [])
            if len(pieces) < EXAMPLES_PER_RULE:
                new, old = readable(piece, kind), readable(source_piece, source_kind)
                pieces.append(new if old in ("", new) else f"{new} ← {old}")
    return examples
