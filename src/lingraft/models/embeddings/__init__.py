"""Initializers of the new word embeddings: a pure function each, one line here.

An initializer says of what each new row is made (`Plan`); `Initializer.function` makes the rows.
The result is float32 on the CPU whatever the source's type; the source is not touched; what is
random follows the generator and the material's seed; pieces of the same spelling are copied from
their own row (by all but the two that draw every row), and special tokens, if asked for, from the
row of their role; the padding row is zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from lingraft.models.embeddings.common import Initialised, Inputs, Material, RowPlan
    from lingraft.tokenizer.vocabulary import Vocabulary


@dataclass(frozen=True)
class Initializer:
    """An entry of the table of initializers, which is read without torch."""

    where: str
    """A file of this package and a function in it."""
    summary: str
    """Summary of the initializer, in a line."""
    paper: str
    """Paper that the initializer comes from."""
    learns_from_text: bool = False
    """Whether it learns from the target's text (static vectors, unless they are given)."""
    runs_model: bool = False
    """Whether it runs the source model."""

    @property
    def plan(self) -> Callable[[Inputs], RowPlan]:
        """Load the function (and torch), whose docstring says what of the material it needs."""
        module, name = self.where.split(".")
        return getattr(import_module(f"{__name__}.{module}"), name)

    def function(
        self,
        source_VD: torch.Tensor,
        source: Vocabulary,
        target: Vocabulary,
        *,
        generator: torch.Generator,
        copy_special_tokens: bool = False,
        material: Material | None = None,
    ) -> Initialised:
        """Make the new rows.

        Args:
            source_VD: [V, D] the source's word embeddings, of any floating type.
            source: the source's vocabulary.
            target: the new vocabulary.
            generator: where the draws come from.
            copy_special_tokens: copy the rows of the special tokens (all but padding) from the
                source, by role.
            material: tokenizers, text, lexicons and vectors to learn from; most need it.

        Raises:
            RecipeError: there is no material, or it lacks what the initializer needs.
            DataError: a resource cannot be read, or has nothing of use.
            UnsupportedModelError: the source's tokenizer has more pieces than the model has rows.
        """
        from lingraft.models.embeddings.common import Inputs, build  # loads torch

        plan = self.plan(Inputs(source_VD, source, target, material))
        special = copy_special_tokens
        return build(
            source_VD, source, target, plan, generator=generator, copy_special_tokens=special
        )


INITIALIZERS: dict[str, Initializer] = {
    "random": Initializer(
        "random.random", "every row drawn from N(0, 0.02)", "XPT (Lee et al. 2021), §3.2"
    ),
    "random-statistics": Initializer(
        "random.random_statistics",
        "every row drawn with the mean and deviation of the source's rows",
        "WECHSEL (Minixhofer et al. 2022), §3.2",
    ),
    "match": Initializer(
        "match.match",
        "rows of pieces that the source has too are copied, the others drawn from N(0, 0.02)",
        "MetaXLM (Chi et al. 2021), §3.2",
    ),
    "dictionary": Initializer(
        "dictionary.dictionary",
        "as match, then words of a bilingual lexicon get the row of a translation",
        "MetaXLM (Chi et al. 2021), §3.2 (+Dict)",
    ),
    "mean": Initializer(
        "mean.mean",
        "the mean of the source pieces that the new piece is made of",
        "FVT (Gee et al. 2022), §3",
    ),
    "first-piece": Initializer(
        "mean.first_piece",
        "the first of the source pieces that the new piece is made of; for output projections",
        "EEVE (Kim et al. 2024, arXiv 2402.14714), its output rows",
    ),
    "focus": Initializer(
        "focus.focus",
        "shared pieces copied, the others a sparse mean of them by use in the target's text",
        "FOCUS (Dobler and de Melo 2023), §3",
        learns_from_text=True,
    ),
    "wechsel": Initializer(
        "wechsel.wechsel",
        "a mean of the nearest source pieces in a space of word vectors of both languages",
        "WECHSEL (Minixhofer et al. 2022), §3",
        learns_from_text=True,
    ),
    "omp": Initializer(
        "omp.omp",
        "shared pieces copied, the others a sum of 16 of them found by matching pursuit",
        "Goddard and Fernandes Neto 2025 (arXiv 2506.06607), §3",
        learns_from_text=True,
    ),
    "token-distillation": Initializer(
        "token_distillation.token_distillation",
        "as mean, then trained so that the source's hidden states stay as they were on real text",
        "Dobler et al. 2026 (arXiv 2505.20133), §3",
        learns_from_text=True,
        runs_model=True,
    ),
}
