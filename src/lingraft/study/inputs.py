"""Everything that decides a cell's result, as fingerprints that are the same on every machine.

Nothing here depends on absolute paths, times of change or the machine: the source's weights and the
text count by their content. A Hub model or data set counts by its name and revision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.corpus.inputs import texts
from lingraft.pipeline.fingerprints import (
    RESOURCES,
    corpus_fingerprint,
    resource_contents,
    source_fingerprint,
)
from lingraft.pretrained.checkpoints import named_tokenizer
from lingraft.recipe.embeddings import FROM_OUTSIDE
from lingraft.recipe.methods import as_written
from lingraft.rundir import FORMAT, fingerprint

if TYPE_CHECKING:
    from lingraft.recipe import Recipe

NOT_DECISIVE = {"name", "baselines", "hardware", "export"}
"""Names, the use of the machine, and what only other things read."""
BY_CONTENT = {"language", "corpus", "streams", "source", "tokenizer", "embeddings"}
"""Sections that count by the contents of their files."""
SHOWN = "samples"
"""Key of [evaluation]: how many texts are shown."""
WITHOUT_RESOURCES = {"random", "random-statistics", "match", "mean", "first-piece"}
"""Initializers that read nothing of [embeddings]."""


def shared(recipe: Recipe) -> dict[str, str]:
    """Return the fingerprints of what the corpus and the tokenizer stage make, by stage."""
    corpus, source = corpus_fingerprint(recipe), source_fingerprint(recipe)
    tokenizer = fingerprint(corpus, source, *named_tokenizer(recipe.tokenizer))
    return {"corpus": corpus, "tokenizer": tokenizer}


def of_cell(recipe: Recipe, tokenizer: str) -> str:
    """Return the fingerprint of all that decides what training and evaluation measure.

    Args:
        recipe: of the cell.
        tokenizer: the fingerprint of its tokenizer, from `shared`.

    Raises:
        DataError: a file that the recipe names is not there.
    """
    leave, section = NOT_DECISIVE | BY_CONTENT, recipe.embeddings.decisive
    plain = as_written(recipe).model_dump(mode="json", exclude_defaults=True, exclude=leave)
    plain["training"] = recipe.training.method
    if "evaluation" in plain:
        plain["evaluation"].pop(SHOWN, None)
        plain["evaluation"]["kept"] = texts(recipe.evaluation.kept)
    embeddings = section.model_dump(mode="json", exclude_defaults=True)
    contents = {}
    if WITHOUT_RESOURCES.issuperset(section.initializers):
        embeddings |= dict.fromkeys(FROM_OUTSIDE)
    else:
        embeddings |= dict.fromkeys(RESOURCES)
        contents = resource_contents(section)
    return fingerprint(FORMAT["study"], tokenizer, plain, embeddings, contents)
