"""A run on disk as Python sees it: model, tokenizer, numbers and figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft import rundir
from lingraft.callbacks import Callback
from lingraft.errors import DataError
from lingraft.guest import as_guest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd
    from matplotlib.figure import Figure
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from lingraft.report.row import Score
    from lingraft.report.variants import TrainedModel


class Run(rundir.Run):
    """A run's folder: what `adapt` returns, or `lingraft.Run("runs/ko")`; files are read only."""

    def __init__(self, path: str | Path, parent: Path | None = None) -> None:
        super().__init__(Path(path), parent)

    def model(self) -> PreTrainedModel:
        """Return the model in fp32 on the CPU, in evaluation mode.

        Raises:
            DataError: the run has none yet.
        """
        from lingraft.models.source import load_model

        with as_guest():
            return load_model(str(self._exported())).model

    def tokenizer(self) -> PreTrainedTokenizerFast:
        """Return the model's tokenizer.

        Raises:
            DataError: the run has none yet.
        """
        from lingraft.tokenizer import files

        with as_guest():
            return files.load(self._exported())

    @property
    def report(self) -> Path:
        """Name the run's page, an HTML file."""
        return self.path / "report.html"

    @property
    def scores(self) -> pd.DataFrame:
        """Read what was measured, a row a model: the run's own first, then its baselines.

        Columns: model, method, parameters, tokens (of training), seconds (of training),
        perplexity, hits@1, hits@5, hits@10 (per cent), mrr, mr, bits_per_character …; NaN where a
        number is not of such a model, or the evaluation is not done.

        Raises:
            DataError: the folder holds no run.
        """
        from lingraft.report import tables

        return frame(
            {
                "model": line.name,
                "method": line.method,
                "parameters": line.parameters,
                "tokens": line.tokens,
                "seconds": line.seconds,
                **{name: line.metrics.get(name) for name in tables.METRICS},
            }
            for line in tables.compare(self._models()).lines
        )

    @property
    def history(self) -> pd.DataFrame:
        """Read what was logged, a row a step or validation, over all phases and models.

        Columns: model, phase, kind (train or valid), step (of the phase), tokens (of the model so
        far), loss (nats a predicted token), and what else metrics.jsonl has.

        Raises:
            DataError: as `scores`.
        """
        rows: list[dict[str, Any]] = []
        for model in self._models():
            before = 0
            for phase in model.phases:
                logged = sorted((*phase.train, *phase.valid), key=lambda row: int(row["step"]))
                rows += [
                    {"model": model.label, **row, "tokens": before + row["tokens"]}
                    for row in logged
                ]
                before += phase.tokens or 0
        return frame(rows)

    def plot_loss(self) -> Figure:
        """Draw the loss (nats) against the tokens of training, of all models.

        Raises:
            DataError: the folder holds no run, or nothing is logged yet.
        """
        from lingraft.report import figure

        drawing = figure.losses(self._models())
        if drawing is None:
            raise DataError(f"{self.path}: nothing is logged yet; train at least one step")
        return drawing.drawn()

    def _models(self) -> Sequence[TrainedModel]:
        from lingraft.report.variants import labelled

        return labelled([rundir.Run.existing(self.path)])

    def _exported(self) -> Path:
        if not rundir.Run.existing(self.path).stage("model").done_path.is_file():
            raise DataError(f"{self.path}: the run has no model yet; finish it with the same call")
        return self.model_path


def frame(rows: Any) -> pd.DataFrame:
    """Return rows as a table of pandas, of the extra `notebook`."""
    import pandas as pd

    return pd.DataFrame(list(rows))


def read_scores(*folders: str | Path) -> pd.DataFrame:
    """Read all scores of folders: runs, studies, fine-tunings, retrievals, alignments.

    `lingraft.read_scores("runs/ko", "runs/tasks").query("reported")`.

    Args:
        folders: each with a results.jsonl.

    Returns:
        A row a number: folder, model, data, split, metric, value, n, seed, reported (whether tables
        show it), masks (values compare where it is equal), then settings and facts.

    Raises:
        DataError: a folder holds none, or a file is broken.
    """
    from lingraft.report import row

    parts = [(str(one), score) for one in folders for score in row.read(Path(one) / row.RESULTS)]
    found = scores_frame(one for _, one in parts)
    found.insert(0, "folder", [folder for folder, _ in parts])
    return found


def scores_frame(rows: Iterable[Score]) -> pd.DataFrame:
    """Return rows as a table of pandas, a column a setting and a fact."""
    own = ("model", "data", "split", "metric", "value", "n", "seed", "reported", "masks", "inputs")

    def columns(one: Score) -> dict[str, Any]:
        axes = {key: of for key, of in one.axes.items() if key != "seed"}
        trained = {"training_seed": one.axes["seed"]} if "seed" in one.axes else {}
        return {key: getattr(one, key) for key in own} | trained | axes | one.facts

    return frame(map(columns, rows))


@dataclass(frozen=True)
class Callbacks(Callback):
    """Several callbacks as one, each told of a run as Python sees it."""

    each: tuple[Callback, ...]

    def on_step(self, run: rundir.Run, row: dict[str, Any]) -> None:
        self._call("on_step", run, dict(row))

    def on_validation(self, run: rundir.Run, row: dict[str, Any]) -> None:
        self._call("on_validation", run, dict(row))

    def on_stage(self, run: rundir.Run, name: str, result: dict[str, Any]) -> None:
        self._call("on_stage", run, name, dict(result))

    def _call(self, hook: str, run: rundir.Run, *more: Any) -> None:
        for callback in self.each:
            getattr(callback, hook)(Run(run.path, run.parent), *more)
