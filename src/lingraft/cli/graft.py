"""`lingraft graft`: it parses, calls and prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingraft.cli import options as ask, parsing
from lingraft.files import check_free
from lingraft.recipe import Recipe
from lingraft.report import next_step

if TYPE_CHECKING:
    from lingraft.pipeline.grafted import GraftReport


@parsing.takes(lambda: (Recipe,), listed=False)
def command(
    source: ask.Model,
    out_dir: ask.NewFolder,
    settings: ask.RecipeKeys = None,
    tokenizer: str | None = None,
    text: ask.Text = None,
    lang: ask.Lang = None,
    init: str = "focus",
) -> dict[str, Any]:
    """Give a model another vocabulary: tokenizer and embeddings, without training.

    A tokenizer:  lingraft graft FacebookAI/roberta-base --tokenizer klue/roberta-base --text ko/
        --out models/ko

    Trained here: lingraft graft FacebookAI/roberta-base --text ko/ --lang ko --init mean
        --out models/ko

    What comes out is OUT, which transformers loads, with OUT/report.json (what became of every
    tensor) and OUT/provenance.tsv (where every embedding row came from).

    Options:
        tokenizer: The new vocabulary: a folder, or a Hub id. Without, one is trained on --text.
        init: How new rows start: one of `show initializers`.
    """
    from lingraft.pipeline import untrained

    check_free(out_dir, "choose another --out")
    model, made, report = untrained.graft(
        source, tokenizer, text or [], language=lang, init=init, settings=settings or []
    )
    untrained.save(model, made, report, out_dir, source)
    show(report)
    train = ("adapt", "--source", out_dir, "--method", "continued", "--text", *(text or ["TEXT"]))
    step = next_step.command(*train, "--lang", lang or "LANG", "--budget", "1h", "--out", "RUN")
    parsing.summary(
        ("what", f"{source}: {report.origin.size:,} → {report.target.size:,} pieces"),
        ("model", out_dir),
        ("report", out_dir / "report.json"),
        next_step=next_step.NextStep("Train it:", step),
    )
    return report.facts


def show(report: GraftReport) -> None:
    """Print what the rows and the tensors were made of, and what to know of it."""
    from lingraft.report.pages.sections import rows_by_rule

    parsing.show(rows_by_rule(report.counts))
    tensors = report.summary["tensors"].items()
    told = ", ".join(f"{number:,} {kind}" for kind, number in tensors if number)
    parsing.line(f"tensors: {told}")
    for note in report.notes:
        parsing.line(note)
