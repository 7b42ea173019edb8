"""`lingraft score-translations`: what sacrebleu's own command prints, for systems side by side."""

from __future__ import annotations

import json
import random
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from lingraft.crosslingual import systems as scoring
from lingraft.errors import DataError, RecipeError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXT = "the a dog cat house runs sleeps over small big file open, choose. it's e-mail don't"
WORDS = TEXT.split()


def noisy(lines: list[str], share: float, drawn: random.Random) -> list[str]:
    return [
        " ".join(drawn.choice(WORDS) if drawn.random() < share else word for word in line.split())
        for line in lines
    ]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    drawn = random.Random(0)
    right = [" ".join(drawn.choices(WORDS, k=drawn.randint(3, 15))) for _ in range(60)]
    texts = {"reference": right, "source": [line.upper() for line in right]}
    texts |= {name: noisy(right, share, drawn) for name, share in (("a", 0.3), ("b", 0.22))}
    texts["second"] = noisy(right, 0.5, drawn)
    texts["b"][7] = ""
    found = {name: tmp_path / f"{name}.txt" for name in texts}
    for name, lines in texts.items():
        found[name].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return found


def sacrebleu(*arguments: object) -> str:
    options = ("-m", "bleu", "chrf", "--chrf-word-order", 2, "-f", "text", "-w", 2)
    ended = subprocess.run(
        [sys.executable, "-m", "sacrebleu", *map(str, (*arguments, *options))],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    return ended.stdout


def rows_in(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    text = (folder / "results.jsonl").read_text(encoding="utf-8")
    return {(row["system"], row["metric"]): row for row in map(json.loads, text.splitlines())}


def test_scores_signatures_intervals_and_p_are_those_of_the_sacrebleu_command(
    files: dict[str, Path], command: Callable[..., Any], tmp_path: Path
) -> None:
    told = sacrebleu(files["reference"], "-i", files["a"], files["b"], "--paired-bs")
    given = [f"{name}={files[name]}" for name in "ab"]
    out = command(
        "score-translations", "--reference", files["reference"], *given, "--out", tmp_path / "out"
    ).out
    rows = rows_in(tmp_path / "out")
    reached = re.findall(r"([\d.]+) \(([\d.]+) ± ([\d.]+)\)", told)
    order = [("a", "bleu"), ("a", "chrf"), ("b", "bleu"), ("b", "chrf")]
    ours = [rows[key] for key in order]
    assert reached == [
        (f"{row['score']:.2f}", f"{row['mean']:.2f}", f"{row['interval']:.2f}") for row in ours
    ]
    assert re.findall(r"\(p = ([\d.]+)\)", told) == [f"{row['p']:.4f}" for row in ours[2:]]
    assert [row["p"] for row in ours[:2]] == [None, None]
    for row in ours:
        title, _, signature = row["signature"].partition("|")
        assert re.search(rf"{re.escape(title)}\s+{re.escape(signature)}", told)
        assert f"{row['score']:.1f}" in out
        assert row["signature"] in out
    csv = (tmp_path / "out" / "scores.csv").read_text().splitlines()
    assert csv[0] == "system,metric,score,mean,interval,p,signature"
    assert float(csv[2].split(",")[2]) == rows["b", "bleu"]["score"]


def test_a_system_with_the_translations_of_the_first_does_not_differ_from_it(
    files: dict[str, Path],
) -> None:
    given = scoring.Systems.read({"a": files["a"], "same": files["a"]}, [files["reference"]])
    results = scoring.score(given, resamples=100)
    twice = scoring.score(given, ("bleu", "chrf", "bleu"), resamples=100)
    assert twice == results  # a score that is named twice has one row
    assert [result.p for result in results if result.system == "same"] == [1.0, 1.0]
    assert not any(result.mark for result in results)


@pytest.mark.parametrize(("lines", "tested"), [(9, False), (10, True)])
def test_of_few_lines_there_is_no_p(files: dict[str, Path], lines: int, tested: bool) -> None:
    for name in ("reference", "a", "b"):
        files[name].write_text("\n".join(files[name].read_text().splitlines()[:lines]))
    given = scoring.Systems.read({name: files[name] for name in "ab"}, [files["reference"]])
    results = scoring.score(given, resamples=100)
    assert [result.p is not None for result in results if result.system == "b"] == [tested] * 2
    (note, *_) = scoring.shown(given, results, 100).notes
    assert note.endswith("paired bootstrap." if tested else "intervals and p.")


def test_one_system_has_an_interval_and_two_references_are_both_counted(
    files: dict[str, Path], command: Callable[..., Any], tmp_path: Path
) -> None:
    both = (files["reference"], files["second"])
    told = sacrebleu(*both, "-i", files["a"], "--confidence")
    options = [word for path in both for word in ("--reference", path)]
    command("score-translations", *options, files["a"], "--out", tmp_path / "out")
    for row in rows_in(tmp_path / "out").values():
        shown = f"{row['score']:.2f} (μ = {row['mean']:.2f} ± {row['interval']:.2f})"
        assert f"{row['signature']} = {shown}" in told
        assert "nrefs:2" in told


def test_tokenised_bleu_cuts_both_sides_by_moses_and_smooths_nothing(
    files: dict[str, Path],
) -> None:
    import sacrebleu as library
    from sacremoses import MosesTokenizer

    given = scoring.Systems.read({"a": files["a"]}, [files["reference"]])
    (found,) = scoring.score(given, ["bleu_tokenised"])
    cut = MosesTokenizer("en")
    said, right = (
        [cut.tokenize(line, aggressive_dash_splits=True, return_str=True) for line in lines]
        for lines in (given.systems["a"], given.references[0])
    )
    expected = library.corpus_bleu(
        said, [right], smooth_method="none", tokenize="none", force=True
    ).score
    assert found.score == pytest.approx(expected, abs=1e-9)
    assert "moses-a" in found.signature
    assert "@-@" in said[0] + said[1] + said[2] + said[3]


def test_comet_goes_out_as_files_and_comes_back_with_intervals(
    files: dict[str, Path], command: Callable[..., Any], tmp_path: Path
) -> None:
    given = [f"{name}={files[name]}" for name in "ab"]
    start = ("score-translations", "--reference", files["reference"], *given)
    out = tmp_path / "comet"
    told = command(*start, "--source", files["source"], "--export-comet", out).out
    assert told.split()[:3] == ["comet-score", "-s", f"{out}/src.txt"]
    assert (out / "b.txt").read_text() == files["b"].read_text()
    segments = {
        f"{out}/{name}.txt": [
            {"src": "…", "mt": line, "ref": "…", "COMET": value + number / 1_000}
            for number, line in enumerate((out / f"{name}.txt").read_text().split("\n")[:-1])
        ]
        for name, value in (("a", 0.5), ("b", 0.6))
    }
    (out / "comet.json").write_text(json.dumps(segments))
    more = ("--comet", out / "comet.json", "--metrics", "bleu", "--out", tmp_path / "out")
    assert "0.630*" in command(*start, *more).out
    row = rows_in(tmp_path / "out")["b", "comet"]
    assert row["score"] == pytest.approx(0.6 + 59 / 2_000)
    assert row["interval"] == pytest.approx(0.0043, abs=0.0006)  # 1.96 · σ/√60 of 0 … 0.059
    assert row["p"] < 0.01


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file"),
        ("{", "line 1: broken JSON"),
        ("[0.5]", "holds no scores by file; give the file that comet-score --to_json wrote"),
        ('{"a.txt": 0.5}', "the segments of a have no 'mt' and 'COMET'"),
        ('{"a.txt": [], "b.txt": 1}', "scores other translations of a"),
    ],
)
def test_a_file_that_comet_did_not_write_is_refused_in_words_about_comet(
    content: str | None, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "comet.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(DataError) as error:
        scoring.read_comet(path, scoring.Systems({"a": ["said"]}, [["right"]]))
    assert message in str(error.value)
    assert "--resume" not in str(error.value)


def test_a_file_of_comet_that_is_not_there_is_told_of_before_anything_is_scored(
    files: dict[str, Path], command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "score", None)
    ended = command(
        *("score-translations", "--reference", files["reference"], files["a"]),
        *("--comet", "missing.json"),
    )
    assert ended.status == 1
    assert "missing.json: cannot be read" in ended.err


def test_no_system_takes_the_place_of_comet_s_reference(tmp_path: Path) -> None:
    given = scoring.Systems({"ref": ["said"]}, [["right"]], ["source"])
    with pytest.raises(RecipeError, match="a system is called 'ref'"):
        scoring.export_comet(given, tmp_path)


@pytest.mark.parametrize(
    "option",
    [("--metrics", "bleu_zh"), ("--lang", "de"), ("--resamples", 200), ("--comet", "comet.json"),
     ("--out", "scores")],
)  # fmt: skip
def test_options_that_score_are_refused_where_files_for_comet_are_written(
    option: tuple[str, object], tmp_path: Path, files: dict[str, Path], command: Callable[..., Any]
) -> None:
    """They were passed over, and no score was there."""
    given = ("--reference", files["reference"], "--source", files["reference"], files["a"])
    ended = command("score-translations", *given, "--export-comet", tmp_path / "comet", *option)
    assert ended.status == 1
    assert f"{option[0]}: is for scores, and --export-comet only writes files" in ended.err
    assert not (tmp_path / "comet").exists()


def test_comet_reads_one_reference(tmp_path: Path) -> None:
    given = scoring.Systems({"a": ["said"]}, [["right"], ["right too"]], ["source"])
    with pytest.raises(RecipeError, match="COMET reads one reference, and 2 are given"):
        scoring.export_comet(given, tmp_path)
    assert not list(tmp_path.iterdir())


def test_comet_s_command_is_one_that_a_shell_reads_whatever_files_are_called(
    tmp_path: Path, files: dict[str, Path], command: Callable[..., Any]
) -> None:
    said = tmp_path / "by me.txt"
    said.write_bytes(files["a"].read_bytes())
    given = ("--reference", files["reference"], "--source", files["reference"], said)
    ended = command("score-translations", *given, "--export-comet", tmp_path / "for comet")
    words = shlex.split(ended.out)
    folder = tmp_path / "for comet"
    assert words[words.index("-t") + 1] == str(folder / "by-me.txt.txt")
    assert words[-1] == str(folder / "comet.json")
    assert (folder / "by-me.txt.txt").is_file()


def test_a_file_alone_is_called_as_it_is_and_its_empty_lines_are_said(
    files: dict[str, Path], command: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    ended = command("score-translations", "--reference", files["reference"], files["b"])
    assert "b.txt" in ended.out
    assert "b.txt: 1 of 60 lines are empty" in ended.err


def test_a_file_is_no_folder_to_write_scores_into(
    files: dict[str, Path], command: Callable[..., Any]
) -> None:
    given = ("--reference", files["reference"], files["a"], "--out", files["a"])
    for overwrite in ((), ("--overwrite",)):
        ended = command("score-translations", *given, *overwrite)
        assert ended.err.endswith("is a file; name a folder\n")


def test_overwrite_replaces_what_the_command_wrote_and_nothing_else(
    files: dict[str, Path], command: Callable[..., Any], tmp_path: Path
) -> None:
    given = ("score-translations", "--reference", files["reference"], files["a"])
    source = ("--source", files["source"])
    own, other = tmp_path / "own", tmp_path / "other"
    other.mkdir()
    (other / "results.jsonl").write_text('{"model": "xpt"}\n')
    (other / "src.txt").write_text("mine\n")
    for option in ("--out", "--export-comet"):
        more = source if option == "--export-comet" else ()
        ended = command(*given, *more, option, other, "--overwrite")
        assert (ended.status, "did not write" in ended.err) == (1, True)
        for overwrite in ((), ("--overwrite",)):
            ended = command(*given, *more, option, own / option, *overwrite)
            assert ended.status == 0, ended.err
    assert (other / "src.txt").read_text() == "mine\n"
    assert (other / "results.jsonl").read_text() == '{"model": "xpt"}\n'
