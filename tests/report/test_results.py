"""The results of a run for Python."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import matplotlib as mpl
import pandas as pd
import pytest
from matplotlib.colors import to_hex

import lingraft
from lingraft.errors import DataError
from lingraft.report import figure

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def run(adapted) -> Path:
    return adapted("roberta")


def test_the_numbers_are_those_of_the_evaluation(run: Path) -> None:
    results = lingraft.results(run)
    done = json.loads((run / "evaluation/done.json").read_text())["result"]
    (row,) = results.rows()
    assert row["perplexity"] == results.perplexity == done["metrics"]["mask-only"]["perplexity"]
    assert row["bits_per_character"] == done["words"]["bits_per_character"]
    assert results.unigram_perplexity == pytest.approx(math.exp(done["unigram_entropy"]))
    assert results.verdict.startswith("Nothing is known of XPT")  # 34 targets
    assert lingraft.results(results.run).rows() == results.rows()


def test_rows_become_a_table_of_pandas(run: Path) -> None:
    results = lingraft.results(run)
    table = pd.DataFrame(results.rows()).set_index("model")
    assert table.loc["XPT", "tokens"] == results.models[0].tokens
    assert {"perplexity", "hits@1", "mrr", "seconds"} <= set(table.columns)


def test_tokens_of_the_history_go_on_over_the_phases(run: Path) -> None:
    results = lingraft.results(run)
    history = pd.DataFrame(results.history())
    assert set(history.kind) == {"train", "valid"}
    assert list(history.phase.unique()) == ["phase-1", "phase-2"]
    assert history.tokens.is_monotonic_increasing
    assert history.tokens.max() == results.models[0].tokens
    logged = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert sorted(history.loss) == sorted(row["loss"] for row in logged if "phase" in row)


@pytest.mark.parametrize("what", ["loss", "learning rate"])
def test_a_figure_is_matplotlibs_in_colours_that_can_be_seen(run: Path, what: str) -> None:
    drawn = lingraft.results(run).figure(what)
    assert isinstance(drawn, mpl.figure.Figure)
    stand_ins = {to_hex(colour) for colour in figure.STAND_INS}
    (axes,) = drawn.axes
    used = {to_hex(line.get_color()) for line in axes.lines}
    used |= {to_hex(text.get_color()) for text in drawn.findobj(mpl.text.Text)}
    used |= {to_hex(line.get_color()) for line in drawn.findobj(mpl.lines.Line2D)}
    assert used & stand_ins == set()
    assert to_hex(figure.PALETTE["light"].split()[2]) in used


def test_a_figure_that_there_is_none_of_is_refused(run: Path) -> None:
    with pytest.raises(DataError, match="figure 'joy': there is none; there are loss"):
        lingraft.results(run).figure("joy")


def test_results_of_a_folder_without_a_run_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no run"):
        lingraft.results(tmp_path)
