"""A task as a frozen record of its files, labels, metrics and the papers' settings.

Settings of fine-tuning a task and of cutting passages: a task's own, or changes to them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError
from lingraft.tasks import metrics, translation_metrics, weighted
from lingraft.tasks.examples import align, labelled
from lingraft.tasks.reading import placed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from lingraft.tasks.definition import Definition, Kind, Settings, Spans, Split
    from lingraft.tasks.examples import Example, Examples, Prediction
    from lingraft.tasks.reading import FileRow
    from lingraft.tasks.weighted import Scores


@dataclass(frozen=True)
class Task:
    """A task of a benchmark, or a user's own."""

    name: str
    title: str
    kind: Kind
    languages: tuple[str, ...]
    files_from: str
    """Place where the official files are to be had."""
    splits: Mapping[str, Split]
    rows: Callable[[Path], Iterable[FileRow]]
    """Records of a file, whatever its format."""
    example: Callable[[FileRow], Example]
    """Maker of an example from a record; says what is wrong with it."""
    metrics: tuple[str, ...]
    """Keys of `metrics.METRICS`."""
    selection: str
    """The score that the best checkpoint has the most of, on the selection split."""
    settings: Settings
    table: Definition
    """Definition of the task, with what was found out: where it is from, how its files are read."""
    is_own: bool = False
    """Whether a user wrote it; else it is a benchmark's."""
    labels: tuple[str, ...] = ()
    """In the order of the model's outputs; for tagging the tags, for parsing the relations."""
    headline: tuple[str, ...] = ()
    """Scores for tables; the selection's where empty."""
    evaluation: tuple[str, ...] = ("test",)
    """The splits that papers report."""
    folders: tuple[str, ...] = ()
    """Folders of the data directory in which its files may lie."""
    alternatives: Mapping[str, Settings] = field(default_factory=dict)
    """Settings of other papers."""
    spans: Spans | None = None
    wants: Callable[[FileRow], bool] = lambda row: True
    """Whether a record is of the task's language; some files hold all."""
    translation: Callable[[], Task | None] = lambda: None
    """The record by which translations of its examples are read, under the same ids."""

    @property
    def saved(self) -> dict[str, Any] | None:
        """Return a user's own task as a table, its labels, metrics and selection written out."""
        return self.table.model_dump(mode="json", exclude_unset=True) if self.is_own else None

    @property
    def shown(self) -> tuple[str, ...]:
        """Return the scores that tables show."""
        return self.headline or (self.selection,)

    def decisive(self) -> dict[str, Any]:
        """Return what of the task decides a result, beside name and examples; for fingerprints."""
        words = None
        if "bleu" in self.metrics:
            words = translation_metrics.tokenizer(self.table.language)
        return {
            "kind": self.kind,
            "labels": self.labels,
            "metrics": self.metrics,
            "selection": self.selection,
            "spans": self.spans and self.spans.model_dump(),
            "settings": self.settings.decisive(),
            **({"codes": self.table.codes} if self.table.codes else {}),
            **({} if words in (None, *translation_metrics.DEFAULT) else {"words": words}),
        }

    def read(self, path: Path, *, hidden: bool = False) -> list[Example]:
        """Read the examples of one file.

        Args:
            path: in one of the formats that the task knows.
            hidden: whether answers may be missing, as in the official test sets of many tasks.

        Raises:
            DataError: the file is broken or empty, or lacks an answer.
        """
        return self.from_rows(self.rows(path), str(path), hidden=hidden)

    def from_rows(
        self, rows: Iterable[FileRow], name: str, *, hidden: bool = False
    ) -> list[Example]:
        """Make the examples of rows that come from elsewhere, such as the Hub.

        Args:
            rows: class labels given by name, columns renamed by `hub.columns`. Of rows with one
                id, the later ones get their number behind it.
            name: what errors call the place.
            hidden: as for `read`.

        Raises:
            DataError: as for `read`.
        """
        by_id: dict[str, Example] = {}
        with placed(name):
            for row in filter(self.wants, rows):
                with placed(row.where):
                    example = self.example(row)
                if example.id in by_id:
                    example = replace(example, id=f"{example.id}#{row.number}")
                if not hidden and not labelled(example):
                    raise row.error(
                        "has no answer; files with answers are from "
                        f'{self.files_from}, and a test set without them says hidden = ["test"]'
                    )
                by_id[example.id] = example
        if not by_id:
            raise DataError(f"{name}: holds no examples for {self.name}; is it the right file?")
        return list(by_id.values())

    def score(self, examples: Examples, predictions: Iterable[Prediction]) -> dict[str, float]:
        """Return all scores of the task, in percent.

        A plain key is the clean definition; `reference/…` is what the benchmark's own code gives.

        Raises:
            DataError: an example has no answer, or examples and predictions do not belong together.
        """
        if not all(map(labelled, examples)):
            raise DataError(f"{self.name}: an example has no gold answer; score a labelled split")
        aligned = align(examples, predictions)
        return weighted.on_all(self.score_functions(examples, aligned), len(examples))

    def score_functions(self, examples: Examples, predictions: Sequence[Prediction]) -> Scores:
        """Return every score as a function of how often each example counts.

        Args:
            examples: with the right answers.
            predictions: in the same order.

        """
        scores: Scores = {}
        for name in self.metrics:
            scores |= metrics.METRICS[name](examples, predictions, self.labels)
        return scores

    @property
    def labelled_splits(self) -> tuple[str, ...]:
        return tuple(name for name, split in self.splits.items() if split.labelled)
