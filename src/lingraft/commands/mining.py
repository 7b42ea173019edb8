"""`lingraft data mine`: it parses, calls and prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field

from lingraft.commands import console
from lingraft.commands import options as ask
from lingraft.commands.parsing import Keys, read, takes
from lingraft.errors import DataError, RecipeError
from lingraft.recipe.base import Names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.crosslingual.layers import Options, Pool
    from lingraft.crosslingual.mining_run import Task
    from lingraft.tasks import Retrieval


class Searching(Keys):
    """Settings of the search for translations."""

    layer: int | None = None
    """Whose states are pooled; 0 is the embeddings. Default: the best on dev, else the usual."""
    pool: str | None = None
    """mean over all tokens (default), no-specials, or cls: the first token."""
    parity: str | None = None
    """'xtreme': directions, layer and pooling of its scripts."""


class Mining(Searching):
    """Settings of mining translations."""

    threshold: float | None = None
    """The lowest margin of a mined pair, instead of dev's."""
    gold: str | None = None
    """The pairs to be found: a file of source id TAB target id."""
    dev: Annotated[Names, Field(min_length=3, max_length=3)] | None = None
    """SOURCE, TARGET and their pairs, to choose layer and threshold on."""


@takes(lambda: (Mining,))
def command(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL", help="Any stock encoders: folders, Hub ids or names of `show models`."
        ),
    ],
    settings: ask.OwnKeys = None,
    text: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="SOURCE TARGET", help="Two texts: id TAB sentence, or a sentence a line."
        ),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="bucc2018 in the place of --text, from its files in --data.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="The folder of the task's files.")] = None,
    lang: Annotated[list[str] | None, typer.Option(help="Languages of the task.")] = None,
    label: ask.Labels = None,
    out_dir: ask.ResultsFolder = Path("runs/mined"),
    force: ask.Replace = False,
) -> object:
    """Mine translations from two texts with any encoder.

    lingraft data mine runs/ko/model --text en.txt ko.txt layer=8 --out runs/mined

    lingraft data mine runs/ko/model --task bucc2018 --data DIR --lang de

    What comes out is OUT/MODEL/LANGUAGE/mined.tsv and OUT/results.jsonl. What is done is kept.
    """
    given = read(Mining, settings)
    if bool(text) == bool(task):
        raise RecipeError("give --text SOURCE TARGET, or a --task with its --data")
    by_label = ask.labelled(models, label or [])
    options = options_of(given, task, mining=True)
    if task is not None:
        if given.gold or given.dev:
            raise RecipeError("gold and dev: go with --text alone; leave them out")
        records = records_of(task, data, lang or [], mining=True)
        tasks = _mined(records, data or Path(), options)
    else:
        if data or lang:
            raise RecipeError("--data and --lang: go with --task alone; leave them out")
        tasks = _texts(text or [], given, options)
    return _mine(by_label, tasks, out_dir, options, force=force)


def options_of(
    given: Searching, task: str | None, *, mining: bool = False, resamples: int = 4_000
) -> Options:
    """Return how translations are looked for.

    Raises:
        RecipeError: pooling or parity is none of those that there are.
    """
    from lingraft.crosslingual.layers import Options

    threshold = given.threshold if isinstance(given, Mining) else None
    pool = _pool(given.pool, given.parity, mining=mining)
    return Options(pool, given.layer, threshold, given.parity is not None, resamples, task)


def _pool(pool: str | None, parity: str | None, *, mining: bool) -> Pool:
    from lingraft.crosslingual.layers import POOLS

    if parity not in (None, "xtreme"):
        raise RecipeError(f"parity: is '{parity}'; allowed: xtreme")
    choice = pool or ("cls" if parity and mining else "mean")
    for name in POOLS:
        if choice == name:
            return name
    raise RecipeError(f"pool: is '{pool}'; allowed: {', '.join(POOLS)}")


def records_of(
    task: str | None, data: Path | None, languages: Sequence[str], *, mining: bool = False
) -> list[Retrieval]:
    """Return the records of a benchmark in some languages, or in all that it has.

    Raises:
        RecipeError: there is no such benchmark, it is not in a language, for another command, or
            --data is missing.
    """
    from lingraft.crosslingual import pairs
    from lingraft.tasks import RETRIEVAL_GROUPS, RETRIEVALS

    if task is None:
        return []
    if task not in RETRIEVAL_GROUPS:
        raise RecipeError(
            f"--task {task}: is no task of finding translations; allowed: "
            f"{', '.join(RETRIEVAL_GROUPS)} (with --lang ko de)"
        )
    group = RETRIEVAL_GROUPS[task]
    if data is None:
        record = RETRIEVALS[group.member(group.languages[0])]
        raise RecipeError(
            f"--task {task}: name the directory of its files with --data ({record.files_from})"
        )
    codes = pairs.codes(languages) or group.languages
    records = [RETRIEVALS[group.member(language)] for language in codes]
    if (records[0].metric == "pair_f1") != mining:
        other = "analyze retrieval" if mining else "data mine"
        raise RecipeError(f"--task {task}: is for lingraft {other}")
    return records


def _texts(files: Sequence[Path], given: Mining, options: Options) -> list[Task]:
    """Return what to mine, and what chooses layer and threshold.

    Raises:
        RecipeError: there are not two texts.
        DataError: pairs of dev are among those to be found.
    """
    from lingraft.crosslingual.mining import Texts
    from lingraft.crosslingual.mining_run import Task
    from lingraft.tasks import retrieval

    if len(files) != 2:
        raise RecipeError(f"--text: give two texts, SOURCE TARGET; got {len(files)}")
    source, target = files
    gold = Path(given.gold) if given.gold else None
    bitext = retrieval.mixed(source, target, gold, bare=True)
    texts = Texts.of(bitext, by_id=options.parity)
    if given.dev is None:
        return [Task(texts)]
    dev_source, dev_target, dev_gold = map(Path, given.dev)
    dev_bitext = retrieval.mixed(dev_source, dev_target, dev_gold, bare=True)
    if shared := bitext.gold_texts & dev_bitext.gold_texts:
        raise DataError(
            f"dev: {len(shared):,} of its pairs are among those of gold, too; layer and "
            "threshold must be chosen on other pairs"
        )
    return [Task(texts, Texts.of(dev_bitext, by_id=options.parity))]


def _mined(records: Sequence[Retrieval], data: Path, options: Options) -> list[Task]:
    """Return a benchmark's texts; those of `dev` where they have to choose the threshold."""
    from lingraft.crosslingual.mining import Texts
    from lingraft.crosslingual.mining_run import Task
    from lingraft.tasks import retrieval

    by_id, tasks = options.parity, []
    for task in records:
        texts = Texts.of(retrieval.read(task, data), by_id=by_id)
        dev_texts = None
        if options.threshold is None:
            dev_texts = Texts.of(retrieval.read(task, data, "dev"), by_id=by_id)
            if dev_texts.gold is None:
                raise DataError(
                    f"{task.name}: the pairs of its development set are missing "
                    f"({', '.join(task.files['dev'].gold or ())}), which choose the threshold; get "
                    "them, or give threshold=N"
                )
        tasks.append(Task(texts, dev_texts, task.language))
    return tasks


def _mine(
    models: dict[str, str], tasks: Sequence[Task], out: Path, options: Options, *, force: bool
) -> object:
    from lingraft.crosslingual import layers, mining_run

    about = options.identity(models)
    about["texts"] = {
        task.language: [texts and texts.fingerprint() for texts in (task.texts, task.dev)]
        for task in tasks
    }
    with layers.claimed(out, "retrieve", about, force=force):
        results = mining_run.mine_texts(models, tasks, out, options)
        table = mining_run.shown(results)
        console.show(table, best="")
    for result in results:
        console.line(f"pairs: {out / result.label / result.task.language / 'mined.tsv'}")
    console.line(f"numbers: {out / 'results.jsonl'}")
    return {"results": out / "results.jsonl", "scores": console.rows(table)}
