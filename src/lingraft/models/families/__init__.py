"""Model families as records: where each architecture keeps what lingraft handles. No torch here.

To add a family, add one record to the table of its kind (`encoders.py`, `decoders.py`,
`encoder_decoders.py`); `record.py` says what its fields mean, and the contract tests run over it.
"""

import difflib
from itertools import takewhile

from lingraft.errors import RecipeError, UnsupportedModelError
from lingraft.models.families.checks import check_config
from lingraft.models.families.decoders import DECODERS
from lingraft.models.families.encoder_decoders import ENCODER_DECODERS
from lingraft.models.families.encoders import ENCODERS
from lingraft.models.families.record import DECODER, CrossSite, Family, LayerList
from lingraft.models.kinds import KINDS

SHARED, ALIKE = 3, 0.6
"""Letters in common, or a likeness, from which on a name is like another."""
FAMILIES: dict[str, Family] = ENCODERS | DECODERS | ENCODER_DECODERS


def family_of(model_type: str) -> Family:
    """Return the record of an architecture.

    Raises:
        UnsupportedModelError: there is none.
    """
    if model_type in FAMILIES:
        return FAMILIES[model_type]
    raise UnsupportedModelError(
        f"models of type '{model_type}' cannot be grafted onto; the nearest that can: "
        f"{nearest(model_type)}"
    )


def nearest(model_type: str) -> str:
    """Return the family whose name begins like another, lies in that one, or is most like it."""

    def likeness(name: str) -> tuple[int, float]:
        same = takewhile(lambda pair: pair[0] == pair[1], zip(name, model_type, strict=False))
        inside = len(name) if name in model_type else 0
        alike = difflib.SequenceMatcher(None, name, model_type).ratio()
        return max(inside, len(list(same))), alike

    shared, alike = max(map(likeness, FAMILIES))
    if shared < SHARED and alike < ALIKE:
        return "xlm-roberta, llama or mt5"
    return max(FAMILIES, key=likeness)


def check_vocabulary(family: Family, algorithm: str) -> None:
    """Refuse a kind of vocabulary that transformers would read as another.

    Args:
        family: of the source.
        algorithm: as in the recipe.

    Raises:
        RecipeError: the family's tokenizers have a pattern of their own, and this kind has another.
    """
    if family.own_pattern and algorithm != "source":
        raise RecipeError(
            f"tokenizer.algorithm: transformers reads every {family.model_type} tokenizer by the "
            f"family's own pattern, so it would cut text otherwise than this '{algorithm}'; choose "
            "qwen3 or llama, or keep to the source's ('source')"
        )
