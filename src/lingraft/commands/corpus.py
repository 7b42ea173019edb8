"""`lingraft corpus`: parses, calls and prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from lingraft.commands import console
from lingraft.commands import options as ask
from lingraft.errors import RecipeError
from lingraft.recipe import Corpus, Section

if TYPE_CHECKING:
    from lingraft.corpus.engine.job import Kind

COLUMN = re.compile(r"\s*[0-9]{1,6}\s*")


class CorpusRecipe(Section):
    """The part of a recipe that a corpus is made from."""

    language: str
    """BCP 47 code."""
    corpus: Corpus
    """The text."""


def command(
    context: typer.Context,
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE…",
            help="Files, directories or hub:DATASET; dumps, web archives, text, JSON lines, "
            "Parquet, HTML, Markdown. Leave them out and use --recipe.",
        ),
    ] = None,
    lang: Annotated[
        str | None, typer.Option(help="Language of the text, a BCP 47 code such as ko.")
    ] = None,
    out_dir: Annotated[Path | None, typer.Option("--out", help="The corpus's folder.")] = None,
    recipe: Annotated[
        Path | None, typer.Option(help="A recipe (TOML) whose language and [corpus] to take.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="a.b=c",
            help="Change a setting. For text from the web: --set corpus.identify_language=true. To "
            "keep near-duplicates: --set corpus.near_duplicates=false.",
        ),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(min=1, max=65_536, help="Tasks at a time: 1 here, no limit on a cluster."),
    ] = None,
    executor: Annotated[str, typer.Option(help="local, slurm or ray.")] = "local",
    executor_options: Annotated[
        list[str] | None,
        typer.Option(
            "--executor-option",
            metavar="NAME=VALUE",
            help="Of datatrove's executor: Slurm needs partition and time.",
        ),
    ] = None,
    shard_mb: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            max=1e9,
            help="Megabytes of the sources, as stored, in a shard; a 64th of all, from 1 to 32, "
            "where it is left out.",
        ),
    ] = None,
    parallel: Annotated[
        str | None,
        typer.Option(
            metavar="LANG",
            help="The other language, where SOURCE is parallel text. Writes OUT/pairs.tsv.",
        ),
    ] = None,
    lexicon: Annotated[
        str | None,
        typer.Option(
            metavar="LANG",
            help="The other language, where SOURCE is a lexicon. Writes OUT/lexicon.tsv.",
        ),
    ] = None,
    columns: Annotated[
        str,
        typer.Option(
            help="With --parallel or --lexicon: the columns of that language and of --lang, "
            "counted from 0; 1,0 also says that a dictionary's headwords are of --lang."
        ),
    ] = "0,1",
    task: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[,NAME…]",
            help="Tasks that models will be judged by: sentences that occur in them are dropped. "
            "Names of `lingraft list tasks`, or TOML files of your own.",
        ),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Directory of the tasks' files.")] = None,
    overwrite: ask.Replace = False,
) -> None:
    """Make a clean corpus, of any size: documents in, sentences by split and a report out.

    lingraft corpus kowiki-latest-pages-articles-multistream.xml.bz2 --lang ko --out corpora/ko

    A killed run goes on with the same command. What comes out is OUT/train, OUT/valid and OUT/test
    (JSON lines, a document a line, a sentence a line of its text), OUT/corpus.json and
    OUT/report.html; `lingraft adapt --text OUT` reads it. With --parallel or --lexicon, aligned
    sentences or words are checked and written as one TSV, the language of --lang first.
    """
    if out_dir is None:
        raise RecipeError("--out: name the corpus's folder, for example --out corpora/ko")
    pairs = bool(parallel or lexicon)
    corpus_recipe = chosen_recipe(sources or [], lang, recipe, settings or [], pairs=pairs)
    if parallel and lexicon:
        raise RecipeError("--parallel and --lexicon: give one of them")
    of_text = ("task", "processes", "executor", "executor_options", "shard_mb")
    if pairs:
        ask.check_idle(context, of_text, "does not go with --parallel or --lexicon")
    else:
        ask.check_idle(context, ("columns",), "goes with --parallel or --lexicon")
    if not task:
        ask.check_idle(context, ("data",), "goes with --task")
    if pairs:
        _pairs(corpus_recipe, out_dir, (parallel, lexicon), _columns(columns), overwrite=overwrite)
        return
    from lingraft.corpus.engine import job
    from lingraft.report.pages import corpus as corpus_page

    if task:
        corpus_recipe = _without(corpus_recipe, task, data, out_dir)
    options = dict(map(_option, executor_options or []))
    if executor not in get_args(job.Kind):
        raise RecipeError(f"--executor: must be local, slurm or ray; got {executor}")
    if executor == "local" and options:
        raise RecipeError(
            f"--executor-option {next(iter(options))}: is for jobs of a cluster; name it too "
            "(--executor slurm or ray)"
        )
    cluster = job.Cluster(cast("Kind", executor), processes, options)
    part_bytes = None if shard_mb is None else int(shard_mb * 2**20)
    asked = job.Settings(cluster, part_bytes, overwrite)
    result = job.make(corpus_recipe.corpus, corpus_recipe.language, out_dir, asked)
    if result is None:
        last = ask.going_on("when its jobs have ended, the same command writes the report")
        console.line(f"{out_dir}: handed to {executor}; {last}")
        return
    _show(result)
    written = corpus_page.write(out_dir)
    console.summary(
        ("result", corpus_page.verdict(result)),
        ("corpus", out_dir),
        ("report", written),
        next_step=corpus_page.after(result, out_dir),
    )


def chosen_recipe(
    sources: list[str],
    lang: str | None,
    recipe: Path | None,
    settings: list[str],
    *,
    pairs: bool = False,
) -> CorpusRecipe:
    """What the command line asks for; near-duplicate documents go, but where there are pairs.

    Raises:
        RecipeError: something is missing, or not valid.
    """
    from lingraft.recipe import decoding

    if recipe is not None:
        if sources or lang:
            raise RecipeError("--recipe: goes without SOURCE and --lang; use --set to change them")
        from lingraft.recipe.methods import read_recipe

        whole = read_recipe(recipe, settings)
        if len(whole.texts) > 1:
            raise RecipeError("--recipe: has several streams; give SOURCE and --lang for each")
        (text,) = whole.texts
        return CorpusRecipe(language=text.language, corpus=text.corpus)
    missing = [name for name, value in (("SOURCE", sources), ("--lang", lang)) if not value]
    if missing:
        raise RecipeError(f"give SOURCE and --lang, or --recipe; missing: {', '.join(missing)}")
    corpus: dict[str, Any] = {"text": sources} | ({} if pairs else {"near_duplicates": True})
    data = decoding.override({"language": lang, "corpus": corpus}, settings)
    return decoding.checked(CorpusRecipe, data, "command line")


def _without(
    recipe: CorpusRecipe, names: list[str], data: Path | None, out_dir: Path
) -> CorpusRecipe:
    """The recipe with the texts of tasks to be left out."""
    from lingraft.corpus.engine import plan
    from lingraft.tasks import held_out as benchmarks

    plan.check_ours(plan.Folder(out_dir))
    tasks = benchmarks.tasks_of([name for text in names for name in text.split(",") if name])
    section = benchmarks.decontaminated(recipe.corpus, tasks, data, out_dir / benchmarks.FOLDER)
    return recipe.model_copy(update={"corpus": section})


def _option(text: str) -> tuple[str, str | int | float]:
    name, value = ask.pair_of(text)
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    return name, value


def _columns(text: str) -> tuple[int, int]:
    numbers = text.split(",")
    if len(numbers) != 2 or not all(COLUMN.fullmatch(n) for n in numbers):
        raise RecipeError(f"--columns: must be two numbers from 0 with a comma, not {text!r}")
    first, second = map(int, numbers)
    if first == second:
        raise RecipeError(f"--columns: names the column {first} twice; give two columns")
    return first, second


def _show(result: dict[str, Any]) -> None:
    from lingraft.report.table import table

    columns = ("documents", "sentences", "characters")
    rows = [
        (name, *(f"{counts[column]:,}" for column in columns))
        for name, counts in result["splits"].items()
    ]
    console.show(table("", ("split", *columns), rows))


def _pairs(
    recipe: CorpusRecipe,
    folder: Path,
    pair_options: tuple[str | None, str | None],
    columns: tuple[int, int],
    *,
    overwrite: bool,
) -> None:
    """Write parallel text or a lexicon, in whichever of the two the other language is given."""
    from lingraft.corpus import aligned
    from lingraft.report.table import table

    parallel, lexicon = pair_options
    languages = (parallel or lexicon or "", recipe.language)
    write, name = (
        (aligned.write_pairs, aligned.PAIRS)
        if parallel
        else (aligned.write_lexicon, aligned.LEXICON)
    )
    counts = write(recipe.corpus, languages, columns, folder, overwrite=overwrite)
    written = folder / name
    entries = [("read", counts["read"]), *counts["dropped"].items(), ("kept", counts["kept"])]
    rows = [(name, f"{count:,}") for name, count in entries]
    console.show(table("", ("pairs", ""), rows))
    console.line(f"pairs: {written}")
