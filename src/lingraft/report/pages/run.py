"""The report: one HTML file that needs nothing else, from the files of one run or several."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError
from lingraft.recipe import decoding
from lingraft.report import (
    advice,
    causal,
    harness,
    numbers,
    page,
    plan,
    plots,
    samples,
    streams,
    tables,
)
from lingraft.report.pages import sections, vocabulary
from lingraft.report.variants import HEADLINE_SCHEME, Variant, headline, kind_of, labelled, writes
from lingraft.report.verdict import verdict
from lingraft.rundir import Run, write_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lingraft.recipe import Recipe


def write(runs: Sequence[Run], out: Path, lm_eval: Sequence[Path] = ()) -> Path:
    """Write the report of one run, or of several side by side.

    Args:
        runs: the first is the main one, whose details are shown; baselines are found by
            themselves. A run that has not ended gives a page that says what is not there yet.
        out: the HTML file.
        lm_eval: results of lm-evaluation-harness beside those in the runs, files or folders.

    Returns:
        `out`.

    Raises:
        DataError: no run, a folder that is not a run, or a broken file of results.
    """
    if not runs:
        raise DataError("report: no run given; name at least one folder that lingraft adapt wrote")
    variants = labelled(runs)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, page.render("run", **_context(variants, lm_eval)))
    return out


def _context(variants: Sequence[Variant], lm_eval: Sequence[Path]) -> dict[str, Any]:
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
        "next_step": advice.after_run(main, compared.lines[0]),
        "advice": advice.advice(main, compared.lines[0]),
        "advice_heading": tables.advice_heading(compared.lines[0]),
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
        "harness": harness.table_of(harness.collect(variants, lm_eval)),
        "differences": sections.differences(variants),
        "losses": plots.losses(variants),
        "learning_rates": plots.learning_rates(variants),
        "corpus": _corpus(main, tokenizer),
        **_vocabulary(recipe, tokenizer),
        "norms": vocabulary.norms(main),
        "graft": graft,
        "new_layers": sections.new_layers(graft) if graft else None,
        "parameters": sections.parameters(variants),
        "account": sections.account(variants),
        "tensors": sections.tensors(main),
        "provenance": vocabulary.provenance(main, kind),
        "schedule": sections.schedule(variants),
        **_plan(main.run),
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
        "tokenizer_statistics": vocabulary.tokenizer_statistics(tokenizer) if tokenizer else None,
        "vocabulary_facts": vocabulary.vocabulary_facts(recipe, tokenizer) if tokenizer else [],
        "stream_vocabulary": streams.vocabulary(tokenizer),
    }


def _plan(run: Run) -> dict[str, Any]:
    return {
        "plan_choices": plan.choices(run),
        "plan_times": plan.times(run),
        "plan_warnings": plan.warnings(run),
    }


def _facts(main: Variant) -> list[tuple[str, str]]:
    recipe = main.recipe
    started = (main.environment or {}).get("started")
    facts = [
        ("source model", sections.source_name(recipe)),
        ("language" if len(recipe.languages) == 1 else "languages", ", ".join(recipe.languages)),
        ("method", f"{main.title}, preset {recipe.method.preset}"),
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
        "sources": sections.corpus_sources(corpus),
        "splits": sections.corpus_splits(corpus, tokenizer),
        "drops": [
            funnel
            for funnel in (sections.document_drops(corpus), sections.drops(corpus))
            if len(funnel.rows) > 2
        ],
    }
