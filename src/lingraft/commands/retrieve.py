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

    from lingraft.crosslingual.pairs import Pairs
    from lingraft.crosslingual.pooling import Pool

logger = logging.getLogger(__name__)

POOLS = ("mean", "no-specials", "cls")


def command(
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
    label: Annotated[
        str | None, typer.Option(help="What tables call the models: NAME[,NAME…].")
    ] = None,
    mteb: Annotated[
        Path | None, typer.Option(help="Show results of mteb in this folder, too (or alone).")
    ] = None,
    resamples: Annotated[
        int, typer.Option(min=100, max=1_000_000, help="Draws of the bootstrap.")
    ] = 4_000,
    out_dir: Annotated[Path, typer.Option("--out", help="The folder of the results.")] = Path(
        "runs/retrieve"
    ),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace results of other settings in --out.")
    ] = False,
) -> None:
    """Find translations by nearest neighbours, at every layer of any encoder, without training.

    lingraft retrieve runs/ko/model demo/source --pairs tatoeba --languages ko,de --dev pud

    lingraft retrieve runs/ko/model --mine en.txt ko.txt --layer 8 --out runs/mined

    Accuracy in both directions by layer and language, with intervals (Tatoeba); pairs mined from
    two texts (BUCC). What comes out is OUT/accuracies.md, layers.md, curve.svg, results.jsonl and
    MODEL/predictions-LANGUAGE.tsv; or MODEL/mined.tsv. What is done is kept.
    """
    if not (pairs or mine or mteb):
        raise RecipeError(
            "--pairs: name pairs of sentences (a directory or files), or two texts with --mine"
        )
    if pairs and mine:
        raise RecipeError("--pairs and --mine are two tasks; give them in two calls")
    if pairs or mine:
        named = _labels(models or [], ask.names_in(label))
        chosen = _pool(pool, parity, mining=mine is not None)
        if mine is None:
            _only_mining(gold=gold, dev_mine=dev_mine, dev_gold=dev_gold, threshold=threshold)
            test = _pairs(pairs or [], ask.names_in(languages), sentences)
            held = _pairs(dev, [one.language for one in test], sentences) if dev else []
            _check_dev(test, held)
            _retrieve(named, test, held, out_dir, (chosen, layer, parity, resamples), overwrite)
        else:
            texts = (mine, gold, dev_mine, dev_gold)
            _mine(named, texts, out_dir, (chosen, layer, parity, threshold), overwrite)
    if mteb is not None:
        from lingraft.crosslingual import mteb as results

        console.show(results.shown(results.read(mteb)), best="")


def _labels(models: Sequence[str], labels: Sequence[str]) -> dict[str, str]:
    """Models by label.

    Raises:
        RecipeError: there is none, or two have the same label or name.
    """
    from lingraft.finetuning.recipe import label_of
    from lingraft.recipe import catalogue

    if not models:
        raise RecipeError("MODEL: name a model: a directory, a Hub id or a name")
    if labels and len(labels) != len(models):
        raise RecipeError(f"--label: names {len(labels)} models, but {len(models)} are given")
    named: dict[str, str] = {}
    for model, label in zip(models, labels or map(label_of, models), strict=True):
        resolved = catalogue.resolve(model)
        if resolved in named.values():
            raise RecipeError(f"models: {model} is named twice; give each model once")
        if label in named:
            raise RecipeError(f"two models would be called '{label}'; name them with --label A,B")
        named[label] = resolved
    return named


def _pool(pool: str | None, parity: str | None, *, mining: bool) -> Pool:
    if parity not in (None, "xtreme"):
        raise RecipeError(f"--parity: is '{parity}'; allowed: xtreme")
    usual: Pool = "cls" if parity and mining else "mean"
    for name in ("mean", "no-specials", "cls"):
        if pool == name:
            return name
    if pool is not None:
        raise RecipeError(f"--pool: is '{pool}'; allowed: {', '.join(POOLS)}")
    return usual


def _only_mining(**given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise RecipeError(f"--{name.replace('_', '-')}: goes with --mine alone")


def _pairs(names: Sequence[str], languages: Sequence[str], most: int | None) -> list[Pairs]:
    from lingraft.crosslingual import pairs as sets

    return [one.first(most) for one in sets.read(names, languages)]


def _check_dev(test: Sequence[Pairs], dev: Sequence[Pairs]) -> None:
    known = {one.language: set(zip(one.english, one.other, strict=True)) for one in dev}
    for one in test:
        shared = known.get(one.language, set()) & set(zip(one.english, one.other, strict=True))
        if shared:
            raise DataError(
                f"--dev: {len(shared):,} pairs of '{one.language}' are among the test pairs, too; "
                "layers must be chosen on other pairs"
            )


def _retrieve(
    models: dict[str, str],
    test: Sequence[Pairs],
    dev: Sequence[Pairs],
    out: Path,
    settings: tuple[Pool, int | None, str | None, int],
    overwrite: bool,
) -> None:
    from lingraft.crosslingual import retrieve as task
    from lingraft.crosslingual.retrieval import check_distinct
    from lingraft.rundir import fingerprint

    pool, layer, parity, resamples = settings
    about = {
        "models": check_distinct(models),
        "test": {one.language: fingerprint(one.english, one.other) for one in test},
        "dev": {one.language: fingerprint(one.english, one.other) for one in dev},
        "pool": pool,
        "layer": layer,
        "parity": parity,
    }
    for one in test:
        if one.english_is_sorted:
            logger.warning(
                "the English side of '%s' is in alphabetical order, as in XTREME's release, so "
                "line n does not translate line n; take LASER's files",
                one.language,
            )
    task.claim(out, about, overwrite=overwrite)
    options = task.Options(pool, layer, parity is not None, resamples)
    for made in task.retrieve(models, test, dev, out, options):
        console.show(made, best="*")
    console.line(f"tables, curves (.svg) and predictions: {out}")


def _mine(
    models: dict[str, str],
    texts: tuple[tuple[Path, Path], Path | None, tuple[Path, Path] | None, Path | None],
    out: Path,
    settings: tuple[Pool, int | None, str | None, float | None],
    overwrite: bool,
) -> None:
    from lingraft.crosslingual import mining_run
    from lingraft.crosslingual import retrieve as task
    from lingraft.crosslingual.retrieval import check_distinct
    from lingraft.rundir import digest

    test, gold, dev, dev_gold = texts
    if (dev is None) != (dev_gold is None):
        raise RecipeError("--dev-mine and --dev-gold go together: give both, or none")
    pool, layer, parity, threshold = settings
    read = mining_run.Texts.read(*test, gold, parity=parity is not None)
    held = mining_run.Texts.read(*dev, dev_gold, parity=parity is not None) if dev else None
    files = [path for path in (*test, gold, *(dev or ()), dev_gold) if path is not None]
    about = {
        "models": check_distinct(models),
        "files": [digest(path) for path in files],
        "pool": pool,
        "layer": layer,
        "parity": parity,
        "threshold": threshold,
    }
    task.claim(out, about, overwrite=overwrite)
    options = mining_run.Options(pool, layer, threshold, parity is not None)
    results = mining_run.mine_texts(models, read, held, out, options)
    console.show(mining_run.shown(results, read), best="")
    console.line(f"pairs: {out}/MODEL/mined.tsv; numbers: {out / 'results.jsonl'}")
