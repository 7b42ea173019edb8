"""The proof's text: every line once, in order, in documents of many lines."""

import gzip
import json
import lzma
import sys

import pytest
from script_modules import load

pytestmark = pytest.mark.slow
proof = load("build_proof_data", "research/scripts")


def test_lines_become_documents_by_language(tmp_path, monkeypatch, capsys):
    lines = [f"Zeile {number}" for number in range(450)]
    for language in proof.LANGUAGES:
        folder = tmp_path / "data" / f"mono_{language}_docs_po"
        folder.mkdir(parents=True)
        with lzma.open(folder / "python.txt.xz", "wt", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    out = tmp_path / "out"
    monkeypatch.setattr(sys, "argv", ["script", str(tmp_path / "data"), str(out)])
    proof.main()
    assert "450 lines" in capsys.readouterr().out
    with gzip.open(out / "ja/python.jsonl.gz", "rt", encoding="utf-8") as file:
        documents = [json.loads(line) for line in file]
    assert [len(one["text"].splitlines()) for one in documents] == [200, 200, 50]
    assert [line for one in documents for line in one["text"].splitlines()] == lines
    assert len({one["id"] for one in documents}) == 3
