"""Keys of the commands of this room; loads neither numpy nor torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from lingraft.recipe.base import Keys, Names

Pool = Literal["mean", "cls"]


class Searching(Keys):
    """Keys of finding translations."""

    layer: int | None = None
    """Whose states are pooled; 0 is the embeddings. Default: the best on dev; else of retrieval the
    best on the pairs themselves, of mining the usual one."""
    pool: Pool | None = None
    """mean over all tokens (default), or cls: the first token."""
    parity: Literal["xtreme"] | None = None
    """xtreme: directions, layer and pooling of its scripts."""


class Mining(Searching):
    """Keys of mining translations."""

    threshold: float | None = None
    """The lowest margin of a mined pair, instead of dev's."""
    gold: str | None = None
    """The pairs to be found: a file of source id TAB target id."""
    dev: Annotated[Names, Field(min_length=3, max_length=3)] | None = None
    """SOURCE, TARGET and their pairs, to choose layer and threshold on."""


class Linking(Keys):
    """Keys of linking words and of scoring links."""

    layers: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(strict=False)] | None = None
    """Layers, as [8]; 0 is the embeddings. Default: all."""
    clamp: bool = True
    """false gives the links of XLM-Align's released aligner."""
    dev: Annotated[int, Field(ge=0)] = 0
    """Choose the layer on the first N sentences of every set."""
    batch_tokens: Annotated[int, Field(ge=16)] = 4_096
    """Tokens through the model at once."""


class Pooling(Keys):
    """Keys of a sentence's vector."""

    layer: int | None = None
    """Whose states are pooled; the last by default."""
    pool: Pool | None = None
    """mean (default) over all tokens, or cls."""
    retrieval: str | None = None
    """Take layer and pooling from this --out of `lingraft analyze retrieval`."""


class Decoding(Keys):
    """Keys of translating a text; None takes what the checkpoint says."""

    beams: Annotated[int, Field(ge=1, le=1_000)] | None = None
    """Beams of the search; 1 is greedy and fastest. As the model says."""
    max_new_tokens: Annotated[int, Field(ge=1)] | None = None
    """Longest translation, in tokens. As the model says, or 200."""
    batch_tokens: Annotated[int, Field(ge=1)] = 4_096
    """Source tokens times beams in the model at once."""
    source_language: str | None = None
    """Code of the text's language, for mBART (en_XX), M2M (en), NLLB (eng_Latn)."""
    target_language: str | None = None
    """Code of the language to translate into, for the same."""
    prefix: str = ""
    """Put before every line: "translate English to German: " for T5, say."""
