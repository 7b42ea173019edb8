"""The report: one HTML file that needs nothing else, from the files of one run or several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingraft.files import write_text
from lingraft.recipe import PARTS, decoding
from lingraft.recipe.base import described
from lingraft.report import figure, numbers, tables, verdict
from lingraft.report.page import Folded, Heading, PageText, after_run, page, section
from lingraft.report.pages import sections
from lingraft.report.table import Column, Table, table
from lingraft.report.variants import kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lingraft.report.page import Part
    from lingraft.report.tables import Comparison
    from lingraft.report.variants import PhaseRecord, TrainedModel

HOW_TO_READ = {
    "masked": "Masked tokens of held-out text, all of them hidden.",
    "causal": "Every token of whole held-out documents, given those before it.",
    "seq2seq": "Words of held-out text that the decoder writes when spans are hidden from the "
    "encoder.",
}
LOWER = (
    "PPL, MR and bits: lower is better; hits@k (per cent) and MRR: higher is better. Bits compare "
    "across vocabularies, the others do not. “unigrams” knows only how often each token occurs: a "
    "model that is not well below it has learnt nothing from context."
)
SAMPLES = {
    "masked": "Sentences of the test text. Marked tokens were hidden from the models; beneath are "
    "the five most probable guesses, right ones in bold. “▁” starts a word, “##” continues one.",
    "causal": "Beginnings of held-out documents and what generate() writes behind them: token by "
    "token the likeliest (greedy), and one that is drawn (top-p 0.9).",
}
DECIDED = (
    "Given: the command, the recipe or its method says so. Measured: our studies compared it on "
    "such a source with such a budget; extrapolated: on others."
)


def write(models: Sequence[TrainedModel], out: Path, compared: Comparison | None = None) -> Path:
    """Write the report of one run, or of several side by side.

    Args:
        models: labelled; the first is the main one, whose details are shown. A run that has not
            ended gives a page that says what is not there yet.
        out: the HTML file.
        compared: the models, where they are compared already.

    Returns:
        `out`.
    """
    main, compared = models[0], compared or tables.compare(models)
    recipe, environment = main.recipe, main.environment or {}
    facts = [
        ("source model", sections.source_name(recipe)),
        ("language" if len(recipe.languages) == 1 else "languages", ", ".join(recipe.languages)),
        ("method", main.title),
        ("seed", str(recipe.seed)),
        ("started", str(environment.get("started", numbers.ABSENT))),
    ]
    text = page(
        sections.title(models),
        verdict.verdict(compared),
        [
            *quality(models, compared),
            *_training(models),
            *_decided(main),
            *_samples(models),
            *corpus(main),
            *_tokenizer(main),
            *_graft(main),
            *section(
                "Environment, and how to run it again",
                PageText(str(environment.get("command", "")), "code"),
                PageText(_environment(environment)),
                Folded("The recipe in full", [PageText(decoding.to_toml(recipe), "code")]),
            ),
        ],
        facts=facts,
        next_step=after_run(main, compared.lines[0]),
        made_from="the files of the run",
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, text)
    return out


def _absent(title: str, stage: str) -> list[Part]:
    return section(title, PageText(f"Not there yet: the {stage} stage has not ended.", "absent"))


def quality(models: Sequence[TrainedModel], compared: Comparison) -> list[Part]:
    """Show how good the models are, on every text and beside what they came from."""
    title, main = "How good is it?", models[0]
    if not compared.references:
        return _absent(title, "evaluation")
    pairs = verdict.compared_streams(models)
    kind = kind_of(main.result("evaluation"))
    return [
        *section(
            title,
            tables.table_of(compared).filled(),
            PageText(f"{HOW_TO_READ[kind]} {LOWER}", "note"),
        ),
        *section("The source's language", sections.kept_table(models), level=3),
        *section("Answers", sections.answers_table(models), level=3),
        *section(
            "By stream",
            PageText(verdict.verdict_of_streams(main.label, pairs)) if pairs else None,
            verdict.streams_table(main.label, pairs),
            level=3,
        ),
    ]


def _training(models: Sequence[TrainedModel]) -> list[Part]:
    main, losses = models[0], figure.losses(models)
    why = "not there yet" if main.recipe.phases else "the method has no phases"
    nothing = PageText(f"Nothing was trained: {why}.", "absent")
    return [
        *section("Training", losses or nothing),
        *section("What trained in each phase", schedule(models), level=3),
    ]


def schedule(models: Sequence[TrainedModel]) -> Table:
    """Say what each phase trained, how long, and how it ended."""
    texts = (Column("phase", "text"), Column("trains", "long"))
    budget = ("trainable", "objective", "peak rate", "steps", "tokens", "time")
    head = ("model", *texts, *budget, "best loss", "ended by")
    rows = [_phase_row(model, phase) for model in models for phase in model.phases]
    return table("Phases", head, rows)


def _phase_row(model: TrainedModel, phase: PhaseRecord) -> tuple[str, ...]:
    plan, result = phase.plan, phase.result or {}
    trained = result.get("train") or plan.train
    trained = ("everything",) if set(trained) == set(PARTS) else trained
    by_lora = plan.lora.parts if plan.lora else ()
    logged = [int(row["step"]) for row in (*phase.train, *phase.valid)]
    best = result.get("best") or {}
    return (
        model.label,
        phase.name,
        described([str(part).replace("_", " ") for part in trained], by_lora) or numbers.ABSENT,
        numbers.short(result.get("trainable_parameters")),
        plan.objective,
        plan.optimizer.peaks,
        numbers.count(result.get("steps", max(logged, default=None))),
        numbers.short(phase.tokens),
        numbers.duration(result.get("seconds")),
        numbers.fixed(best.get("loss"), 3),
        str(result.get("stopped") or ("under way" if logged else "not begun")),
    )


def _decided(main: TrainedModel) -> list[Part]:
    decided, took = sections.decided(main.run), sections.time_taken(main.run)
    time = PageText(f"The whole run took {took}.") if took else None
    return section("What was decided", decided, PageText(DECIDED, "note"), time) if decided else []


def _samples(models: Sequence[TrainedModel]) -> list[Part]:
    main, title = models[0], "What it says"
    evaluation, tokenizer = main.result("evaluation"), main.result("tokenizer") or {}
    if evaluation is None:
        return _absent(title, "evaluation")
    is_causal = kind_of(evaluation) == "causal"
    if is_causal:
        shown = sections.continuations_shown(models, main.recipe.languages[0])
    else:
        specials = [str(token) for token, _ in tokenizer.get("specials", {}).values()]
        shown = sections.guesses_shown(models, str(tokenizer.get("kind", "")), specials)
    note = PageText(SAMPLES["causal" if is_causal else "masked"], "note")
    return [Heading(title), note, *shown] if shown else []


def corpus(main: TrainedModel) -> list[Part]:
    """Show what was read, what of it was kept, and why not the rest."""
    title, result = "Corpus", main.result("corpus")
    if result is None:
        return _absent(title, "corpus")
    tokens = (main.result("tokenizer") or {}).get("tokens", {})
    return [
        *section(
            title,
            PageText(
                f"Language {result['language']}, written in {', '.join(result['scripts'])}; "
                f"{numbers.count(result['sentences_in'])} sentences of "
                f"{numbers.count(result['documents'])} documents went in."
            ),
            *sections.notices(result),
            sections.corpus_sources(result["sources"]),
            sections.corpus_splits(result, tokens),
        ),
        *section("What was left out, and why", sections.left_out(result), level=3),
    ]


def tokenizer_text(tokenizer: dict[str, Any]) -> str:
    """Say how many pieces a vocabulary has, and what became of the source's."""
    counts = (f", {key} {n}" for key, n in (tokenizer.get("extension") or {}).items())
    return f"{tokenizer['kind']}, {numbers.count(tokenizer['vocab_size'])} pieces{''.join(counts)}."


def _tokenizer(main: TrainedModel) -> list[Part]:
    title, tokenizer = "Tokenizer", main.result("tokenizer")
    if tokenizer is None:
        return _absent(title, "tokenizer")
    specials = (f"{role} {token} ({at})" for role, (token, at) in tokenizer["specials"].items())
    text = f"{tokenizer_text(tokenizer)} Special tokens: {', '.join(specials)}."
    return section(title, PageText(text), sections.statistics(tokenizer))


def layers(main: TrainedModel, graft: dict[str, Any]) -> str:
    """Say which layers the model has, and where its embeddings come from."""
    drawn = " with weights drawn anew" if main.recipe.graft.source_weights == "random" else ""
    counts = graft["layers"]
    between = f", {counts['between']} between" if "between" in counts else ""
    return (
        f"{graft['model_type']}: {counts['source']} source layers{drawn}, {counts['before']} new "
        f"before{between} and {counts['after']} after them. "
        f"Embeddings: {graft['embeddings']['initializer']}."
    )


def _graft(main: TrainedModel) -> list[Part]:
    title, graft = "Graft", main.result("graft")
    if graft is None:
        return _absent(title, "graft")
    return section(
        title,
        PageText(layers(main, graft)),
        *(PageText(note, "item") for note in graft["notes"]),
        PageText("Rows of the embeddings, each of which stands in graft/provenance.tsv:"),
        sections.rows_by_rule(graft["embeddings"]["provenance"]),
    )


def _environment(values: dict[str, Any]) -> str:
    """Name the machine and the versions; the command stands on its own."""
    return ", ".join(f"{key} {value}" for key, value in values.items() if key != "command")
