"""A folder of Korean text with something for every filter, as `lingraft data clean` takes it."""

import json
import random
from pathlib import Path

import pytest

pytest.importorskip("datatrove")

KOREAN = "사람 학교 바다 하늘 책상 나무 구름 시간 마음 노래 도시 강물 아침 저녁 이야기 길"
WORDS = KOREAN.split()


@pytest.fixture
def words() -> list[str]:
    return WORDS


def sentence(rng: random.Random, words: int = 9) -> str:
    return " ".join(rng.choices(WORDS, k=words)) + "."


def rows() -> list[dict[str, str]]:
    rng = random.Random(1)
    texts = [f"{sentence(rng)}\n{sentence(rng)}" for _ in range(80)]
    found = [{"id": f"{n}", "text": t, "url": f"https://{n % 3}.kr/"} for n, t in enumerate(texts)]
    long = "\n".join(sentence(rng) for _ in range(9))
    return [
        *found,
        {"id": "near", "text": long},
        {"id": "near-2", "text": f"{long}\n{sentence(rng)}"},
        {"id": "english", "text": "<script>alert(1)</script> All of this is English."},
        {"id": "again", "text": found[0]["text"]},
    ]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source" / "rows.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows()), "utf-8")
    return path
