"""Streams: the texts that a run reads, each in a language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lingraft.recipe.base import Section
from lingraft.recipe.corpus import Corpus

if TYPE_CHECKING:
    from lingraft.recipe.phase import Phase

SHORT_FORM = ""
"""The name of the one stream of a recipe with `language` and [corpus]: its files have no prefix."""


class Stream(Section):
    """A text in a language."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    """Names its files: lower-case letters, digits and '-'."""
    language: str
    """BCP 47 code."""
    corpus: Corpus
    """The text."""

    @property
    def prefix(self) -> str:
        """What its token files' names begin with."""
        return f"{self.name}-" if self.name else ""


def check_streams(language: str | None, corpus: Corpus | None, streams: tuple[Stream, ...]) -> None:
    """Check that a recipe names its text once.

    Raises:
        ValueError: it does not.
    """
    given = [key for key, value in (("language", language), ("corpus", corpus)) if value]
    if streams and given:
        raise ValueError(
            f"{given[0]}: is the short form of a single stream; with [[streams]] put it there"
        )
    if not streams and len(given) < 2:
        missing = "corpus" if given == ["language"] else "language"
        raise ValueError(f"{missing}: is missing; the recipe must give it")
    names = [stream.name for stream in streams]
    if len(set(names)) != len(names):
        raise ValueError(f"streams: two streams have the same name, in {names}")


def check_data(phase: Phase, names: tuple[str, ...]) -> None:
    """Check that what a phase reads is there.

    Raises:
        ValueError: an unknown stream, one under the same objective twice, or some weights only.
    """
    seen = set()
    for entry in phase.data:
        if entry.stream not in names:
            known = ", ".join(name for name in names if name) or "none; give [[streams]]"
            raise ValueError(
                f"phase '{phase.name}': data: there is no stream '{entry.stream}'; "
                f"the recipe's streams: {known}"
            )
        key = (entry.stream, entry.objective or phase.objective)
        if key in seen:
            raise ValueError(
                f"phase '{phase.name}': data: stream '{entry.stream}' occurs twice under "
                f"'{key[1]}'; give it one weight"
            )
        seen.add(key)
    weights = [entry.weight is not None for entry in phase.data]
    if any(weights) and not all(weights):
        raise ValueError(
            f"phase '{phase.name}': data: some entries have a weight and some have none; "
            "give all of them one, or none (then mixture.alpha decides)"
        )
