"""The rows of a study, compressed: research/rows/STUDY.jsonl.xz.

    python research/scripts/archive.py pack STUDY FILE…    # results.jsonl of `lingraft study run`
    python research/scripts/archive.py unpack STUDY FILE   # for `lingraft study report`

A line is a row of `lingraft study`, or of a table that another command made: those begin with
`"table"`. `pack` replaces the study's rows and keeps its tables.
"""

from __future__ import annotations

import argparse
import json
import lzma
from pathlib import Path
from typing import TYPE_CHECKING, Any

from studies.rows import of_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from studies.rows import AnyRow

ROWS = Path(__file__).parents[1] / "rows"
TABLE = b'{"table": '
Row = dict[str, Any]


def path_of(study: str, folder: Path = ROWS) -> Path:
    return folder / f"{study}.jsonl.xz"


def lines(study: str, folder: Path = ROWS) -> list[bytes]:
    """All lines of a study's file; none where there is no file."""
    path = path_of(study, folder)
    return lzma.decompress(path.read_bytes()).splitlines() if path.is_file() else []


def of_study(study: str, folder: Path = ROWS) -> list[bytes]:
    """The lines of `lingraft study`."""
    return [line for line in lines(study, folder) if not line.startswith(TABLE)]


def read(study: str, folder: Path = ROWS) -> list[AnyRow]:
    """The rows of `lingraft study`."""
    return of_lines(of_study(study, folder))


def table(study: str, name: str, folder: Path = ROWS) -> list[Row]:
    """The rows of a table, without its name."""
    rows = (json.loads(line) for line in lines(study, folder) if line.startswith(TABLE))
    return [row for row in rows if row.pop("table") == name]


def write(study: str, text: Iterable[bytes], folder: Path = ROWS) -> None:
    """Write the file; equal lines give equal bytes."""
    path, whole = path_of(study, folder), b"".join(line + b"\n" for line in text)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress(whole, preset=9 | lzma.PRESET_EXTREME))


def keep(study: str, tables: Mapping[str, Iterable[Row]], folder: Path = ROWS) -> None:
    """Put tables in the place of those of their names; all else stays."""
    marks = tuple(TABLE + json.dumps(name).encode() for name in tables)
    left = [line for line in lines(study, folder) if not line.startswith(marks)]
    rows = ({"table": name} | row for name, found in tables.items() for row in found)
    made = (json.dumps(row, ensure_ascii=False).encode() for row in rows)
    write(study, [*left, *made], folder)


def pack(study: str, files: Iterable[Path]) -> None:
    """Put the rows of results files in the place of the study's."""
    found = [line for file in files for line in file.read_bytes().splitlines()]
    write(study, [*found, *(line for line in lines(study) if line.startswith(TABLE))])
    print(f"{path_of(study)}: {len(found):,} rows")


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("way", choices=("pack", "unpack"))
    parser.add_argument("study", help="such as study-ko or auto/rates")
    parser.add_argument("files", type=Path, nargs="+")
    asked = parser.parse_args()
    if asked.way == "pack":
        pack(asked.study, asked.files)
    else:
        asked.files[0].write_bytes(b"".join(line + b"\n" for line in of_study(asked.study)))


if __name__ == "__main__":
    main()
