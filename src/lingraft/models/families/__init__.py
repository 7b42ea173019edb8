"""Model families as records: where each architecture keeps what lingraft handles. No torch here.

To add a family, add one record to the table of its kind (`encoders.py`, `decoders.py`,
`encoder_decoders.py`); `record.py` says what its fields mean, and the contract tests run over it.
"""

import difflib

from lingraft.errors import RecipeError, UnsupportedModelError
from lingraft.models.families.decoders import DECODERS, ENCODER_DECODERS
from lingraft.models.families.encoders import ENCODERS
from lingraft.models.families.record import DECODER, Family, LayerList, check_config

FAMILIES: dict[str, Family] = ENCODERS | DECODERS | ENCODER_DECODERS


def family_of(model_type: str) -> Family:
    """Return the record of an architecture.

    Raises:
        UnsupportedModelError: there is none.
    """
    if model_type in FAMILIES:
        return FAMILIES[model_type]
    close = difflib.get_close_matches(model_type, FAMILIES) or ["xlm-roberta", "llama", "mt5"]
    raise UnsupportedModelError(
        f"models of type '{model_type}' cannot be grafted onto; the nearest that can: "
        f"{', '.join(close)}"
    )


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
            f"tokenizer.algorithm: transformers would read '{algorithm}' beside a "
            f"{family.model_type} model by the family's own pattern; set 'source'"
        )
