"""`lingraft retrieve`: it parses, calls and prints."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lingraft.commands import console
from lingraft.commands import options as ask
from lingraft.errors import DataError, RecipeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.crosslingual.layers import Options, Pool
    from lingraft.crosslingual.mining_run import Task
    from lingraft.crosslingual.pairs import Pairs
    from lingraft.tasks import Retrieval

logger = logging.getLogger(__name__)


def command(
    context: typer.Context,
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL…",
            help="Any stock encoders: directories, Hub ids or names (`lingraft list models`); the "
            "others are compared with the first.",
        ),
    ] = None,
    pairs: Annotated[
        list[str] | None,
        typer.Option(
            help="Test pairs: directories or files such as eng-kor.tsv (.xz …) or "
            "tatoeba.kor-eng.kor, or LANGUAGE=FILE with English first; several may follow."
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(help="tatoeba or bucc2018 (`lingraft list tasks`), from its files in --data."),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Directory of the task's files.")] = None,
    languages: Annotated[
        list[str] | None,
        typer.Option(help="LANGUAGE[,…]; all that are there, or 'xtreme' for XTREME's 36."),
    ] = None,
    dev: Annotated[
        list[str] | None,
        typer.Option(help="Other pairs of the same languages, to choose layers on."),
    ] = None,
    mine: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            metavar="SOURCE TARGET",
            help="Mine translations from two texts instead: id TAB sentence, or a sentence a line.",
        ),
    ] = None,
    gold: Annotated[
        Path | None, typer.Option(help="The pairs to be found: source id TAB target id.")
    ] = None,
    dev_mine: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="SOURCE TARGET", help="Texts to choose layer and threshold on."),
    ] = None,
    dev_gold: Annotated[Path | None, typer.Option(help="The pairs in them.")] = None,
    threshold: Annotated[
        float | None, typer.Option(help="The lowest margin of a mined pair, instead of dev's.")
    ] = None,
    layer: Annotated[
        int | None, typer.Option(help="Report this layer; 0 is the embeddings.")
    ] = None,
    pool: Annotated[
        str | None,
        typer.Option(help="mean over all tokens (default), no-specials, or cls: the first token."),
    ] = None,
    parity: Annotated[
        str | None, typer.Option(help="'xtreme': directions, layer and pooling of its scripts.")
    ] = None,
    sentences: Annotated[
        int | None, typer.Option(min=1, help="The first so many pairs of each language alone.")
    ] = None,
    label: ask.Labels = None,
    resamples: ask.Draws = 4_000,
    out_dir: ask.ResultsFolder = Path("runs/retrieve"),
    overwrite: ask.Replace = False,
) -> None:
    """Find translations by nearest neighbours, at every layer of any encoder, without training.

    lingraft retrieve runs/ko/model demo/source --pairs tatoeba --languages ko,de --dev pud

    lingraft retrieve runs/ko/model --task bucc2018 --data DIR --languages de --out runs/bucc

    lingraft retrieve runs/ko/model --mine en.txt ko.txt --layer 8 --out runs/mined

    Accuracy in both directions by layer and language, with intervals (Tatoeba); pairs mined from
    two texts (BUCC). What comes out is OUT/accuracies.md, layers.md, curve.svg, results.jsonl and
    MODEL/predictions-LANGUAGE.tsv; or mined.tsv. What is done is kept.
    """
    from lingraft.crosslingual.layers import Options

    inputs = [name for name, value in (("pairs", pairs), ("mine", mine), ("task", task)) if value]
    if not inputs:
        raise RecipeError(
            "--pairs: name pairs of sentences (a directory or files), or a --task with its --data, "
            "or two texts with --mine"
        )
    if len(inputs) > 1:
        raise RecipeError(f"--{' and --'.join(inputs)} are two tasks; give them in two calls")
    if not models:
        raise RecipeError("MODEL: name a model: a directory, a Hub id or a name")
    by_label = ask.labelled(models, ask.names_in(label))
    records = _records(task, data, ask.names_in(languages))
    mines = mine is not None or (bool(records) and records[0].metric == "pair_f1")
    whole = task if sentences is None else None  # a part is not the benchmark
    options = Options(
        *(_pool(pool, parity, mining=mines), layer, threshold, parity is not None),
        *(resamples, whole),
    )
    _check_fits(
        inputs[0], mines=mines, dev=dev, sentences=sentences, languages=languages, gold=gold,
        dev_mine=dev_mine, dev_gold=dev_gold, threshold=threshold, data=data,
    )  # fmt: skip
    if mines:
        ask.check_idle(context, ["resamples"], "does not go with mining; leave it out")
        if mine is not None:
            tasks = _texts((mine, gold, dev_mine, dev_gold), options)
        else:
            tasks = _mined(records, data or Path(), options)
        _mine(by_label, tasks, out_dir, options, overwrite=overwrite)
    else:
        test = _pairs(pairs, records, data, ask.names_in(languages), sentences)
        dev_pairs = _pairs(dev, [], None, [p.language for p in test], sentences) if dev else []
        _check_dev(test, dev_pairs)
        _retrieve(by_label, (test, dev_pairs), out_dir, options, overwrite=overwrite)


def _pool(pool: str | None, parity: str | None, *, mining: bool) -> Pool:
    from lingraft.crosslingual.layers import POOLS

    if parity not in (None, "xtreme"):
        raise RecipeError(f"--parity: is '{parity}'; allowed: xtreme")
    choice = pool or ("cls" if parity and mining else "mean")
    for name in POOLS:
        if choice == name:
            return name
    raise RecipeError(f"--pool: is '{pool}'; allowed: {', '.join(POOLS)}")


def _check_fits(main: str, *, mines: bool, **options: object) -> None:
    """Refuse options that would have no effect."""
    fits = {"data": "task"}
    fits |= dict.fromkeys(("gold", "dev_mine", "dev_gold"), "mine")
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value in (None, []):
            continue
        if name == "threshold" and not mines:
            raise RecipeError(f"{option}: goes with mining alone (--mine, --task bucc2018)")
        if fits.get(name, main) != main:
            raise RecipeError(f"{option}: goes with --{fits[name]} alone")
        if mines and (name in ("dev", "sentences") or (name == "languages" and main == "mine")):
            raise RecipeError(f"{option}: does not go with mining; leave it out")


def _records(task: str | None, data: Path | None, languages: Sequence[str]) -> list[Retrieval]:
    """The records of a benchmark in some languages, or in all that it has.

    Raises:
        RecipeError: there is no such benchmark, it is not in a language, or --data is missing.
    """
    from lingraft.crosslingual import pairs
    from lingraft.tasks import RETRIEVAL_GROUPS, RETRIEVALS

    if task is None:
        return []
    if task not in RETRIEVAL_GROUPS:
        raise RecipeError(
            f"--task {task}: is no task of finding translations; allowed: "
            f"{', '.join(RETRIEVAL_GROUPS)} (with --languages ko,de)"
        )
    group = RETRIEVAL_GROUPS[task]
    if data is None:
        record = RETRIEVALS[group.member(group.languages[0])]
        raise RecipeError(
            f"--task {task}: name the directory of its files with --data ({record.files_from})"
        )
    codes = pairs.codes(languages) or group.languages
    return [RETRIEVALS[group.member(language)] for language in codes]


def _pairs(
    names: Sequence[str] | None,
    records: Sequence[Retrieval],
    data: Path | None,
    languages: Sequence[str],
    most: int | None,
) -> list[Pairs]:
    from lingraft.crosslingual import pairs as sets
    from lingraft.tasks import retrieval

    if data is None:
        pairs = sets.read(names or [], languages)
    else:
        pairs = [sets.Pairs.of(record.language, retrieval.read(record, data)) for record in records]
    return [group.first(most) for group in pairs]


def _check_dev(test: Sequence[Pairs], dev: Sequence[Pairs]) -> None:
    by_code = {part.language: set(zip(part.english, part.other, strict=True)) for part in dev}
    for part in test:
        shared = by_code.get(part.language, set()) & set(zip(part.english, part.other, strict=True))
        if shared:
            raise DataError(
                f"--dev: {len(shared):,} pairs of '{part.language}' are among the test pairs, too; "
                "layers must be chosen on other pairs"
            )


def _retrieve(
    models: dict[str, str],
    splits: tuple[Sequence[Pairs], Sequence[Pairs]],
    out: Path,
    options: Options,
    *,
    overwrite: bool,
) -> None:
    from lingraft.crosslingual import layers
    from lingraft.crosslingual import retrieve as task
    from lingraft.rundir import fingerprint

    test, dev = splits
    about = options.identity(models)
    for name, split in (("test", test), ("dev", dev)):
        about[name] = {group.language: fingerprint(group.english, group.other) for group in split}
    for name, split in (("test", test), ("dev", dev)):
        for group in split:
            if group.english_is_sorted:
                logger.warning(
                    "the English side of '%s' (%s) is in alphabetical order, as in XTREME's "
                    "release, so line n does not translate line n; take LASER's files",
                    *(group.language, name),
                )
    with layers.claimed(out, "retrieve", about, overwrite=overwrite):
        for table in task.retrieve(models, test, dev, out, options):
            console.show(table, best="*")
    console.line(f"tables, curves (.svg) and predictions: {out}")


def _texts(
    files: tuple[tuple[Path, Path], Path | None, tuple[Path, Path] | None, Path | None],
    options: Options,
) -> list[Task]:
    from lingraft.crosslingual.mining import Texts
    from lingraft.crosslingual.mining_run import Task
    from lingraft.tasks import retrieval

    test, gold, dev, dev_gold = files
    if (dev is None) != (dev_gold is None):
        raise RecipeError("--dev-mine and --dev-gold go together: give both, or none")
    bitext = retrieval.mixed(*test, gold, bare=True)
    texts = Texts.of(bitext, by_id=options.parity)
    if dev is None:
        return [Task(texts)]
    dev_bitext = retrieval.mixed(*dev, dev_gold, bare=True)
    if shared := bitext.gold_texts & dev_bitext.gold_texts:
        raise DataError(
            f"--dev-gold: {len(shared):,} of its pairs are among those of --gold, too; layer and "
            "threshold must be chosen on other pairs"
        )
    return [Task(texts, Texts.of(dev_bitext, by_id=options.parity))]


def _mined(records: Sequence[Retrieval], data: Path, options: Options) -> list[Task]:
    """A benchmark's texts; those of `dev` where they have to choose the threshold."""
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
                    "them, or give --threshold"
                )
        tasks.append(Task(texts, dev_texts, task.language))
    return tasks


def _mine(
    models: dict[str, str], tasks: Sequence[Task], out: Path, options: Options, *, overwrite: bool
) -> None:
    from lingraft.crosslingual import layers, mining_run

    about = options.identity(models)
    about["texts"] = {
        task.language: [texts and texts.fingerprint() for texts in (task.texts, task.dev)]
        for task in tasks
    }
    with layers.claimed(out, "retrieve", about, overwrite=overwrite):
        results = mining_run.mine_texts(models, tasks, out, options)
        console.show(mining_run.shown(results), best="")
    for result in results:
        console.line(f"pairs: {out / result.label / result.task.language / 'mined.tsv'}")
    console.line(f"numbers: {out / 'results.jsonl'}")
