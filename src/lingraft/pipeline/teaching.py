"""The teacher of a phase that distils: loaded, checked against the student, frozen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingraft.errors import UnsupportedModelError
from lingraft.models import source
from lingraft.objectives.distillation import Teacher
from lingraft.pretrained.load import check_longest, longest_text
from lingraft.recipe.streams import distilled
from lingraft.tokenizer import files as tokenizer_files

if TYPE_CHECKING:
    from pathlib import Path

    from lingraft.models.source import LoadedSource
    from lingraft.recipe import Phase, Recipe

LONGEST = 512


def of(recipe: Recipe, phase: Phase, student: LoadedSource, tokenizer: Path) -> dict[str, Any]:
    """What a job must know of the phase's teacher; nothing where it has none.

    Args:
        recipe: names the source, which is the teacher unless the phase names another.
        phase: with `distil` or without.
        student: the model that learns.
        tokenizer: folder of its tokenizer.

    Raises:
        UnsupportedModelError: the two differ in width, so that their states do not compare.
    """
    if phase.distil is None:
        return {}
    name, revision = phase.distil.teacher, None
    if name is None:
        name, revision = str(recipe.source.model), recipe.source.revision
    loaded, teacher_tokenizer = (
        source.load_model(name, revision),
        tokenizer_files.load(name, revision),
    )
    student_width, width = student.model.config.hidden_size, loaded.model.config.hidden_size
    if student_width != width:
        raise UnsupportedModelError(
            f"phase '{phase.name}': distil: the teacher '{name}' has states of width {width} and "
            f"the model of width {student_width}; name a teacher of the same width"
        )
    longest = min(LONGEST, longest_text(loaded.model.config, int(teacher_tokenizer.pad_token_id)))
    teacher = Teacher.of(
        loaded.model,
        loaded.family,
        teacher_tokenizer,
        tokenizer_files.load(str(tokenizer)),
        longest=check_longest(name, longest),
        weight=phase.distil.weight,
    )
    return {"teacher": teacher, "distilled": distilled(phase, recipe.texts).name}
