"""`lingraft data clean`, `pairs`, `lexicon` and `mine`: they parse, call and print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer
from pydantic import Field

from lingraft.commands import console, mining
from lingraft.commands import options as ask
from lingraft.commands.parsing import read, takes
from lingraft.errors import RecipeError
from lingraft.recipe import Corpus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lingraft.corpus.engine.job import Kind, Settings

command = typer.Typer(
    help="Prepare text: clean corpora, parallel text, lexicons, mined translations.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
CorpusKeys = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        help="Keys of a recipe's [corpus], as near_duplicates=false or identify_language=true; "
        "shard_mb=N; with an executor its options, as executor.partition=gpu.",
    ),
]
PairKeys = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        help="Keys of a recipe's [corpus]; and columns=[1,0], the columns of a .tsv that hold the "
        "two languages, counted from 0. Default: [0,1].",
    ),
]
TwoLanguages = Annotated[
    list[str],
    typer.Option("--lang", help="The two languages in the order of SOURCE, the new one last."),
]


class Clean(Corpus):
    """[corpus], and how the job is run."""

    language: str = ""
    executor: dict[str, str | int | float] = {}
    shard_mb: Annotated[float, Field(ge=0.001, le=1e9)] | None = None


class Aligned(Corpus):
    """[corpus], and where the two sides stand."""

    columns: Annotated[tuple[int, int], Field(strict=False)] = (0, 1)


def corpus_of(given: Corpus) -> Corpus:
    """Return the table [corpus] of what was given."""
    names = given.model_fields_set & Corpus.model_fields.keys()
    return Corpus(**{name: getattr(given, name) for name in names})


@command.command()
@takes(lambda: (Clean,), listed=False)
def clean(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            help="Files, folders or hub:DATASET: dumps, web archives, text, JSON lines, Parquet, "
            "HTML, Markdown. Or one recipe (.toml), whose language and [corpus] to take.",
        ),
    ],
    out_dir: Annotated[Path, typer.Option("--out", help="The corpus's folder.")],
    settings: CorpusKeys = None,
    lang: Annotated[
        str | None, typer.Option(help="Language of the text, a BCP 47 code such as ko.")
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(help="Tasks that models will be judged by: drop sentences that are in them."),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="The folder of the tasks' files.")] = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, max=65_536, help="Tasks at a time: 1 here, no limit on a cluster."),
    ] = None,
    executor: Annotated[str, typer.Option(help="local, slurm or ray.")] = "local",
    force: ask.Replace = False,
) -> dict[str, Any] | None:
    """Make a clean corpus of any size: documents in, sentences out.

    A dump:       lingraft data clean kowiki-latest-pages-articles-multistream.xml.bz2 --lang ko
        --out corpora/ko

    From the web: lingraft data clean crawl/ --lang ko identify_language=true --out corpora/web

    A killed run goes on with the same command. What comes out is OUT/train, OUT/valid and OUT/test
    (JSON lines, a document a line), OUT/corpus.json and OUT/report.html; `lingraft adapt --text
    OUT` reads it.
    """
    asked = _asked(sources, lang, settings or [])
    if data is not None and not task:
        raise RecipeError("--data: goes with --task")
    how = _how(asked, executor, jobs, force=force)
    corpus = _without(corpus_of(asked), task, data, out_dir) if task else corpus_of(asked)
    from lingraft.corpus.engine import job

    result = job.make(corpus, asked.language, out_dir, how)
    if result is None:
        last = ask.going_on("when its jobs have ended, the same command writes the report")
        console.line(f"{out_dir}: handed to {executor}; {last}")
        return None
    return _show(result, out_dir)


def _how(asked: Clean, executor: str, jobs: int | None, *, force: bool) -> Settings:
    """Return how the job is run.

    Raises:
        RecipeError: there is no such executor, or options of jobs where there are none.
    """
    from lingraft.corpus.engine import job

    if executor not in get_args(job.Kind):
        raise RecipeError(f"--executor: must be local, slurm or ray; got {executor}")
    if executor == "local" and asked.executor:
        raise RecipeError("executor.…: is for jobs of a cluster; name it too (--executor slurm)")
    cluster = job.Cluster(cast("Kind", executor), jobs, asked.executor)
    part_bytes = None if asked.shard_mb is None else int(asked.shard_mb * 2**20)
    return job.Settings(cluster, part_bytes, force)


@command.command()
@takes(lambda: (Aligned,), listed=False)
def pairs(
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE", help="Parallel text.")],
    languages: TwoLanguages,
    out_dir: ask.NewFolder,
    settings: PairKeys = None,
    force: ask.Replace = False,
) -> dict[str, Any]:
    """Check parallel text; write it as one TSV.

    lingraft data pairs europarl.en-de.tsv --lang en de --out pairs/de

    What comes out is OUT/pairs.tsv, the new language first.
    """
    from lingraft.corpus import aligned

    return _aligned(
        aligned.write_pairs, aligned.PAIRS, (sources, languages, out_dir), settings, force
    )


@command.command()
@takes(lambda: (Aligned,), listed=False)
def lexicon(
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE", help="Lexicons.")],
    languages: TwoLanguages,
    out_dir: ask.NewFolder,
    settings: PairKeys = None,
    force: ask.Replace = False,
) -> dict[str, Any]:
    """Check a bilingual lexicon; write it as one TSV.

    lingraft data lexicon en-ko.txt --lang en ko --out lexicons/ko

    What comes out is OUT/lexicon.tsv, the new language first. With columns=[1,0] a dictionary's
    headwords are of the new language.
    """
    from lingraft.corpus import aligned

    call = (sources, languages, out_dir)
    return _aligned(aligned.write_lexicon, aligned.LEXICON, call, settings, force)


def _asked(sources: Sequence[str], lang: str | None, settings: Sequence[str]) -> Clean:
    """Return what the command line asks for; near-duplicate documents go, but with a recipe.

    Raises:
        RecipeError: something is missing, or not valid.
    """
    settings = [setting.removeprefix("corpus.") for setting in settings]  # as a recipe has them
    if len(sources) == 1 and sources[0].endswith(".toml"):
        if lang is not None:
            raise RecipeError("--lang: the recipe names the language; leave one of both out")
        from lingraft.recipe.methods import read_recipe

        texts = read_recipe(sources[0]).texts
        if len(texts) > 1:
            raise RecipeError(f"{sources[0]}: has several streams; give SOURCE and --lang for each")
        given = texts[0].corpus.model_dump(exclude_unset=True)
        return read(Clean, settings, language=texts[0].language, **given)
    if lang is None:
        raise RecipeError("--lang: name the language of the text, as ko")
    return read(Clean, settings, language=lang, text=list(sources), near_duplicates=True)


def _without(corpus: Corpus, names: Sequence[str], data: Path | None, out_dir: Path) -> Corpus:
    """Return the corpus table, which leaves out the texts of tasks."""
    from lingraft.corpus.engine import plan
    from lingraft.tasks import held_out as benchmarks

    plan.Folder(out_dir).check()
    tasks = benchmarks.tasks_of(list(names))
    return benchmarks.decontaminated(corpus, tasks, data, out_dir / benchmarks.FOLDER)


def _show(result: dict[str, Any], out_dir: Path) -> dict[str, Any]:
    """Print what was kept, write the page, and return both."""
    from lingraft.report.pages import corpus as corpus_page
    from lingraft.report.table import table

    columns = ("documents", "sentences", "characters")
    rows = [
        (name, *(f"{counts[column]:,}" for column in columns))
        for name, counts in result["splits"].items()
    ]
    console.show(table("", ("split", *columns), rows))
    written = corpus_page.write(out_dir)
    console.summary(
        ("result", corpus_page.verdict(result)),
        ("corpus", out_dir),
        ("report", written),
        next_step=corpus_page.after(result, out_dir),
    )
    return {"corpus": out_dir, "report": written} | result


def _aligned(
    write: Callable[..., dict[str, Any]],
    name: str,
    call: tuple[Sequence[str], Sequence[str], Path],
    settings: Sequence[str] | None,
    force: bool,
) -> dict[str, Any]:
    """Write parallel text or a lexicon, and say what was kept.

    Raises:
        RecipeError: languages or columns are not two.
    """
    from lingraft.report.table import table

    sources, languages, folder = call
    if len(set(languages)) != 2 or len(languages) != 2:
        raise RecipeError(f"--lang: name two languages, as en ko; got {' '.join(languages)}")
    asked = read(Aligned, settings, text=list(sources))
    first, second = asked.columns
    if first == second or min(first, second) < 0:
        raise RecipeError(f"columns: must be two numbers from 0, as [1,0]; got {[first, second]}")
    counts = write(corpus_of(asked), tuple(languages), asked.columns, folder, force=force)
    entries = [("read", counts["read"]), *counts["dropped"].items(), ("kept", counts["kept"])]
    console.show(table("", ("pairs", ""), [(key, f"{count:,}") for key, count in entries]))
    console.line(f"pairs: {folder / name}")
    return {"pairs": folder / name} | counts


command.command("mine")(mining.command)
