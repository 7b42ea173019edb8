"""`lingraft analyze alignment` as people use it."""

from __future__ import annotations

from collections import defaultdict

import pytest
from stopping import killed_at

from lingraft.crosslingual import alignment
from lingraft.crosslingual.alignment import Aligner
from lingraft.crosslingual.encoder import Encoder
from lingraft.report import row

ENGLISH = ["open the file .", "the dog sleeps in the sun .", "tea , coffee and cake .", "choose it"]
KOREAN = ["문서를 열고", "나는 학교에 갔다 .", "친구를 만나고 책을 읽었다 .", "선택한 다음"]
LINKS = ["0-1 2-0", "1-0 0-0 5-3", "4-2 2p1", "0-1"]


@pytest.fixture
def score(command, tiny_source, tmp_path):
    """Align two sets by two models."""
    for name, lines in {"en": ENGLISH, "ko": KOREAN, "gold": LINKS}.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        (tmp_path / f"{name}-2").write_text("\n".join(lines * 2) + "\n", encoding="utf-8")

    def run(*more, out="out", models=("bert", "roberta")):
        sets = ("--gold", f"en-ko={tmp_path / 'gold'}", tmp_path / "gold-2")
        text = ("--text", *(tmp_path / name for name in ("en", "ko", "en-2", "ko-2")))
        sources = map(tiny_source, models)
        folder = ("--out", tmp_path / out)
        return command("analyze", "alignment", *sources, *sets, *text, *folder, *more)

    return run


def rows_in(folder):
    return [one for one in row.read(folder / "results.jsonl") if one.metric == "aer"]


def content(folder):
    own = (".lock", "inputs", "done.json")
    kept = (path for path in folder.rglob("*") if path.is_file() and path.name not in own)
    return {str(path.relative_to(folder)): path.read_bytes() for path in kept}


def test_scores_stand_in_table_rows_figure_and_link_files(score, tmp_path):
    ended, out = score(), tmp_path / "out"
    assert ended.status == 0, ended.err
    rows = rows_in(out)
    assert len(rows) == (2 * 3 + 1) * 2  # two models with three layers and a baseline, on two sets
    for label, layers in {"bert": 3, "roberta": 3, "diagonal": 1}.items():
        means = defaultdict(float)
        for one in (one for one in rows if one.model == label):
            means[one.axes.get("layer"), one.reported] += one.value / 2
        assert len(means) == layers
        assert [of for (_, reported), of in means.items() if reported] == [min(means.values())]
    lines = (out / "links/roberta/en-ko/layer-01.txt").read_text(encoding="utf-8").splitlines()
    found = [alignment.parsed(line) for line in lines]
    gold = [alignment.parsed(line) for line in LINKS]
    wanted = ("roberta", "en-ko", 1)
    facts = next(r.facts for r in rows if (r.model, r.data, r.axes.get("layer")) == wanted)
    assert facts["predicted"] == sum(map(len, found))
    right = sum(len(set(a) & set(b)) for a, b in zip(found, gold, strict=True))
    assert facts["found_possible"] == right
    table = (out / "table.md").read_text(encoding="utf-8")
    assert "oracle" in table
    assert "less bert" in table
    assert (out / "curve.svg").read_text(encoding="utf-8").startswith("<svg")


def test_what_is_done_is_kept_and_gives_the_same_bytes(score, tmp_path, monkeypatch):
    assert score(out="straight").status == 0
    with killed_at(3, Aligner, "align") as calls:
        assert score().status != 0
        done = {path.parent.name for path in (tmp_path / "out/links/bert").rglob("done.json")}
        assert done == {"en-ko", "gold-2"}
        ended = score()
    assert ended.status == 0, ended.err
    assert len(calls) == 3 + 2
    assert content(tmp_path / "out") == content(tmp_path / "straight")
    monkeypatch.setattr(Encoder, "load", None)
    assert score().status == 0
