"""The report: one HTML file that needs nothing else, from the files of one run or several."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from lingraft.recipe import decoding
from lingraft.report import (
    after_run,
    causal,
    choices,
    numbers,
    plots,
    samples,
    streams,
    tables,
    vocabulary,
)
from lingraft.report.page import Folded, Heading, Text, page, section
from lingraft.report.pages import sections
from lingraft.report.variants import kind_of
from lingraft.report.verdict import verdict
from lingraft.rundir import write_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lingraft.recipe import Recipe
    from lingraft.report.page import Part
    from lingraft.report.tables import Comparison
    from lingraft.report.variants import Variant

LOWER = (
    "lower is better; hits@k (per cent) and MRR: higher is better. “unigrams” knows only how often "
    "each token occurs: a model that is not well below it has learnt nothing from context."
)
HOW_TO_READ = {
    "masked": "Masked tokens of held-out text, all of them hidden (mask-only). Bits per character "
    "are measured on whole words and compare across vocabularies; the others do not. PPL, MR and "
    f"bits/char: {LOWER}",
    "causal": "Every token of whole held-out documents, given those before it in its document. "
    "Bits per character count every character and compare across vocabularies; the others do not. "
    f"PPL, MR and bits/char: {LOWER}",
    "seq2seq": "Words of held-out text that the decoder writes, each given those before it, when "
    "spans are hidden from the encoder. They compare only between models with this tokenizer and "
    "these spans. Bits per character are not defined here: the encoder sees most of what is "
    f"written. PPL and MR: {LOWER}",
}
SCHEMES = (
    "bert: 80 % of the predicted tokens are hidden, 10 % replaced, 10 % left visible, as in "
    "training and in the papers; mask-only: all hidden."
)
DECIDED = (
    "Given: the command, the recipe or its method says so. Measured: our studies compared it on "
    "such a source with such a budget; extrapolated: on others."
)
DRAWN = (
    "A stream of N sentences is drawn with a probability that is proportional to N to the power of "
    "α, or by its weight; passes: how often each of its sentences was seen. A draw is a sentence, "
    "or a block of them where the phase joins sentences."
)
ON_COMMON_WORDS = (
    "Bits per character on the words that both can score; a difference below 0 is in favour of "
)


def write(variants: Sequence[Variant], out: Path, compared: Comparison | None = None) -> Path:
    """Write the report of one run, or of several side by side.

    Args:
        variants: labelled; the first is the main one, whose details are shown. A run that has not
            ended gives a page that says what is not there yet.
        out: the HTML file.
        compared: the variants, where they are compared already.

    Returns:
        `out`.
    """
    main, compared = variants[0], compared or tables.compare(variants)
    out.parent.mkdir(parents=True, exist_ok=True)
    text = page(
        sections.title(variants),
        verdict(compared),
        [
            *quality(variants, compared),
            *_differences(variants),
            *_training(variants),
            *_decided(main),
            *_samples(variants),
            *corpus(main),
            *_tokenizer(main),
            *_graft(main),
            *_again(main),
        ],
        facts=_facts(main),
        next_step=after_run.after_run(main, compared.lines[0]),
        made_from="the files of the run",
    )
    write_text(out, text)
    return out


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


def _absent(what: str) -> Text:
    return Text(f"Not there yet: {what}", "absent")


def quality(variants: Sequence[Variant], compared: Comparison) -> list[Part]:
    """Show how good the models are, on every text and beside what they came from."""
    title, main = "How good is it?", variants[0]
    if not compared.unigrams:
        return section(title, _absent("no model of this run has been evaluated."))
    kind = kind_of(main.result("evaluation"))
    judged = causal.models(variants)
    pairs, before = streams.compared(variants), streams.against_source(main)
    note = Text(ON_COMMON_WORDS + f"{main.label}.", "note")
    by_stream = tables.by_stream(compared)
    parts: list[Part] = section(
        title, tables.table_of(compared).filled(), Text(HOW_TO_READ[kind], "note")
    )
    parts += section("Beside the untouched source", causal.text_table(judged), level=3)
    parts += section("The source's language", causal.kept_table(judged), level=3)
    if by_stream:
        own_text = (
            "The first table of this section, the curves' dotted line and the samples are of the "
            f"first stream, {main.recipe.texts[0].name}; the validation loss is the mean over the "
            "streams as they are drawn."
        )
        title = "Bits per character by stream"
        shown = [
            Text(streams.verdict(main.label, pairs)),
            streams.table_of(main.label, pairs, title),
            note,
        ]
        shown = shown if pairs else []
        parts += section("By stream", *shown, by_stream, Text(own_text, "note"), level=3)
    if before:
        told = Text(streams.kept_or_lost(before))
        shown = [told, streams.table_of(main.label, before, "Before and after"), note]
        parts += section("Kept or lost", *shown, level=3)
    if kind == "masked":
        schemes = (tables.by_scheme(variants), Text(SCHEMES, "note"))
        parts.append(Folded("All metrics under both masking schemes", schemes))
    return parts


def _differences(variants: Sequence[Variant]) -> list[Part]:
    differences = sections.differences(variants)
    if differences is None:
        return []
    same = Text("The recipes are the same but for their names.")
    details = f"From here on the details are those of {variants[0].run_name}, where not said "
    return section(
        "What differs between the runs",
        differences if differences.rows else same,
        Text(f"{details}otherwise.", "note"),
    )


def _training(variants: Sequence[Variant]) -> list[Part]:
    main, losses = variants[0], plots.losses(variants)
    nothing = (
        _absent("nothing has been logged (metrics.jsonl).")
        if main.recipe.phases
        else Text("Nothing was trained: the method has no phases.")
    )
    draws = streams.draws(main)
    return [
        *section(
            "Training",
            losses or nothing,
            plots.stream_losses(variants),
            plots.learning_rates(variants),
        ),
        *section("How the streams were drawn", draws, draws and Text(DRAWN, "note"), level=3),
        *section("What trained in each phase", sections.schedule(variants), level=3),
    ]


def _decided(main: Variant) -> list[Part]:
    if (decided := choices.decided(main.run)) is None:
        return []
    took = choices.took(main.run)
    time = Text(f"The whole run took {took}.") if took else None
    return section("What was decided", decided, Text(DECIDED, "note"), time)


def _samples(variants: Sequence[Variant]) -> list[Part]:
    main, title = variants[0], "What it says"
    evaluation, tokenizer = main.result("evaluation"), main.result("tokenizer") or {}
    if evaluation is None:
        return section(title, _absent("there are no samples before the evaluation."))
    if judged := causal.models(variants):
        shown = causal.samples(judged, main.recipe.languages[0])
        note = (
            "Beginnings of held-out documents and what stock generate() writes behind them: token "
            "by token the likeliest (greedy), and one that is drawn (top-p 0.9)."
        )
    else:
        kind = str(tokenizer.get("kind", ""))
        specials = [str(token) for token, _ in tokenizer.get("specials", {}).values()]
        shown = samples.samples(variants, kind, specials)
        sign = "“##” continues a word." if kind == "wordpiece" else "“▁” starts a word."
        note = (
            "Sentences of the test text. Marked tokens were hidden from the models; beneath are "
            f"the five most probable guesses, right ones in bold. {sign}"
        )
    none = Text("The recipe asks for no samples (evaluation.samples = 0).")
    return [Heading(title), Text(note, "note"), *shown] if shown else section(title, none)


def corpus(main: Variant) -> list[Part]:
    """Show what was read, what of it was kept, and why not the rest."""
    title, result = "Corpus", main.result("corpus")
    if result is None:
        return section(title, _absent("the corpus stage has not ended."))
    n_kept = sum(int(split["sentences"]) for split in result["splits"].values())
    counts = (
        f"{numbers.count(result['sentences_in'])} sentences of "
        f"{numbers.count(result['documents'])} documents went in, {numbers.count(n_kept)} were "
        f"kept. Language {result['language']}, written in {', '.join(result['scripts'])}."
    )
    funnels = (sections.document_drops(result), sections.drops(result))
    dropped: list[Part] = [funnel for funnel in funnels if len(funnel.rows) > 2]
    return [
        *section(
            title,
            Text(counts),
            *sections.notices(result),
            sections.corpus_sources(result),
            sections.corpus_splits(result, main.result("tokenizer")),
        ),
        *section("What was left out, and why", *(dropped or [Text("Nothing.")]), level=3),
    ]


def _tokenizer(main: Variant) -> list[Part]:
    title, tokenizer = "Tokenizer", main.result("tokenizer")
    if tokenizer is None:
        return section(title, _absent("the tokenizer stage has not ended."))
    specials = (f"{role} {token} ({at})" for role, (token, at) in tokenizer["specials"].items())
    counts = f"{tokenizer['kind']}, {numbers.count(tokenizer['vocab_size'])} pieces."
    changed = " ".join(vocabulary.facts(tokenizer))
    by_stream = vocabulary.by_stream(tokenizer)
    first = f"Fertility is tokens per word. Beneath: the first stream, {main.recipe.texts[0].name}."
    return section(
        title,
        Text(f"{counts} Special tokens: {', '.join(specials)}."),
        Text(changed) if changed else None,
        by_stream,
        by_stream and Text(first, "note"),
        vocabulary.statistics(tokenizer),
    )


def layers(recipe: Recipe, graft: dict[str, Any]) -> str:
    """Say which layers the model has, and where its embeddings come from."""
    drawn = " with weights drawn anew" if recipe.graft.source_weights == "random" else ""
    return (
        f"{graft['model_type']}: {graft['layers']['source']} source layers{drawn}, "
        f"{sections.new_layers(graft)}. Embeddings: {graft['embeddings']['initializer']}."
    )


def _graft(main: Variant) -> list[Part]:
    title = "Graft"
    graft = main.result("graft")
    if graft is None:
        return section(title, _absent("the graft stage has not ended."))
    kind = str((main.result("tokenizer") or {}).get("kind", ""))
    whole = "The whole list is graft/provenance.tsv. “new ← source” where the two are spelt "
    return [
        *section(
            title,
            Text(layers(main.recipe, graft)),
            *(Text(note, "item") for note in graft["notes"]),
        ),
        *section(
            "Where the embedding rows come from",
            vocabulary.provenance(main, graft, kind),
            Text(f"{whole}differently.", "note"),
            level=3,
        ),
    ]


def _again(main: Variant) -> list[Part]:
    environment, command = main.environment, (main.environment or {}).get("command")
    return section(
        "Environment, and how to run it again",
        Text(str(command), "code") if command else None,
        sections.environment(environment) if environment else _absent("environment.json."),
        Folded("The recipe in full", [Text(decoding.to_toml(main.recipe), "code")]),
    )
