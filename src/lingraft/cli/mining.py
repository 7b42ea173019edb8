"""`lingraft data mine`: it parses, calls and prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lingraft.cli import console
from lingraft.cli import options as ask
from lingraft.cli.parsing import read, takes
from lingraft.crosslingual.settings import Mining
from lingraft.errors import DataError, RecipeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.crosslingual.mining import Task
    from lingraft.tasks import Retrieval


@takes(lambda: (Mining,))
def command(
    models: ask.Encoders,
    settings: ask.OwnKeys = None,
    text: Annotated[list[Path] | None, typer.Option(metavar="SOURCE TARGET")] = None,
    task: str | None = None,
    data: ask.TaskFiles = None,
    lang: ask.TaskLanguages = None,
    label: ask.Labels = None,
    out_dir: ask.ResultsFolder = Path("runs/mined"),
    force: ask.Replace = False,
) -> object:
    """Mine translations from two texts with any encoder.

    lingraft data mine runs/ko/model --text en.txt ko.txt layer=8 --out runs/mined

    lingraft data mine runs/ko/model --task bucc2018 --data DIR --lang de

    What comes out is OUT/MODEL/LANGUAGE/mined.tsv and OUT/results.jsonl. What is done is kept.

    Options:
        text: Two texts: id TAB sentence, or a sentence a line.
        task: bucc2018 in the place of --text, from its files in --data.
    """
    from lingraft.crosslingual.mining import mine_texts

    asked = read(Mining, settings)
    records = benchmark(
        task, data, lang, metric="pair_f1", instead="--text SOURCE TARGET", given=text
    )
    if records and (asked.gold or asked.dev):
        raise RecipeError("gold and dev: go with --text alone; leave them out")
    tasks = _of_task(records, data or Path(), asked) if records else [_of_files(text or [], asked)]
    by_label = ask.labelled(models, label or [])
    table = mine_texts(by_label, tasks, out_dir, asked, benchmark=task, force=force)
    scores = console.show(table, best="")
    console.line(f"pairs (mined.tsv) and numbers (results.jsonl): {out_dir}")
    return {"results": out_dir / "results.jsonl", "scores": scores}


def benchmark(
    task: str | None,
    data: Path | None,
    languages: Sequence[str] | None,
    *,
    metric: str,
    instead: str,
    given: object,
) -> list[Retrieval]:
    """Return the records of a benchmark in some languages, or in all that it has.

    Args:
        task: its name; None where files are given.
        data: the folder of its files.
        languages: some of its own.
        metric: of the command's benchmarks.
        instead: the option of files.
        given: its value.

    Raises:
        RecipeError: both or neither are given, or there is no such benchmark or language.
    """
    from lingraft.tasks import RETRIEVAL_GROUPS, RETRIEVALS

    if bool(given) == bool(task) or bool(task) != bool(data):
        raise RecipeError(f"give {instead}, or a --task with its --data")
    if task is None:
        return []
    group = RETRIEVAL_GROUPS.get(task)
    records = group and [RETRIEVALS[group.member(code)] for code in languages or group.languages]
    if not records or records[0].metric != metric:
        own = [g.name for g in RETRIEVAL_GROUPS.values()
               if RETRIEVALS[g.member(g.languages[0])].metric == metric]  # fmt: skip
        raise RecipeError(f"--task {task}: allowed here: {', '.join(own)}")
    return records


def _of_files(files: Sequence[Path], asked: Mining) -> Task:
    """Return what to mine, and what chooses layer and threshold.

    Raises:
        RecipeError: there are not two texts.
        DataError: pairs of dev are among those to be found.
    """
    from lingraft.crosslingual.mining import Task, Texts
    from lingraft.tasks.retrieval import mixed

    if len(files) != 2:
        raise RecipeError(f"--text: give two texts, SOURCE TARGET; got {len(files)}")
    by_id = asked.parity is not None
    source, target = files
    bitext = mixed(source, target, Path(asked.gold) if asked.gold else None, bare=True)
    if asked.dev is None:
        return Task(Texts.of(bitext, by_id=by_id))
    dev_source, dev_target, dev_gold = map(Path, asked.dev)
    dev = mixed(dev_source, dev_target, dev_gold, bare=True)
    if shared := bitext.gold_texts & dev.gold_texts:
        raise DataError(
            f"dev: {len(shared):,} of its pairs are among those of gold, too; layer and "
            "threshold must be chosen on other pairs"
        )
    return Task(Texts.of(bitext, by_id=by_id), Texts.of(dev, by_id=by_id))


def _of_task(records: Sequence[Retrieval], data: Path, asked: Mining) -> list[Task]:
    """Return a benchmark's texts; those of `dev` where they have to choose the threshold."""
    from lingraft.crosslingual.mining import Task, Texts
    from lingraft.tasks import retrieval

    by_id, tasks = asked.parity is not None, []
    for record in records:
        texts, dev = Texts.of(retrieval.read(record, data), by_id=by_id), None
        if asked.threshold is None:
            dev = Texts.of(retrieval.read(record, data, "dev"), by_id=by_id)
            if dev.gold is None:
                raise DataError(
                    f"{record.name}: the pairs of its development set are missing, which choose "
                    f"the threshold ({', '.join(record.files['dev'].gold or ())}); get them, or "
                    "give threshold=N"
                )
        tasks.append(Task(texts, dev, record.language))
    return tasks
