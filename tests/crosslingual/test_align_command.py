"""`lingraft analyze alignment` as people use it."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from stopping import killed_at

from lingraft.crosslingual import alignment, alignment_run, links
from lingraft.crosslingual.alignment import Aligner
from lingraft.report import row

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lingraft.report.row import Score

ENGLISH = ["open the file .", "the dog sleeps in the sun .", "tea , coffee and cake .", "choose it"]
KOREAN = ["문서를 열고", "나는 학교에 갔다 .", "친구를 만나고 책을 읽었다 .", "선택한 다음"]
LINKS = [["0-1", "2-0"], ["1-0 0-0", "5-3"], ["4-2", "2p1"], ["0-1"]]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    made = {"en": "\n".join(ENGLISH) + "\n", "ko": "\n".join(KOREAN) + "\n"}
    made["gold"] = "\n".join(map(" ".join, LINKS)) + "\n"
    made["rows"] = "".join(
        json.dumps({"src": s, "tgt": t, "sure": [[0, 0]], "possible": [[0, 1]]}) + "\n"
        for s, t in zip(ENGLISH * 2, KOREAN * 2, strict=True)
    )
    found = {}
    for name, text in made.items():
        found[name] = tmp_path / (f"{name}.jsonl" if name == "rows" else name)
        found[name].write_text(text, encoding="utf-8")
    return found


@pytest.fixture
def score(
    files: dict[str, Path],
    command: Callable[..., Any],
    tiny_source: Callable[[str], Path],
    tmp_path: Path,
) -> Callable[..., Any]:
    """`lingraft analyze alignment` of two models on two gold sets."""

    def run(*more: object, out: str = "out", models: tuple[str, ...] = ("bert", "roberta")) -> Any:
        gold = ("--gold", f"en-ko={files['gold']}", files["rows"])
        text = ("--text", files["en"], files["ko"])
        sources = map(tiny_source, models)
        return command(
            "analyze", "alignment", *sources, *gold, *text, "--out", tmp_path / out, *more
        )

    return run


def rows_in(folder: Path) -> list[Score]:
    return [one for one in row.read(folder / "results.jsonl") if one.metric == "aer"]


def content(folder: Path) -> dict[str, bytes]:
    kept = (path for path in folder.rglob("*") if path.is_file() and path.name != "done.json")
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in kept
        if path.name not in (".lock", "inputs")
    }


def test_scores_of_models_and_baselines_stand_in_table_rows_figure_and_link_files(
    score: Callable[..., Any], tmp_path: Path
) -> None:
    ended = score("--baseline", "diagonal", "ibm1", "resamples=200")
    assert ended.status == 0, ended.err
    out = tmp_path / "out"
    rows = rows_in(out)
    # two models with three layers and two baselines, on two sets
    assert len(rows) == (2 * 3 + 2) * 2
    for label, layers in {"bert": 3, "roberta": 3, "diagonal": 1, "ibm1": 1}.items():
        means: dict[tuple[object, bool], float] = defaultdict(float)
        for one in (one for one in rows if one.model == label):
            means[one.axes.get("layer"), one.reported] += one.value / 2
        assert len(means) == layers
        assert [of for (_, reported), of in means.items() if reported] == [min(means.values())]
    gold = [links.parsed(line.replace("p", "-")) for line in map(" ".join, LINKS)]
    lines = (out / "links/roberta/en-ko/layer-01.txt").read_text(encoding="utf-8").splitlines()
    found = [links.parsed(line) for line in lines]
    wanted = ("roberta", "en-ko", 1)
    facts = next(r.facts for r in rows if (r.model, r.data, r.axes.get("layer")) == wanted)
    assert facts["predicted"] == sum(map(len, found))
    right = sum(len(set(a) & set(b)) for a, b in zip(found, gold, strict=True))
    assert facts["found_possible"] == right
    table = (out / "table.md").read_text(encoding="utf-8")
    assert "oracle" in table
    assert "Less bert" in table
    assert all(name in ended.out for name in ("diagonal", "ibm1", "roberta", "en-ko", "rows"))
    assert (out / "aer.svg").read_text(encoding="utf-8").startswith("<svg")


def test_the_layer_chosen_on_dev_is_best_there_and_scored_elsewhere(
    score: Callable[..., Any], tmp_path: Path
) -> None:
    assert score("dev=2").status == 0
    assert score("dev=2", "reference=roberta", out="again").status == 0
    rows = rows_in(tmp_path / "out")
    assert {one.n for one in rows if one.data == "en-ko"} == {2}
    assert {one.n for one in rows if one.data == "rows"} == {6}
    assert {one.facts["chosen_on"] for one in rows} == {"dev"}
    table = (tmp_path / "out/table.md").read_text(encoding="utf-8")
    assert "oracle" not in table
    assert "first 2 sentences" in table
    again = (tmp_path / "again/table.md").read_text(encoding="utf-8")
    assert "Less roberta" in again
    assert "Less bert" in table


def test_what_is_done_is_kept_and_gives_the_same_bytes(
    score: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = score(out="straight")
    assert straight.status == 0
    with killed_at(3, Aligner, "align") as calls:
        assert score().status != 0
        assert not list((tmp_path / "out").rglob("*.partial"))
        done = {path.parent.name for path in (tmp_path / "out/links/bert").rglob("done.json")}
        assert done == {"en-ko", "rows"}
        ended = score()
    assert ended.status == 0, ended.err
    assert len(calls) == 3 + 2
    assert content(tmp_path / "out") == content(tmp_path / "straight")
    monkeypatch.setattr(alignment_run.Encoder, "load", None)
    assert score().status == 0


def test_baselines_in_another_order_are_no_other_call(score: Callable[..., Any]) -> None:
    assert score("--baseline", "diagonal", "ibm1", models=("bert",)).status == 0
    again = score("--baseline", "ibm1", "diagonal", models=("bert",))
    assert again.status == 0, again.err


def test_results_of_another_call_stay_unless_told_otherwise(
    score: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert score(models=("bert",)).status == 0
    before = content(tmp_path / "out")
    refused = score(models=("bert", "roberta"))
    assert refused.status == 1
    assert "--force" in refused.err
    assert content(tmp_path / "out") == before
    loaded = []
    load = alignment_run.Encoder.load
    monkeypatch.setattr(
        alignment_run.Encoder, "load", lambda name: (loaded.append(name), load(name))[1]
    )
    assert score("--force").status == 0
    assert [name.rpartition("/")[2] for name in loaded] == ["roberta"]
    assert score("--force", "method=itermax").status == 0
    assert len(loaded) == 3
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").write_text("mine", encoding="utf-8")
    refused = score("--force", out="mine")
    assert refused.status == 1
    assert "holds other files" in refused.err


def plain(files: dict[str, Path], source: Path, out: Path, *more: object) -> tuple[object, ...]:
    text = ("--text", files["en"], files["ko"])
    return ("analyze", "alignment", source, *text, "--out", out, *more)


def test_sentences_without_gold_become_a_line_of_links_each(
    files: dict[str, Path],
    command: Callable[..., Any],
    score: Callable[..., Any],
    tiny_source: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    out = tmp_path / "links.txt"
    ended = command(*plain(files, tiny_source("bert"), out, "layers=[2]"))
    assert ended.status == 0, ended.err
    assert "4 sentence pairs, layer 2" in ended.out
    assert score(models=("bert",)).status == 0
    kept = tmp_path / "out/links/bert/en-ko/layer-02.txt"
    assert out.read_bytes() == kept.read_bytes()
    usual = command(*plain(files, tiny_source("bert"), tmp_path / "usual.txt"))
    assert "layer 1 (two thirds of 2; layers=[N] chooses another)" in usual.out
    refused = command(*plain(files, tiny_source("bert"), out, "layers=[1]"))
    assert refused.status == 1
    assert "is there already" in refused.err
    assert command(*plain(files, tiny_source("bert"), out, "layers=[1]", "--force")).status == 0
    assert out.read_bytes() == (tmp_path / "usual.txt").read_bytes()


@pytest.mark.parametrize(
    "option",
    [("--baseline", "ibm1"), ("dev=2",)],
)
def test_what_scores_links_is_refused_without_gold(
    option: tuple[object, ...],
    files: dict[str, Path],
    command: Callable[..., Any],
    tiny_source: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    ended = command(*plain(files, tiny_source("bert"), tmp_path / "links.txt", *option))
    assert ended.status == 1
    assert f"{option[0].partition('=')[0]}: is for scoring links" in ended.err
    assert not (tmp_path / "links.txt").exists()


def test_a_killed_file_of_links_goes_on_where_it_was(
    files: dict[str, Path],
    command: Callable[..., Any],
    tiny_source: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("en", "ko"):
        files[name].write_text(files[name].read_text("utf-8") * 5, encoding="utf-8")
    source, out = tiny_source("roberta"), tmp_path / "links.txt"
    assert command(*plain(files, source, tmp_path / "straight.txt")).status == 0
    monkeypatch.setattr(alignment, "CHUNK", 3)
    monkeypatch.setattr(alignment_run, "CHUNK", 3)
    with killed_at(11, links, "pharaoh") as written:
        assert command(*plain(files, source, out)).status != 0
        assert not out.exists()
        assert command(*plain(files, source, out)).status == 0
    assert len(written) == 11 + 20 - 9
    assert out.read_bytes() == (tmp_path / "straight.txt").read_bytes()
    assert not list(tmp_path.glob("*.partial*"))
