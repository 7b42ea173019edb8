"""`lingraft analyze retrieval`: it parses, calls and prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lingraft.cli import console
from lingraft.cli import options as ask
from lingraft.cli.mining import benchmark
from lingraft.cli.parsing import read, takes
from lingraft.crosslingual.settings import Searching
from lingraft.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.crosslingual.retrieval import Pairs


@takes(lambda: (Searching,))
def command(
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
    from lingraft.tasks.retrieval import read as read_task

    asked = read(Searching, settings)
    records = benchmark(
        task, data, lang, metric="accuracy", instead="--pairs LANGUAGE=FILE", given=pairs
    )
    test = [Pairs.of(record.language, read_task(record, data or Path())) for record in records]
    test += _read(pairs or (), "--pairs")
    by_label = ask.labelled(models, label or [])
    dev_pairs = _read(dev or (), "--dev")
    tables = retrieve(by_label, test, dev_pairs, out_dir, asked, task=task, force=force)
    scores = console.show(*tables)
    console.line(f"table.md, curve.svg and results.jsonl: {out_dir}")
    return {"results": out_dir, "scores": scores}


def _read(entries: Sequence[str], option: str) -> list[Pairs]:
    from lingraft.crosslingual.retrieval import Pairs

    files = [ask.named_file(entry, option) for entry in entries]
    names = [name for name, _ in files]
    if "" in names or len(set(names)) < len(names):
        raise RecipeError(f"{option}: write LANGUAGE=FILE, each language once")
    return [Pairs.read(name, path) for name, path in files]
