"""A run with two languages: its files, its numbers, and that it resumes to the same weights."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.torch import load_file

from lingraft.report import numbers
from lingraft.rundir import Run
from lingraft.study import collect
from lingraft.tokenizer.shards import Tokens

WORDS = ("the", "a", "old", "small", "green", "house", "tree", "dog", "walks", "runs", "sees")


@pytest.fixture(scope="module")
def english_text(tmp_path_factory):
    """A text file of 90 made-up English sentences: a fourth of the Korean ones."""
    drawn = np.random.default_rng(0)
    lines = [" ".join(drawn.choice(WORDS, drawn.integers(4, 12))) + ".\n" for _ in range(90)]
    path = tmp_path_factory.mktemp("english") / "en.txt"
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def arguments(tiny_source, korean_text, english_text):
    """The command of a run with two streams, to a folder."""

    def of(out, *more):
        settings = (
            "training.batch={size=8}",
            "tokenizer.max_tokens=64",
            "hardware.row_tokens=64",
            "hardware.checkpoint_steps=2",
            "hardware.precision=fp32",
            "hardware.log_steps=1",
            "evaluation.max_sentences=20",
            "evaluation.max_words=10",
            "streams.1.corpus.valid=0.1",
            "streams.1.corpus.test=0.1",
        )
        options = list(settings)
        texts = ("--text", f"ko={korean_text}", f"en={english_text}")
        source = ("adapt", "--source", tiny_source("roberta"), *texts, "training.preset=xpt2021")
        return (
            *source,
            "--out",
            out,
            "--budget",
            "8steps",
            "tokenizer.vocab_size=400",
            *options,
            *more,
        )

    return of


@pytest.fixture(scope="module")
def finished(command, arguments, tmp_path_factory):
    out = tmp_path_factory.mktemp("streams") / "run"
    ended = command(*arguments(out, "--baseline", "scratch"))
    assert ended.status == 0, ended.err
    return Run(out)


def streams_of(stage):
    return stage.result()["streams"]


def test_each_stream_has_its_text_and_its_tokens(finished):
    corpus, tokenizer = finished.stage("corpus"), finished.stage("tokenizer")
    for name in ("ko", "en"):
        lines = (corpus.path / name / "train.txt").read_text(encoding="utf-8").splitlines()
        tokens = Tokens.open(tokenizer.path, f"{name}-train")
        counts = streams_of(corpus)[name]["splits"]["train"]
        # A line is a document; a long one may be several rows.
        assert len(tokens.documents()) == len(lines) == counts["sentences"] <= len(tokens)
        assert len(tokens) == streams_of(tokenizer)[name]["tokens"]["train"]["sentences"]
    splits = corpus.result()["splits"]
    assert splits["train"]["sentences"] == sum(
        stream["splits"]["train"]["sentences"] for stream in streams_of(corpus).values()
    )
    rows = [stream["tokens"]["train"]["sentences"] for stream in streams_of(tokenizer).values()]
    assert tokenizer.result()["tokens"]["train"]["sentences"] == sum(rows)


def test_the_vocabulary_has_pieces_of_both_languages(finished):
    pieces = json.loads((finished.stage("tokenizer").path / "tokenizer.json").read_text())
    known = set(pieces["model"]["vocab"])
    assert {"Ġthe", "Ġhouse"} <= known
    assert any(not piece.isascii() for piece in known)


def test_the_validation_loss_is_given_for_each_stream_and_as_they_are_drawn(finished):
    rows = [row for row in finished.metrics() if row["kind"] == "valid"]
    sizes = streams_of(finished.stage("tokenizer"))
    powers = [sizes[name]["tokens"]["train"]["sentences"] ** 0.7 for name in ("ko", "en")]
    assert rows
    for row in rows:
        ours = [row["loss/ko/mlm"], row["loss/en/mlm"]]
        expected = np.dot(ours, powers) / sum(powers)
        assert ours[0] != ours[1]
        assert row["loss"] == pytest.approx(expected, rel=1e-9)


def test_each_stream_is_evaluated_and_the_first_heads_the_report(finished):
    result = finished.stage("evaluation").result()
    both = result["streams"]
    assert list(both) == ["ko", "en"]
    assert both["ko"]["metrics"] == result["metrics"] != both["en"]["metrics"]
    assert both["ko"]["masks"]["fingerprint"] != both["en"]["masks"]["fingerprint"]
    assert both["en"]["words"]["words"] > 0
    report = (finished.path / "report.html").read_text(encoding="utf-8")
    assert "ko, en" in report
    assert "<h3>By stream</h3>" in report
    card = (finished.model_path / "README.md").read_text(encoding="utf-8")
    assert "languages with the codes `ko`, `en`" in card
    rows = [line for line in card.splitlines() if line.startswith("| XPT | en |")]
    assert numbers.significant(both["en"]["metrics"]["mask-only"]["perplexity"]) in rows[0]


def test_a_study_has_rows_of_each_stream_that_are_those_of_the_evaluation(finished):
    axes = {"method": "xpt", "sentences": None, "seed": 0}
    common = {"model": "one", "inputs": "f", "axes": axes}
    rows = {row.metric: row for row in collect.training(common, finished)}
    found = finished.stage("evaluation").result()["streams"]

    for stream in ("ko", "en"):
        row = rows[f"stream/{stream}/mask-only/perplexity"]
        assert row.value == found[stream]["metrics"]["mask-only"]["perplexity"]
        nats = sum(total for total, _ in row.blocks) / sum(count for _, count in row.blocks)
        assert np.exp(nats) == pytest.approx(row.value, rel=1e-5)
        assert row.masks == found[stream]["masks"]["fingerprint"]
    assert rows["mask-only/mrr"].value == rows["stream/ko/mask-only/mrr"].value
    assert rows["bits_per_character"].words


def test_a_phase_counts_how_often_it_drew_each_stream(finished):
    for name in ("phase-1", "phase-2"):
        result = finished.stage(name).result()
        streams = result["streams"]
        assert list(streams) == ["ko/mlm", "en/mlm"]
        assert sum(one["draws"] for one in streams.values()) == result["sentences"]
        assert sum(one["tokens"] for one in streams.values()) == result["tokens"]
        assert sum(one["probability"] for one in streams.values()) == pytest.approx(1)
        sizes = [one["sentences"] for one in streams.values()]
        shares = [one["probability"] for one in streams.values()]
        assert shares[0] / shares[1] == pytest.approx((sizes[0] / sizes[1]) ** 0.7)


def test_the_report_compares_the_models_in_each_stream(finished):
    report = (finished.path / "report.html").read_text(encoding="utf-8")
    for title in (
        "Bits per character by stream",
        "How the streams were drawn",
        "vocabulary",
    ):
        assert f"{title}</caption>" in report
    assert "In bits per character XPT is better than scratch in" in report
    assert "Validation loss of each stream" in report


def weights(run):
    return load_file(run.model_path / "model.safetensors")


def assert_same(ours, theirs):
    expected = weights(theirs)
    assert all(tensor.equal(expected[name]) for name, tensor in weights(ours).items())


@pytest.mark.slow
def test_a_run_that_is_stopped_in_a_phase_resumes_to_the_same_weights(
    finished, command, arguments, tmp_path, monkeypatch
):
    from lingraft.training import loop

    original, calls = loop._Trainer.take_step, []

    def stopping(self, *rest):
        calls.append(1)
        if len(calls) == 7:  # the third step of phase 2, behind the checkpoint of its second
            self.stop.number = 15
        return original(self, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(loop._Trainer, "take_step", stopping)
        assert command(*arguments(tmp_path / "run")).status == 143
    assert (tmp_path / "run/phase-2/checkpoint-00000003").is_dir()
    assert command(*arguments(tmp_path / "run")).status == 0
    assert weights(Run(tmp_path / "run")).keys() == weights(finished).keys()
    assert_same(Run(tmp_path / "run"), finished)


def test_a_phase_that_names_one_stream_sees_nothing_of_the_other(
    command, arguments, finished, tmp_path
):
    reads = 'phases.0.data=[{stream="en", masking={rate=0.3}}]'
    only = 'phases.1.data=[{stream="en", weight=1}, {stream="ko", weight=3}]'
    ended = command(*arguments(tmp_path / "run", reads, only))
    assert ended.status == 0, ended.err
    rows = Run(tmp_path / "run").metrics()
    first, second = ([r for r in rows if r["phase"] == f"phase-{n}"] for n in (1, 2))
    assert not any("loss/en/mlm" in row for row in first)
    valid = [row for row in second if row["kind"] == "valid"]
    for row in valid:
        mean = (row["loss/en/mlm"] + 3 * row["loss/ko/mlm"]) / 4
        assert row["loss"] == pytest.approx(mean, rel=1e-9)


def test_metaxlm_with_a_translation_layer_and_xlm_beside_it_train_and_are_exported(
    command, arguments, tmp_path
):
    lines = ["나무\ttree\n", "집\thouse\n"]
    (tmp_path / "ko-en.tsv").write_text("".join(lines), encoding="utf-8")
    more = ("--method", "metaxlm", "--baseline", "xlm", "graft.inserted_before=1")
    ended = command(*arguments(tmp_path / "run", *more))
    assert ended.status == 0, ended.err
    run = Run(tmp_path / "run")
    baseline = Run(tmp_path / "run/baselines/xlm", parent=run.path)
    ours, theirs = (one.stage("graft").result() for one in (run, baseline))
    assert ours["layers"] == theirs["layers"] == {"source": 2, "before": 1, "after": 0}
    assert ours["embeddings"]["provenance"]["exact"] > 200
    assert theirs["account"]["copied"]["tensors"] == 0
    steps = [one.stage("phase-1").result()["tokens"] for one in (run, baseline)]
    assert steps[0] == steps[1] > 0
    assert all(len(streams_of(one.stage("evaluation"))) == 2 for one in (run, baseline))
    assert weights(run)


def test_a_teacher_is_heard_on_the_english_sentences_alone_and_is_not_exported(
    command, arguments, finished, tmp_path
):
    ended = command(*arguments(tmp_path / "run", "--method", "xlm-kd", "--baseline", "xlm"))
    assert ended.status == 0, ended.err
    run = Run(tmp_path / "run")
    baseline = Run(tmp_path / "run/baselines/xlm", parent=run.path)
    rows = [row for row in run.metrics() if row["kind"] == "train"]
    heard = [row for row in rows if "loss/kd" in row]
    assert 0 < len(heard) < len(rows)  # in some of these small batches there is no English
    assert all(row["loss"] == pytest.approx(row["loss/mlm"] + row["loss/kd"]) for row in heard)
    assert all("loss/kd" not in row for row in baseline.metrics())
    ours, theirs = (one.stage("phase-1").result() for one in (run, baseline))
    for counted in ("tokens", "masked", "streams"):
        assert ours[counted] == theirs[counted]
    start = (one.stage("graft").path / "model/model.safetensors" for one in (run, baseline))
    first, second = (load_file(path) for path in start)
    assert all(first[name].equal(second[name]) for name in second)
    trained = load_file(baseline.weights(["phase-1"]) / "model.safetensors")
    assert weights(run).keys() == trained.keys()
    assert not all(weights(run)[name].equal(trained[name]) for name in trained)


def test_one_file_in_two_languages_is_two_streams(
    command, tiny_source, korean_text, english_text, tmp_path
):
    rows = [
        {"id": str(number), "text": line, "lang": code}
        for code, path in (("ko", korean_text), ("en", english_text))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()[:90])
    ]
    path = tmp_path / "all.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    recipe = tmp_path / "r.toml"
    recipe.write_text(
        f"source.model = '{tiny_source('roberta')}'\n"
        + "".join(
            f"[[streams]]\nname = '{code}'\nlanguage = '{code}'\n"
            f"corpus = {{ text = ['{path}'], where = {{ lang = '{code}' }} }}\n"
            for code in ("ko", "en")
        )
    )
    start = ("adapt", recipe)
    sizes = ("--budget", "2steps", "tokenizer.vocab_size=400", "evaluation.max_words=5")
    sizes += ("training.batch={size=4}", "training.method=metaxlm")
    ended = command(*start, "--out", tmp_path / "run", *sizes)
    assert ended.status == 0, ended.err
    run = Run(tmp_path / "run")
    counts = streams_of(run.stage("corpus"))
    assert [one["dropped"]["not what corpus.where asks for"] for one in counts.values()] == [90, 90]
    starts = [
        np.load(run.stage("corpus").path / name / "test.documents.npy") for name in ("ko", "en")
    ]
    assert len(starts[0]) == len(starts[1])  # a page of one name is held out in both languages


@pytest.fixture
def paired(command, tiny_source, korean_text, english_text, tmp_path):
    """A run of Korean text and of pairs, English first."""
    korean = korean_text.read_text(encoding="utf-8").splitlines()
    english = english_text.read_text(encoding="utf-8").splitlines()
    lines = [f"{e}\t{k}\n" for e, k in zip(english, korean, strict=False)]
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join([*lines, "The dog walks\t\n"]), encoding="utf-8")
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        f"""
source.model = "{tiny_source("roberta")}"
tokenizer = {{vocab_size = 400, max_tokens = 64}}
hardware = {{precision = "fp32", row_tokens = 64}}
evaluation = {{max_sentences = 5, max_words = 3}}
training = {{method = "xpt-sp", preset = "xpt2021", budget = {{value = 2}}, batch = {{size = 8}}}}
[[streams]]
name = "ko"
language = "ko"
corpus.text = ["{korean_text}"]
[[streams]]
name = "pairs"
language = "en/ko"
corpus = {{text = ["{pairs}"], valid = 0.1, test = 0.1}}
""",
        encoding="utf-8",
    )
    assert command("check", recipe).status == 0
    ended = command("adapt", recipe, "--out", tmp_path / "run")
    assert ended.status == 0, ended.err
    return Run(tmp_path / "run"), lines


def test_a_document_of_a_stream_of_pairs_is_a_pair(paired):
    run, lines = paired
    counts = streams_of(run.stage("corpus"))["pairs"]
    assert set(counts["dropped"]) == {"an empty side", "held out as well"}
    kept = sum(split["documents"] for split in counts["splits"].values())
    assert kept + counts["dropped"]["held out as well"] == len(lines)
    text = run.stage("corpus").path / "pairs" / "train.txt"
    sides = text.read_text(encoding="utf-8").splitlines()
    assert {f"{e}\t{k}\n" for e, k in zip(sides[::2], sides[1::2], strict=True)} < set(lines)
    tokens = Tokens.open(run.stage("tokenizer").path, "pairs-train")
    assert len(tokens.documents()) == len(sides) // 2
    assert run.stage("corpus").result()["language"] == "ko, en-ko"
    assert "ko, en" in (run.path / "report.html").read_text(encoding="utf-8")
    (row,) = (row for row in run.metrics() if row["kind"] == "valid" and row["step"] == 2)
    assert row["loss/pairs/mlm"] > 0


def test_two_streams_of_one_language_are_drawn_and_scored_by_their_names(
    command, tiny_source, korean_text, tmp_path
):
    lines = korean_text.read_text(encoding="utf-8").splitlines(keepends=True)
    for name, part in (("news", lines[::2]), ("books", lines[1::2])):
        (tmp_path / f"{name}.txt").write_text("".join(part), encoding="utf-8")
    streams = [
        f'{{name = "{name}", language = "ko", corpus = {{text = ["{tmp_path / name}.txt"]}}}}'
        for name in ("news", "books")
    ]
    sizes = ("tokenizer.max_tokens=64", "evaluation.max_sentences=8", "evaluation.max_words=4")
    sizes += ("training.batch={size=4}", "training.packing=true", "tokenizer.vocab_size=400")
    sizes += ("training.method=xpt-sp", "training.preset=xpt2021", "training.budget={value=4}")
    recipe = tmp_path / "recipe.toml"
    source = f'[source]\nmodel = "{tiny_source("roberta")}"\n'
    recipe.write_text(f"streams = [{', '.join(streams)}]\n{source}", encoding="utf-8")
    options = list(sizes)
    ended = command("adapt", recipe, "--out", tmp_path / "run", *options)
    assert ended.status == 0, ended.err
    run = Run(tmp_path / "run")
    assert list(run.stage("evaluation").result()["streams"]) == ["news", "books"]
    drawn = run.stage("phase-1").result()["streams"]
    for name in ("news", "books"):
        text = Tokens.open(run.stage("tokenizer").path, f"{name}-train")
        one = drawn[f"{name}/mlm"]
        assert one["sentences"] == len(text) > 1.5 * one["samples"]
    assert sum(one["draws"] for one in drawn.values()) == 4 * 4
