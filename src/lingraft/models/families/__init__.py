"""Model families as records: where each architecture keeps what lingraft handles. No torch here.

To add a family, add one record to the table of its kind (`encoders.py`, `decoders.py`,
`encoder_decoders.py`); `record.py` says what its fields mean, and the contract tests run over it.
"""

from lingraft.errors import RecipeError, UnsupportedModelError
from lingraft.models.families.decoders import DECODERS
from lingraft.models.families.encoder_decoders import ENCODER_DECODERS
from lingraft.models.families.encoders import ENCODERS
from lingraft.models.families.record import DECODER, CrossSite, Family, LayerList
from lingraft.models.families.refused import REFUSED, check_config
from lingraft.models.kinds import KINDS

FAMILIES: dict[str, Family] = ENCODERS | DECODERS | ENCODER_DECODERS


def family_of(model_type: str) -> Family:
    """The record of an architecture.

    Raises:
        UnsupportedModelError: there is none.
    """
    if model_type in REFUSED:
        raise UnsupportedModelError(
            f"models of type '{model_type}' cannot be grafted onto: {REFUSED[model_type]}"
        )
    if model_type not in FAMILIES:
        types = ", ".join(sorted(FAMILIES))
        raise UnsupportedModelError(
            f"models of type '{model_type}' cannot be grafted onto yet; choose xlm-roberta or "
            "modernbert for an encoder, llama or qwen3 for a causal model, mt5 or mbart for an "
            f"encoder–decoder (all that lingraft knows: {types}; a new family is one record in "
            "models/families/)"
        )
    return FAMILIES[model_type]


def check_vocabulary(family: Family, kind: str) -> None:
    """Refuse a kind of vocabulary that transformers would read as another.

    Args:
        family: of the source.
        kind: as in the recipe.

    Raises:
        RecipeError: the family's tokenizers have a pattern of their own, and this kind has another.
    """
    if family.own_pattern and kind in ("unigram", "byte-bpe", "wordpiece"):
        raise RecipeError(
            f"tokenizer.kind: transformers reads every {family.model_type} tokenizer by the "
            f"family's own pattern, so it would cut text otherwise than this '{kind}'; choose "
            "qwen3 or llama, or keep to the source's kind ('source', 'extend', …)"
        )
