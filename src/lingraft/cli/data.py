"""`lingraft data clean`, `pairs`, `lexicon` and `mine`: they parse, call and print.

`lingraft data mine`: it parses, calls and prints.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import Field

from lingraft.cli import options as ask, parsing
from lingraft.crosslingual.settings import Mining
from lingraft.errors import DataError, RecipeError, writing
from lingraft.files import check_output, path_of
from lingraft.recipe import Corpus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lingraft.crosslingual.mining import MiningTask
    from lingraft.tasks import Retrieval


@parsing.takes(lambda: (Mining,))
def mine(
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

    asked = parsing.read(Mining, settings)
    records = benchmark(
        task, data, lang, metric="pair_f1", instead="--text SOURCE TARGET", given=text
    )
    if records and (asked.gold or asked.dev):
        raise RecipeError("gold and dev: go with --text alone; leave them out")
    tasks = _of_task(records, data or Path(), asked) if records else [_of_files(text or [], asked)]
    by_label = ask.labelled(models, label or [])
    table = mine_texts(by_label, tasks, out_dir, asked, benchmark=task, force=force)
    scores = parsing.show(table, best="")
    parsing.line(f"pairs (mined.tsv) and numbers (results.jsonl): {out_dir}")
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


def _of_files(files: Sequence[Path], asked: Mining) -> MiningTask:
    """Return what to mine, and what chooses layer and threshold.

    Raises:
        RecipeError: there are not two texts.
        DataError: pairs of dev are among those to be found.
    """
    from lingraft.crosslingual.mining import MiningTask, Texts
    from lingraft.tasks.sentences import mixed

    if len(files) != 2:
        raise RecipeError(f"--text: give two texts, SOURCE TARGET; got {len(files)}")
    by_id = asked.parity is not None
    source, target = files
    bitext = mixed(source, target, Path(asked.gold) if asked.gold else None, bare=True)
    if asked.dev is None:
        return MiningTask(Texts.of(bitext, by_id=by_id))
    dev_source, dev_target, dev_gold = map(Path, asked.dev)
    dev = mixed(dev_source, dev_target, dev_gold, bare=True)
    if shared := bitext.gold_texts & dev.gold_texts:
        raise DataError(
            f"dev: {len(shared):,} of its pairs are among those of gold, too; layer and "
            "threshold must be chosen on other pairs"
        )
    return MiningTask(Texts.of(bitext, by_id=by_id), Texts.of(dev, by_id=by_id))


def _of_task(records: Sequence[Retrieval], data: Path, asked: Mining) -> list[MiningTask]:
    """Return a benchmark's texts; those of `dev` where they have to choose the threshold."""
    from lingraft.crosslingual.mining import MiningTask, Texts
    from lingraft.tasks import sentences

    by_id, tasks = asked.parity is not None, []
    for record in records:
        texts, dev = Texts.of(sentences.read(record, data), by_id=by_id), None
        if asked.threshold is None:
            dev = Texts.of(sentences.read(record, data, "dev"), by_id=by_id)
            if dev.gold is None:
                raise DataError(
                    f"{record.name}: the pairs of its development set are missing, which choose "
                    f"the threshold ({', '.join(record.files['dev'].gold or ())}); get them, or "
                    "give threshold=N"
                )
        tasks.append(MiningTask(texts, dev, record.language))
    return tasks


command = ask.group("Prepare text: clean corpora, parallel text, lexicons, mined translations.")
Sources = Annotated[list[str], typer.Argument(metavar="SOURCE")]
TwoLanguages = Annotated[
    list[str],
    typer.Option("--lang", help="The two languages in the order of SOURCE, the new one last."),
]
Column = Annotated[int, Field(ge=0)]


class Clean(Corpus):
    """[corpus], and how the job is run."""

    language: str = ""
    executor: dict[str, str | int | float] = {}


class Aligned(Corpus):
    """[corpus], and where the two sides stand."""

    columns: Annotated[tuple[Column, Column], Field(strict=False)] = (0, 1)


def corpus_of(given: Corpus) -> Corpus:
    """Return the table [corpus] of what was given."""
    names = given.model_fields_set & Corpus.model_fields.keys()
    return Corpus(**{name: getattr(given, name) for name in names})


@command.command()
@parsing.takes(lambda: (Clean,), listed=False)
def clean(
    sources: Sources,
    out_dir: ask.NewFolder,
    settings: ask.SomeKeys = None,
    lang: ask.Lang = None,
    task: list[str] | None = None,
    data: ask.TaskFiles = None,
    jobs: Annotated[int | None, typer.Option(min=1, max=65_536)] = None,
    executor: str = "local",
    force: ask.Replace = False,
) -> dict[str, Any] | None:
    """Make a clean corpus of any size: documents in, sentences out.

    A dump:       lingraft data clean kowiki-latest-pages-articles-multistream.xml.bz2 --lang ko
        --out corpora/ko

    From the web: lingraft data clean crawl/ --lang ko identify_language=true --out corpora/web

    A killed run goes on with the same command. What comes out is OUT/train, OUT/valid and OUT/test
    (JSON lines, a document a line), OUT/corpus.json and OUT/report.html; `lingraft adapt --text
    OUT` reads it.

    Options:
        sources: Files, folders or hub:DATASET: dumps, web archives, text, JSON lines, Parquet,
            HTML. Or one recipe (.toml), whose language and [corpus] to take.
        settings: Keys of a recipe's [corpus], as near_duplicates=false or identify_language=true;
            with Slurm or Ray its options, as executor.partition=gpu.
        task: Tasks that models will be judged by: drop sentences that are in them.
        jobs: Tasks at a time: 1 here, no limit on a cluster.
        executor: local, slurm or ray.
    """
    asked = _asked(sources, lang, settings or [])
    if data is not None and not task:
        raise RecipeError("--data: goes with --task")
    if executor not in ("local", "slurm", "ray") or (executor == "local" and asked.executor):
        raise RecipeError(
            f"--executor {executor}: must be local, or slurm or ray with its options (executor.…)"
        )
    corpus = _without(corpus_of(asked), task, data, out_dir) if task else corpus_of(asked)
    from lingraft.corpus.engine import job

    how = job.JobSettings(executor, jobs, asked.executor, force=force)
    result = job.make(corpus, asked.language, out_dir, how)
    if result is None:
        last = ask.going_on("when its jobs have ended, the same command writes the report")
        parsing.line(f"{out_dir}: handed to {executor}; {last}")
        return None
    return _show(result, out_dir)


@command.command()
@parsing.takes(lambda: (Aligned,), listed=False)
def pairs(
    sources: Sources,
    languages: TwoLanguages,
    out_dir: ask.NewFolder,
    settings: ask.SomeKeys = None,
    force: ask.Replace = False,
) -> dict[str, Any]:
    """Check parallel text; write it as one TSV.

    lingraft data pairs europarl.en-de.tsv --lang en de --out pairs/de

    What comes out is OUT/pairs.tsv, the new language first.

    Options:
        sources: Parallel text.
        settings: Keys of a recipe's [corpus]; and columns=[1,0], the columns of a .tsv that hold
            the two languages, counted from 0. Default: [0,1].
    """
    from lingraft.corpus import aligned
    from lingraft.corpus.readers import parallel

    asked = parsing.read(Aligned, settings, text=list(sources))
    path = out_dir / "pairs.tsv"
    return _aligned(aligned.write_pairs, parallel.files, asked, languages, path, force)


@command.command()
@parsing.takes(lambda: (Aligned,), listed=False)
def lexicon(
    sources: Sources,
    languages: TwoLanguages,
    out_dir: ask.NewFolder,
    settings: ask.SomeKeys = None,
    force: ask.Replace = False,
) -> dict[str, Any]:
    """Check a bilingual lexicon; write it as one TSV.

    lingraft data lexicon en-ko.txt --lang en ko --out lexicons/ko

    What comes out is OUT/lexicon.tsv, the new language first. With columns=[1,0] a dictionary's
    headwords are of the new language.

    Options:
        sources: Lexicons.
        settings: columns=[1,0] where the new language stands first.
    """
    from lingraft.corpus import aligned

    asked = parsing.read(Aligned, settings, text=list(sources))
    path = out_dir / "lexicon.tsv"
    return _aligned(aligned.write_lexicon, _named, asked, languages, path, force)


def _asked(sources: Sequence[str], lang: str | None, settings: Sequence[str]) -> Clean:
    """Return what the command line asks for; near-duplicate documents go, but with a recipe.

    Raises:
        RecipeError: something is missing, or not valid.
    """
    settings = [setting.removeprefix("corpus.") for setting in settings]  # as a recipe has them
    if len(sources) == 1 and sources[0].endswith(".toml"):
        from lingraft.recipe.methods import read_recipe

        texts = read_recipe(sources[0]).texts
        if len(texts) > 1 or lang is not None:
            raise RecipeError(
                f"{sources[0]}: must have one stream, whose language it names; else give SOURCE "
                "and --lang for each"
            )
        given = texts[0].corpus.model_dump(exclude_unset=True)
        return parsing.read(Clean, settings, language=texts[0].language, **given)
    if lang is None:
        raise RecipeError("--lang: name the language of the text, as ko")
    return parsing.read(Clean, settings, language=lang, text=list(sources), near_duplicates=True)


def _without(corpus: Corpus, names: Sequence[str], data: Path | None, out_dir: Path) -> Corpus:
    """Return the corpus table, which leaves out the texts of tasks."""
    from lingraft.corpus.engine import plan
    from lingraft.tasks import held_out as benchmarks

    plan.Folder(out_dir).check()
    tasks = benchmarks.tasks_of(list(names))
    return benchmarks.decontaminated(corpus, tasks, data, out_dir / plan.EVALUATIONS)


def _show(result: dict[str, Any], out_dir: Path) -> dict[str, Any]:
    """Print what was kept, write the page, and return both."""
    from lingraft.report.pages import corpus as corpus_page
    from lingraft.report.table import table

    columns = ("documents", "sentences", "characters")
    rows = [
        (name, *(f"{counts[column]:,}" for column in columns))
        for name, counts in result["splits"].items()
    ]
    parsing.show(table("", ("split", *columns), rows))
    written = corpus_page.write(out_dir)
    parsing.summary(
        ("result", corpus_page.verdict(result)),
        ("corpus", out_dir),
        ("report", written),
        next_step=corpus_page.after(result, out_dir),
    )
    return {"corpus": out_dir, "report": written} | result


def _named(names: Iterable[str], _: object) -> list[Path]:
    """Return the files of lexicons, which are named one by one."""
    return list(map(path_of, names))


def _aligned(
    write: Callable[..., dict[str, Any]],
    files: Callable[..., list[Path]],
    asked: Aligned,
    languages: Sequence[str],
    path: Path,
    force: bool,
) -> dict[str, Any]:
    """Write parallel text or a lexicon, and say what was kept.

    Raises:
        RecipeError: languages or columns are not two.
    """
    from lingraft.report.table import table

    if len(set(languages)) != 2 or len(languages) != 2 or len(set(asked.columns)) != 2:
        raise RecipeError("name two languages (--lang en ko), and two columns (columns=[1,0])")
    with writing(path.parent, "choose another --out"):
        path.parent.mkdir(parents=True, exist_ok=True)
    sides = languages[0], languages[1]
    check_output(path, files(asked.text, sides), force=force)
    counts = write(corpus_of(asked), sides, asked.columns, path)
    entries = [("read", counts["read"]), *counts["dropped"].items(), ("kept", counts["kept"])]
    parsing.show(table("", ("pairs", ""), [(key, f"{count:,}") for key, count in entries]))
    parsing.line(f"pairs: {path}")
    return {"pairs": path} | counts


command.command("mine")(mine)
