"""A benchmark of one task in several languages: trained in one of them, tested in all.

Its records are ordinary tasks, one a language, called `NAME-LANGUAGE`: `TASKS["xquad-de"]`. One
that has no training files in its language lacks the split `train`; labels are the same in all.
"""

from __future__ import annotations

from typing import Literal

from lingraft.errors import RecipeError
from lingraft.recipe.base import Names, Section

Category = Literal["classification", "tagging", "qa", "retrieval"]
"""XTREME's four groups of tasks."""


class Group(Section):
    """The records of one task, and what their scores are averaged to."""

    name: str
    title: str
    category: Category
    languages: Names = ()
    """In which there is a record; filled in by the catalogue."""
    train_language: str = "en"
    """In which XTREME trains; of retrieval, the language that translations are in."""
    scores: Names
    """Whose mean is the task's one number (`avg_metric`): exact match and F1 of answers."""

    def member(self, language: str) -> str:
        """The name of the record in a language.

        Raises:
            RecipeError: there is none.
        """
        if language not in self.languages:
            raise RecipeError(
                f"{self.name}: is not in the language {language!r}; it is in "
                f"{', '.join(sorted(self.languages))}"
            )
        return f"{self.name}-{language}"
