"""`lingraft analyze retrieval` and `alignment`: what a model knows of translations.

`lingraft analyze alignment`: it parses, calls and prints.

`lingraft analyze retrieval`: it parses, calls and prints.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lingraft.cli import options as ask, parsing
from lingraft.cli.data import benchmark
from lingraft.crosslingual.settings import Linking, Searching
from lingraft.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.crosslingual.retrieval import Pairs


@parsing.takes(lambda: (Searching,))
def retrieval(
    models: ask.Encoders,
    settings: ask.OwnKeys = None,
    pairs: ask.Files = None,
    task: str | None = None,
    data: ask.TaskFiles = None,
    lang: ask.TaskLanguages = None,
    dev: ask.Files = None,
    label: ask.Labels = None,
    out_dir: ask.ResultsFolder = Path("runs/retrieve"),
    force: ask.Replace = False,
) -> object:
    """Find translations by nearest neighbours, at every layer.

    lingraft analyze retrieval runs/ko/model demo/source --pairs ko=test.tsv --dev ko=dev.tsv

    lingraft analyze retrieval runs/ko/model --task tatoeba --data DIR --lang ko de layer=8

    Accuracy in both directions by layer and language, with intervals. What comes out is
    OUT/table.md, curve.svg and results.jsonl. What is done is kept.

    Options:
        pairs: Test pairs: tables of two columns, English first.
        task: tatoeba in the place of --pairs, from its files in --data.
        dev: Other pairs of the same languages, to choose layers on.
    """
    from lingraft.crosslingual.retrieval import Pairs, retrieve
    from lingraft.tasks.sentences import read as read_task

    asked = parsing.read(Searching, settings)
    records = benchmark(
        task, data, lang, metric="accuracy", instead="--pairs LANGUAGE=FILE", given=pairs
    )
    test = [Pairs.of(record.language, read_task(record, data or Path())) for record in records]
    test += _read(pairs or (), "--pairs")
    by_label = ask.labelled(models, label or [])
    dev_pairs = _read(dev or (), "--dev")
    tables = retrieve(by_label, test, dev_pairs, out_dir, asked, task=task, force=force)
    scores = parsing.show(*tables)
    parsing.line(f"table.md, curve.svg and results.jsonl: {out_dir}")
    return {"results": out_dir, "scores": scores}


def _read(entries: Sequence[str], option: str) -> list[Pairs]:
    from lingraft.crosslingual.retrieval import Pairs

    files = [ask.named_file(entry, option) for entry in entries]
    names = [name for name, _ in files]
    if "" in names or len(set(names)) < len(names):
        raise RecipeError(f"{option}: write LANGUAGE=FILE, each language once")
    return [Pairs.read(name, path) for name, path in files]


@parsing.takes(lambda: (Linking,))
def alignment(
    models: ask.Encoders,
    text: Annotated[list[Path], typer.Option(metavar="SOURCE TARGET")],
    settings: ask.OwnKeys = None,
    gold: Annotated[list[str] | None, typer.Option(metavar="[NAME=]FILE")] = None,
    label: ask.Labels = None,
    out_dir: ask.ResultsFolder = Path("runs/aligned"),
    force: ask.Replace = False,
) -> object:
    """Link words of sentence pairs; score links against gold.

    lingraft analyze alignment MODEL --gold de-en=gold.txt --text test.de test.en --out aligned

    lingraft analyze alignment MODEL --text src.txt trg.txt layers=[8] --out aligned

    The links of every layer are OUT/links/MODEL/SET/layer-NN.txt. With gold links: a table of
    alignment error rates beside links along the diagonal, the curve over the layers (curve.svg) and
    rows (results.jsonl). What is done is kept.

    Options:
        text: Sentences, one a line; for several gold files two each, in their order.
        gold: Gold links, as '0-0 1p2' (p: only possible).
    """
    from lingraft.crosslingual import alignment, alignment_run

    asked = parsing.read(Linking, settings)
    named = (ask.named_file(entry, "--gold") for entry in gold or ())
    files: list[tuple[str, Path | None]] = [(name or path.stem, path) for name, path in named]
    files = files or [("text", None)]
    if len(text) != 2 * len(files):
        raise RecipeError(f"--text: {len(text)} files for {len(files)} sets; give two for each")
    sides = zip(files, text[::2], text[1::2], strict=True)
    sets = [alignment.read(name, path, source, target) for (name, path), source, target in sides]
    by_label = ask.labelled(models, label or [])
    tables = alignment_run.score(by_label, sets, out_dir, asked, force=force)
    scores = parsing.show(*tables, best="")
    parsing.line(f"links{', table.md, curve.svg and results.jsonl' if tables else ''}: {out_dir}")
    return {"results": out_dir, "scores": scores}


command = ask.group("Compare languages inside a model: find translations, link words.")
command.command("retrieval")(retrieval)
command.command("alignment")(alignment)
