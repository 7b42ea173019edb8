"""Tables and figures of studies of causal models: by the byte, over characters."""

import math
from types import SimpleNamespace

import pytest
from synthetic_study import BLOCKS, cell_rows

from lingraft.pipeline.causal_evaluation import choose_documents
from lingraft.report.table import BEST
from lingraft.stats import Resampling
from lingraft.study import causal_tables, collect, page, plots
from lingraft.study.results import collect as results_of
from lingraft.study.rows import CurveRow, MetricRow

RESAMPLING = Resampling(200)
SPEED = "speed/characters_per_second@1"


def causal_rows(initializer, seed, bits, text="same", kind="replace", per_token=2.0):
    """The rows of a cell that has learnt Korean, with `bits` of a byte."""
    axes = {"embeddings.init": initializer, "tokenizer.action": kind}
    *_, end = cell_rows("xpt-sp", None, seed, 3.0, **axes)
    common = {key: getattr(end, key) for key in ("study", "cell", "fingerprint", "axes")}
    sums = tuple(((bits + 0.01 * (n % 3 - 1)) * 100, 100.0) for n in range(BLOCKS))
    values = {
        "likelihood/bits_per_byte": (bits, sums, text),
        "tokens_per_character": (1 / per_token, None, text),
        "kept/en.txt/bits_per_byte": (bits + 1, None, "english"),
        SPEED: (100 * per_token, None, ""),
    }
    metrics = [
        MetricRow(
            **common, metric=name, value=value, n=5_000 if text == "same" else 4_000, masks=masks,
            blocks=blocks, seed=seed, tokens=1_000, seconds=1.0,
        )
        for name, (value, blocks, masks) in values.items()
    ]  # fmt: skip
    points = tuple((t, bits * 2 * math.log(2) + 100 / t) for t in (100, 500, 1_000))
    sizes = {"characters_per_token": per_token, "bytes_per_token": 2.0}
    curve = CurveRow(**common, phase="phase-1", split="valid", points=points, **sizes)
    return [*metrics, curve, end]


@pytest.fixture(scope="module")
def rows():
    made = []
    for seed in (0, 1):
        made += causal_rows("random", seed, 2.0 + 0.02 * seed)
        made += causal_rows("focus", seed, 1.5 + 0.02 * seed)
        made += causal_rows("mean", seed, 1.2, text="other", kind="keep", per_token=0.5)
    return made


@pytest.mark.parametrize("diverged", ["focus", "random"])
def test_a_causal_model_that_diverged_does_not_keep_the_best_from_its_mark(diverged):
    lost = {"value": math.nan, "blocks": None}
    values = {"focus": 1.5, "random": 2.0, "mean": 1.7}
    found = results_of(
        [
            row.model_copy(update=lost)
            if isinstance(row, MetricRow) and initializer == diverged
            else row
            for initializer, bits in values.items()
            for row in causal_rows(initializer, 0, bits)
        ]
    )
    column = causal_tables.quality(found, None).column("bits/byte")
    (best,) = [name for name, cell in column.items() if cell.rank == BEST]
    assert best.endswith("mean" if diverged == "focus" else "focus")


def test_a_causal_model_of_other_seeds_is_not_said_to_have_masked_tokens():
    rows = [
        row.model_copy(
            update={"axes": row.axes | {"method": method}, "fingerprint": method}
            | ({"masks": method} if getattr(row, "metric", "") == SPEED else {})
        )
        for seed, method in enumerate(("scratch", "xpt"))
        for row in causal_rows("random", seed, 1.5)
    ]
    less = causal_tables.differences_of(results_of(rows), None, RESAMPLING)
    assert less.notes == ("XPT and scratch lack a metric or a seed that both have.",)


def test_initializers_of_causal_models_are_compared_by_the_byte(rows):
    table = causal_tables.initializers(results_of(rows), RESAMPLING)
    assert [column.title for column in table.columns] == [
        "initializer", "method", "sentences", "bits/byte", "en.txt, kept", "tokens/char",
        "bits/byte less random", "seeds",
    ]  # fmt: skip
    by_name = {line.cells[0].text: line.cells for line in table.rows}
    assert by_name["focus"][1].text == "XPT-SP, replace"
    assert by_name["focus"][3].whole == "1.510 ± 0.014"
    assert by_name["focus"][4].text == "2.510"
    gain = by_name["focus"][6]
    assert gain.text == "−0.500"
    assert "[−0.5" in gain.under
    assert by_name["random"][6].text == by_name["mean"][6].text == "–"


def test_bits_of_other_documents_are_marked_and_never_the_best(rows):
    found = results_of(rows)
    table = causal_tables.quality(found, None)
    bits = {
        name.split("init ")[1].split(",")[0]: cell
        for name, cell in table.column("bits/byte").items()
    }
    assert (bits["mean"].mark, bits["focus"].mark) == ("‡", "")
    assert [name for name, cell in bits.items() if cell.rank == BEST] == ["focus"]
    note = next(note for note in table.notes if note.startswith("‡"))
    assert "init mean, action keep (4,000 bytes): bits of other held-out documents" in note
    assert any(note.startswith("‡") for note in causal_tables.initializers(found, RESAMPLING).notes)
    alike = [row for row in rows if row.axes["tokenizer.action"] == "replace"]
    assert not any("‡" in note for note in causal_tables.quality(results_of(alike), None).notes)


def not_knowing(rows, initializers, prefix="likelihood", vocabulary="small"):
    """The rows, with ten tokens of a text unknown to some cells, whose vocabulary is another."""
    made = []
    for row in rows:
        if row.axes["embeddings.init"] in initializers:
            if getattr(row, "metric", "") == f"{prefix}/bits_per_byte":
                update = {"metric": f"{prefix}/unknown", "value": 10.0, "blocks": None}
                made.append(row.model_copy(update=update))
            if getattr(row, "metric", "") == SPEED:
                row = row.model_copy(update={"masks": vocabulary})
        made.append(row)
    return made


def test_bits_of_a_model_to_which_some_of_the_text_is_unknown_are_never_the_best():
    values = {"random": 2.0, "focus": 1.5, "mean": 1.2}
    rows = [row for name, bits in values.items() for row in causal_rows(name, 0, bits)]
    found = results_of(not_knowing(rows, ["mean"]))
    table = causal_tables.quality(found, None)
    bits = {name.split()[-1]: cell for name, cell in table.column("bits/byte").items()}
    assert [name for name, cell in bits.items() if cell.rank == BEST] == ["focus"]
    assert [name for name, cell in bits.items() if cell.mark] == ["mean"]
    note = "‡ Some of the text is unknown to XPT-SP, init mean, whose bits are then too few."
    assert note in table.notes
    assert "the same held-out documents" in table.notes[0]
    side_by_side = causal_tables.initializers(found, RESAMPLING)
    assert note in side_by_side.notes
    assert "unknown" not in " ".join(column.title for column in table.columns)

    # with one vocabulary the same is unknown to all, and they compare
    table = causal_tables.quality(results_of(not_knowing(rows, values)), None)
    bits = table.column("bits/byte")
    assert [name.split()[-1] for name, cell in bits.items() if cell.rank == BEST] == ["mean"]
    assert not any(cell.mark for cell in bits.values())
    assert any(note.startswith("Some of the text is unknown to") for note in table.notes)


def test_a_text_of_the_sources_language_that_is_in_part_unknown_is_named():
    values = {"random": 2.0, "focus": 1.5, "mean": 1.2}
    rows = [row for name, bits in values.items() for row in causal_rows(name, 0, bits)]
    table = causal_tables.quality(results_of(not_knowing(rows, ["mean"], "kept/en.txt")), None)
    kept = {name.split()[-1]: cell for name, cell in table.column("en.txt, kept").items()}
    assert [name for name, cell in kept.items() if cell.rank == BEST] == ["focus"]
    assert kept["mean"].mark == "‡"
    assert any(note.startswith("‡ Some of en.txt is unknown to XPT-SP") for note in table.notes)


def test_differences_name_the_model_to_which_some_of_the_text_is_unknown():
    rows = [
        row.model_copy(update={"axes": row.axes | {"method": method}, "fingerprint": method})
        for method, name, bits in (("scratch", "random", 1.5), ("xpt", "mean", 1.2))
        for row in not_knowing(causal_rows(name, 0, bits), ["mean"])
    ]
    less = causal_tables.differences_of(results_of(rows), None, RESAMPLING)
    (cell,) = less.column("bits/byte").values()
    assert cell.mark == "‡"
    (note,) = [note for note in less.notes if "unknown" in note]
    assert note.startswith("‡ Some of the text is unknown to XPT")


def test_the_page_of_a_study_speaks_of_bits_where_models_are_causal(rows):
    html = page.render("demo", rows)
    assert "Bits per byte against characters seen" in html
    assert "Masked tokens of held-out text" not in html
    assert "Masked tokens of held-out text" in page.render("s", cell_rows("xpt", 1_000, 0, 3.0))


def test_a_curve_goes_on_in_characters_where_the_phase_before_ended():
    phases = [
        CurveRow(
            study="s", cell="c", fingerprint="f", axes={}, phase=name, split="valid",
            points=tuple((t, math.log(2)) for t in tokens), characters_per_token=size,
            bytes_per_token=2.0,
        )
        for name, tokens, size in (("one", (50, 100), 3.0), ("two", (150, 200), 1.0))
    ]  # fmt: skip
    assert plots._points(phases, plots.BITS_SEEN) == [
        (150.0, 0.5), (300.0, 0.5), (350.0, 0.5), (400.0, 0.5)
    ]  # fmt: skip


def variant(streams):
    """A causal run, of Korean and replayed English or of Korean alone, as its files say it."""
    sizes = {"ko": (2.0, 5.0), "en": (0.5, 0.5)}
    statistics = {
        name: {
            "statistics": {"train": {"characters_per_token": size}, "test": {"bytes_per_token": b}}
        }
        for name, (size, b) in sizes.items()
    }
    results = {
        "tokenizer": statistics["ko"] | ({"streams": statistics} if streams else {}),
        "evaluation": {"likelihood": {}},
    }
    phase = SimpleNamespace(
        name="phase-1",
        plan=None,
        result={"streams": streams},
        train=(),
        valid=({"tokens": 10, "loss": 9.0, "loss/ko/clm": 4.0, "loss/en/clm": 29.0},),
        tokens=10,
    )
    texts = [SimpleNamespace(name="ko" if streams else "")]
    recipe = SimpleNamespace(texts=texts)
    return SimpleNamespace(result=results.get, phases=[phase], recipe=recipe)


@pytest.mark.parametrize(
    ("streams", "loss", "characters"),
    [
        ({"ko/clm": {"tokens": 700}, "en/clm": {"tokens": 300}}, 4.0, 0.7 * 2.0 + 0.3 * 0.5),
        ({}, 9.0, 2.0),
        ({"ko/clm": {"draws": 7}, "en/clm": {"draws": 3}}, 4.0, None),  # of before tokens counted
    ],
)
def test_replayed_text_counts_as_read_and_not_as_what_is_judged(
    streams, loss, characters, monkeypatch
):
    monkeypatch.setattr(collect.variants, "kind_of", lambda evaluation: "causal")
    common = {"study": "s", "cell": "c", "fingerprint": "f", "axes": {}}
    (curve,) = collect._curves(common, variant(streams))
    assert curve.points == ((10, loss),)
    assert curve.characters_per_token == pytest.approx(characters)
    assert curve.bytes_per_token == (None if characters is None else 5.0)


def test_which_documents_are_scored_is_counted_in_characters_never_in_tokens():
    texts = [str(n) * 50 for n in range(10)]
    assert choose_documents(texts, 1) == [texts[0]]
    assert choose_documents(texts, 3) == [texts[0], texts[4], texts[9]]
    assert choose_documents(texts, 100) == texts
    long = ["가" * 1_000] * 10
    assert len(choose_documents(long, 40)) == 4
