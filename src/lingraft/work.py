"""Functions that do what the commands beside `adapt` and `graft` do; `lingraft` has them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.config import names_of
from lingraft.evaluation.settings import Scoring
from lingraft.guest import as_guest
from lingraft.recipe import Corpus, decoding
from lingraft.run import scores_frame

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from lingraft.config import Paths, Texts


def evaluate(  # noqa: PLR0913 - the keys of [evaluation]
    model: str | Path,
    text: Texts,
    *,
    against: Sequence[str | Path] = (),
    language: str = "und",
    max_sentences: int = 10_000,
    masking_rate: float = 0.15,
    max_words: int = 2_000,
    seed: int = 0,
    precision: str = "auto",
) -> dict[str, Any]:
    """Score a masked or causal language model on text that it has not seen.

    `lingraft.evaluate("runs/ko/model", "held-out.txt", language="ko")["metrics"]`.

    Args:
        model: folder or Hub id.
        text: files or folders.
        against: other models of the same kind, to compare on the same text.
        language: of the text, for sentence splitting.
        max_sentences: read at most so many; of a causal model documents of about as many.
        masking_rate: share of the tokens that is hidden from a masked model.
        max_words: words scored for a masked model's bits per character; 0: none.
        seed: of a masked model's masks.
        precision: auto, bf16 or fp32.

    Returns:
        Plain data: metrics (perplexity; hits in per cent), words (bits_per_character), tokens …;
        of a causal model likelihood (bits_per_byte) too.

    Raises:
        LingraftError: the model or the text cannot be used.
    """
    from lingraft.pipeline import standalone

    with as_guest():
        scoring: dict[str, Any] = {
            "max_sentences": max_sentences,
            "masking_rate": masking_rate,
            "seed": seed,
        }
        scoring |= {"max_words": max_words, "precision": precision}
        names = [str(model), *map(str, against)]
        given = decoding.checked(Scoring, scoring, "evaluate")
        return standalone.evaluate(names, names_of(text), language, given)


def finetune(
    models: str | Path | Sequence[str | Path],
    task: str | Sequence[str] = (),
    data: str | Path | None = None,
    out: str | Path = "runs/finetune",
    *,
    settings: Mapping[str, Any] | Sequence[str] = (),
    update: bool = False,
    force: bool = False,
) -> pd.DataFrame:
    """Fine-tune models on tasks with several seeds; seeds that are done are kept.

    `lingraft.finetune("runs/ko/model", ["klue-nli"], "data", settings={"seeds": 3})`, or
    `lingraft.finetune("tasks.toml")`.

    Args:
        models: folders or Hub ids, or one recipe (.toml).
        task: names of `lingraft show tasks`, or files of your own (.toml).
        data: the folder of the tasks' files, or "hub".
        out: takes OUT/MODEL/TASK/seed-N and OUT/results.jsonl; may hold those of other calls.
        settings: keys of a fine-tuning recipe, such as {"learning_rate": 1e-5, "cut.dev": 0.1}.
        update: train seeds again whose inputs have changed.
        force: train all seeds of this call again.

    Returns:
        A row a number, as `read_scores`: model, data (the task), split, metric, value (per cent),
        n (examples), seed …

    Raises:
        LingraftError: whatever the caller can mend, on one line.
    """
    from lingraft.finetuning import outcomes, recipe, run

    names, base = names_of(models), Path()
    options = run.Options(update, force, command="lingraft.finetune(...)")
    if len(names) == 1 and names[0].endswith(".toml"):
        asked, base = recipe.read_finetune(Path(names[0]), decoding.assignments(settings))
    else:
        tables: dict[str, Any] = {"models": names, "tasks": names_of(task)}
        tables |= {} if data is None else {"data": str(data)}
        asked = recipe.decode_finetune(tables, decoding.assignments(settings), "finetune")
    with as_guest():
        made = {outcome.fingerprint for outcome in run.finetune(asked, Path(out), options, base)}
        results = outcomes.read_results(Path(out))
        return scores_frame(row for _, rows in results for row in rows if row.inputs in made)


def run_study(
    file: str | Path,
    out: str | Path | None = None,
    *,
    jobs: int = 1,
    only: Sequence[str] = (),
    update: bool = False,
    force: bool = False,
) -> Path:
    """Run a grid of recipes, a process a cell, and compare them on one page.

    `lingraft.run_study("recipes/study-smoke.toml", jobs=2)`. Cells that are done are kept.

    Args:
        file: the study (TOML).
        out: the study's folder; runs/NAME by default.
        jobs: cells at a time.
        only: cells to run: a method, an id, or conditions such as "method=xpt,seed=0".
        update: let this study replace the one in `out`, and keep what both share.
        force: delete the study in `out` first.

    Returns:
        The page, an HTML file; OUT/results.jsonl has its numbers.

    Raises:
        LingraftError: whatever the caller can mend, on one line; a cell failed.
    """
    from lingraft.study import page
    from lingraft.study.recipe import read_study
    from lingraft.study.runner import RunnerOptions

    study = read_study(Path(file))
    place = Path("runs") / study.name if out is None else Path(out)
    return page.run(study, place, RunnerOptions(jobs, tuple(only), force=force, update=update)).path


def clean_corpus(
    text: Paths,
    language: str,
    out: str | Path,
    *,
    jobs: int = 1,
    settings: Mapping[str, Any] | Sequence[str] = (),
    force: bool = False,
) -> dict[str, Any]:
    """Clean text of any size into a corpus: OUT/train, OUT/valid, OUT/test and a page.

    `lingraft.clean_corpus("kowiki.xml.bz2", "ko", "corpora/ko")`; then `adapt(text="corpora/ko")`.
    A call that was stopped goes on.

    Args:
        text: files (dumps, web archives, text, JSON lines, Parquet, HTML), folders or hub:DATASET.
        language: a BCP 47 code such as "ko".
        out: the corpus's folder.
        jobs: processes at a time.
        settings: keys of a recipe's [corpus], such as {"corpus.identify_language": True}.
        force: replace what another call has left in `out`.

    Returns:
        Counts: documents, sentences_in, dropped (by reason), splits (documents, sentences,
        characters) …

    Raises:
        LingraftError: whatever the caller can mend, on one line.
    """
    from lingraft.corpus.engine import job
    from lingraft.report.pages import corpus as page

    asked = {"corpus": {"text": names_of(text), "near_duplicates": True}}
    tables = decoding.override(asked, decoding.assignments(settings))
    section = decoding.checked(Corpus, tables["corpus"], "clean_corpus")
    result = job.make(section, language, Path(out), job.JobSettings(jobs=jobs, force=force))
    page.write(Path(out))
    return result or {}
