"""A made-up corpus in several files and formats, with everything in it that a filter drops."""

import bz2
import json
import random
from pathlib import Path

import pytest

WORDS = (
    "사람", "학교", "바다", "하늘", "책상", "나무", "구름", "시간", "마음", "노래", "도시", "강물",
    "아침", "저녁", "이야기", "길",
)  # fmt: skip
HEADER = '<mediawiki xml:lang="ko"><siteinfo><dbname>kowiki</dbname></siteinfo>\n'
PAGE = (
    "<page><title>{0}</title><ns>{1}</ns><id>{0}</id><revision><id>{0}</id>"
    "<text>{2}</text></revision></page>\n"
)


def sentence(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(6, 14))) + "."


def paragraphs(number: int) -> str:
    rng = random.Random(number)
    return "\n".join(sentence(rng) for _ in range(rng.randint(1, 6)))


@pytest.fixture
def sources(tmp_path: Path) -> list[str]:
    """A folder of small files, JSON lines to be cut, and a multistream dump."""
    folder = tmp_path / "sources"
    (folder / "small").mkdir(parents=True)
    for n in range(4):
        (folder / "small" / f"{n}.txt").write_text(paragraphs(200 + n) + "\n" + paragraphs(n))
    long = paragraphs(1) + "\n" + paragraphs(2) + "\n" + paragraphs(3)
    texts = {f"row-{n}": paragraphs(n) for n in range(120)}
    texts |= {f"again-{n}": paragraphs(n) for n in range(0, 120, 9)}
    texts |= {"near": long, "near-2": long + " 끝.", "blank": " \u200b "}
    texts["english"] = "All of this is English.\n" + paragraphs(500)
    lines = [json.dumps({"id": name, "text": text}) + "\n" for name, text in texts.items()]
    (folder / "rows.jsonl").write_text("".join(lines) + "broken\n")
    streams = [HEADER]
    for start in range(0, 60, 10):
        numbers = range(start + 1, start + 11)
        pages = [PAGE.format(n, int(n % 7 == 3), paragraphs(100 + n)) for n in numbers]
        streams.append("".join(pages))
    streams.append("</mediawiki>")
    dump = b"".join(bz2.compress(stream.encode()) for stream in streams)
    (folder / "kowiki.xml.bz2").write_bytes(dump)
    return [str(folder / name) for name in ("small", "rows.jsonl", "kowiki.xml.bz2")]
