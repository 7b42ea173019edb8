"""Write pages/translation-study.md and its figures: translators of recipes/veco-*.toml.

    python research/scripts/translation_page.py                               # from its rows alone
    python research/scripts/translation_page.py --collect runs/translation    # its rows first

Rows: the tables scores, differences and curves of research/rows/translation-study.jsonl.xz; notes:
research/notes/translation-study.md. RUN/SYSTEM-sN/TASK/seed-M of `lingraft finetune` holds the
fine-tunings; beside their predictions lie pud.txt and tatoeba.txt, of `lingraft translate`.
"""

from __future__ import annotations

import argparse
import json
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import archive
import numpy as np
from studies.drawing import Figure

from lingraft.files import write_text
from lingraft.report import numbers
from lingraft.report.table import TableCell, markdown, row, table
from lingraft.rundir import read_json
from lingraft.stats import Resampling
from lingraft.tasks.translation_metrics import SCORERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes

    from lingraft.report.table import Table

Row = dict[str, Any]
FOLDER = Path(__file__).parents[1]
STUDY = "translation-study"
PAGE = FOLDER / f"pages/{STUDY}.md"
DATA = {"ko": Path("build/translation"), "de": Path("build/translation-de")}
TESTS = {"help": "LibreOffice Help", "pud": "UD-PUD", "tatoeba": "Tatoeba"}
METRICS = {"bleu": "BLEU", "chrf": "chrF++"}
SYSTEMS = {"random": "random weights", "mlm": "masked words", "veco": "VECO"}
COMPARED = {
    ("veco", "mlm"): "VECO less masked words",
    ("mlm", "random"): "masked words less random",
}
DIRECTIONS = {
    "ko-en": "Korean → English",
    "en-ko": "English → Korean",
    "de-en": "German → English",
    "en-de": "English → German",
}
FIGURES = {"loss": "loss of a target token", "chrf": "chrF++"}
HEAD = """# Translation from VECO: English with Korean and with German

<!-- Made by `python research/scripts/translation_page.py` from research/rows and research/notes:
change those, not this file. -->
"""


# -- rows


def runs(folder: Path) -> Iterator[tuple[Row, Path]]:
    """The finished fine-tunings: what each is, and its folder."""
    for path in sorted(folder.glob("*/*/seed-*")):
        if (path / "scores.json").is_file():
            system, _, seed = path.parents[1].name.partition("-s")
            direction = path.parent.name.removesuffix("-help")
            found = {"system": system, "seed": int(seed or 0), "direction": direction}
            found["updates"] = read_json(path / "scores.json")["settings"]["steps"]
            yield found | {"fine-tuning": int(path.name.removeprefix("seed-"))}, path


def translations(path: Path, test: str) -> list[str] | None:
    """What a translator says of a test; None where it was not asked."""
    if test == "help":
        text = (path / "predictions-test.jsonl").read_text(encoding="utf-8")
        return [json.loads(line)["translation"] for line in text.splitlines()]
    file = path / f"{test}.txt"
    return file.read_text(encoding="utf-8").splitlines() if file.is_file() else None


def references(test: str, direction: str) -> list[str]:
    """The target side of a test."""
    language = direction.replace("en", "").strip("-")
    lines = (DATA[language] / f"test-{test}.tsv").read_text(encoding="utf-8").splitlines()
    return [line.split("\t")[direction.startswith("en")] for line in lines]


def collect(folder: Path) -> None:
    """Write scores, curves, and differences between systems."""
    scores, curves = [], []
    functions: dict[tuple[str, str, str, str], dict[tuple[int, int], Any]] = {}
    for key, path in runs(folder):
        for line in (path / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
            seen = json.loads(line)
            if seen["kind"] == "valid":
                curves.append(key | {name: seen[name] for name in ("step", "tokens", *FIGURES)})
        for test in TESTS:
            said, right = translations(path, test), references(test, key["direction"])
            if said is None:
                continue
            for metric in METRICS:
                function = SCORERS[metric].score(said, right, key["direction"][-2:])
                value = float(function(np.ones((1, len(right))))[0])
                scores.append(key | {"test": test, "metric": metric, "value": value})
                place = (key["system"], key["direction"], test, metric)
                functions.setdefault(place, {})[key["seed"], key["fine-tuning"]] = function
    settings = [read_json(path / "scores.json")["settings"] for _, path in runs(folder)]
    assert len({json.dumps(one | {"steps": None}) for one in settings}) == 1, "settings differ"
    tables = {"scores": scores, "curves": curves, "differences": differences(functions)}
    archive.keep(STUDY, tables)


def differences(
    functions: dict[tuple[str, str, str, str], dict[tuple[int, int], Any]],
) -> list[Row]:
    """Between systems, over the seeds that both have; sentences are drawn in pairs."""
    drawing, rows = Resampling(1_000), []
    for (system, *place), own in functions.items():
        for less in (less for compared, less in COMPARED if compared == system):
            other = functions.get((less, *place), {})  # type: ignore[arg-type]
            keys = [key for key in own if key in other]
            if not keys:
                continue
            number = len(references(place[1], place[0]))
            draws_RN = drawing.draws(number, "sentences")
            whole = np.ones((1, number))
            gains = {key: float((own[key](whole) - other[key](whole))[0]) for key in keys}
            drawn = np.stack([own[key](draws_RN) - other[key](draws_RN) for key in keys], axis=1)
            found = drawing.difference(gains, drawn)
            names = dict(zip(("direction", "test", "metric"), place, strict=True))
            names |= {"system": system, "less": less}
            rows.append(names | {"by seed": list(gains.values()), **vars(found)})
    return rows


# -- the page


@cache
def read(name: str) -> list[Row]:
    return archive.table(STUDY, name)


def score_table(direction: str) -> Table:
    """Systems down, tests and scores across: every seed's number."""
    found = [one for one in read("scores") if one["direction"] == direction]
    columns = [(test, metric) for test in TESTS for metric in METRICS]
    rows = []
    for system, title in SYSTEMS.items():
        cells: list[str | TableCell] = [title]
        for test, metric in columns:
            values = [
                numbers.fixed(one["value"], 1)
                for one in found
                if (one["system"], one["test"], one["metric"]) == (system, test, metric)
            ]
            cells.append(" and ".join(values) or "–")
        rows.append(row(*cells))
    for (system, less), title in COMPARED.items():
        cells = [title]
        for test, metric in columns:
            place = {"direction": direction, "test": test, "metric": metric}
            place |= {"system": system, "less": less}
            (one,) = [one for one in read("differences") if place.items() <= one.items()] or [None]
            cells.append("–" if one is None else _difference(one))
        rows.append(row(*cells, role="reference"))
    heads = [f"{TESTS[test]}, {METRICS[metric]}" for test, metric in columns]
    return table(DIRECTIONS[direction], ("start", *heads), rows)


def _difference(one: Row) -> str:
    low, high = (numbers.fixed(one[key], 2) for key in ("low", "high"))
    return f"{numbers.signed(one['value'], 2)} [{low}, {high}]"


def loss_table() -> Table:
    """Loss on dev at every look, the mean over the seeds."""
    found = read("curves")
    steps = sorted({one["step"] for one in found})
    rows = []
    for direction, arrow in DIRECTIONS.items():
        for system, title in SYSTEMS.items():
            cells = [f"{arrow}: {title}"]
            for step in steps:
                values = [
                    one["loss"]
                    for one in found
                    if (one["direction"], one["system"], one["step"]) == (direction, system, step)
                ]
                cells.append(numbers.fixed(fmean(values), 3) if values else "–")
            if any(cell != "–" for cell in cells[1:]):
                rows.append(row(*cells))
    return table("Nats a target token on dev", ("start", *map(str, steps)), rows)


def curve_figure(direction: str, value: str) -> Figure:
    """A value on dev against updates: a line a system and seed."""
    found = [one for one in read("curves") if one["direction"] == direction]
    places = {system: place for place, system in enumerate(SYSTEMS)}
    lines: dict[tuple[str, int, int], list[tuple[int, float]]] = {}
    for one in found:
        key = (one["system"], one["seed"], one["fine-tuning"])
        lines.setdefault(key, []).append((one["step"], one[value]))

    def draw(axes: Axes, form: str) -> None:
        for (system, _, _), points in lines.items():
            axes.plot(*zip(*points, strict=True), color=f"#0000f{places[system]}", marker=".")
        axes.set_xlabel("updates")
        axes.set_ylabel(FIGURES[value])

    shown = {system for system, _, _ in lines}
    return Figure(
        f"{direction}-{value}",
        draw,
        tuple((SYSTEMS[system], place) for system, place in places.items() if system in shown),
        f"{FIGURES[value]} on the development set against updates, {DIRECTIONS[direction]}",
        "",
    )


def made() -> dict[Path, str]:
    """The page, then its figures."""
    notes = (FOLDER / f"notes/{STUDY}.md").read_text(encoding="utf-8")
    parts = [HEAD, notes, "## Scores\n"]
    scored = {one["direction"] for one in read("scores")}
    directions = [direction for direction in DIRECTIONS if direction in scored]
    for direction in directions:
        parts += [f"### {DIRECTIONS[direction]}\n", markdown(score_table(direction)), ""]
    parts += ["## Updates\n", markdown(loss_table()), ""]
    figures = {}
    for direction in directions:
        for value in FIGURES:
            drawn = curve_figure(direction, value)
            path = f"../figures/{STUDY}-{drawn.name}.svg"
            figures[FOLDER / path.removeprefix("../")] = drawn.alone()
            if path not in notes:
                parts.append(f"![{drawn.description}]({path})\n")
    return {PAGE: "\n".join(parts), **figures}


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--collect", type=Path, help="folder of lingraft finetune")
    if (folder := parser.parse_args().collect) is not None:
        collect(folder)
    (FOLDER / "figures").mkdir(exist_ok=True)
    for path, text in made().items():
        write_text(path, text)
        print(path.relative_to(FOLDER))


if __name__ == "__main__":
    main()
