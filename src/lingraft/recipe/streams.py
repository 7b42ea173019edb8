"""Streams: the texts that a run reads, each in a language.

The tables that say what text is read, and what of it is kept.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from lingraft.errors import RecipeError
from lingraft.files import path_of
from lingraft.recipe.base import Names, Section, Share

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lingraft.recipe.phase import Phase


class Corpus(Section):
    """Raw text in, clean sentences out."""

    text: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
    """Files (.txt .jsonl .csv .parquet, MediaWiki dumps .xml, .html .warc .wet; all but .parquet
    also with .gz .xz .bz2), directories of these, Hub datasets
    (hub:NAME[:CONFIG][@REVISION][#SPLIT]), or one corpus of `lingraft data clean`. In one of
    several streams also model:NAME[#TOKENS], text that a model writes itself, to be replayed."""
    text_column: str = "text"
    """The field that holds the text in .jsonl, .csv, .parquet and Hub datasets; "a.b" is the field
    b inside a."""
    where: dict[str, str] | None = None
    """Read only the rows with these values in these fields, as {lang = "de"} of a file in several
    languages; of .jsonl, .parquet and Hub datasets."""
    document: Literal["line", "block", "file"] | None = None
    """A document of a .txt file: a line, a block between empty lines, or the file; None guesses it,
    and says so. Wrapped lines are joined, but with "line"."""
    split_sentences: bool = True
    """Cut documents into sentences; False keeps every line as it is."""
    whole_documents: bool = False
    """Keep or drop documents, never lines out of them: one goes if more than half of its text lies
    in lines that would go, or if an evaluation occurs in it. Causal models' are kept so."""
    near_duplicates: bool = False
    """Drop documents that are nearly the same as one before (MinHash), in any source."""
    min_characters: Annotated[int, Field(ge=1)] = 2
    """Shorter sentences are dropped."""
    max_characters: Annotated[int, Field(ge=1)] = 5_000
    """Longer sentences are dropped."""
    scripts: Names | None = None
    """ISO 15924 names of the scripts that the language is written in; None takes those of
    `language`."""
    identify_language: bool = False
    """Drop sentences in another language than `language`, by a model (needs the extra `clean`)."""
    decontaminate: Names = ()
    """Files of evaluations (.txt .tsv .csv .json .jsonl .parquet, or directories): sentences that
    occur in them are dropped."""
    deduplicate: bool = True
    """Drop sentences that occur again, in any document (exact, after normalisation); the copy that
    is held out stays, else the first."""
    valid: Share = 0.02
    """Share of the documents held out for validation; a small corpus holds out 5, or a tenth."""
    test: Share = 0.02
    """Share of the documents held out for the final evaluation, as many at least as `valid`'s."""
    max_train_sentences: Annotated[int, Field(ge=1)] | None = None
    """Train on this many sentences only; smaller sets are contained in larger ones. None takes all.
    """
    split_seed: int = 0
    """Decides which documents are held out; leave it when you change `seed`, so that runs compare.
    """

    @model_validator(mode="after")
    def _leave_some(self) -> Corpus:
        if self.valid + self.test >= 1:
            raise ValueError(
                f"valid + test = {self.valid + self.test:g} leaves nothing to train on; "
                "keep it below 1"
            )
        if self.min_characters > self.max_characters:
            raise ValueError(
                f"min_characters {self.min_characters} is above "
                f"max_characters {self.max_characters}"
            )
        return self


CODE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]+)*")
"""Pattern of a BCP 47 code."""
UNTAUGHT = {"head", "output_bias", "cross_attention"}
"""Parts that the states of a sentence do not depend on."""
MODEL_PREFIX = "model:"
"""Beginning of a text that names the model which writes it."""
SHORT_FORM = ""
"""The name of the one stream of a recipe with `language` and [corpus]: its files have no prefix."""


class Stream(Section):
    """A text in a language."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    """Names its files: lower-case letters, digits and '-'."""
    language: Annotated[str, Field(pattern=r"^[^/]+(/[^/]+)?$")]
    """BCP 47 code; of sentence pairs both, as the files write them, with '/' between: en/ko."""
    corpus: Corpus
    """The text; sentence pairs come as TSV (the first language first), Moses files, TMX or JSON
    lines."""

    @property
    def pair(self) -> tuple[str, str] | None:
        """Return the two languages of sentence pairs; None for plain text."""
        first, slash, second = self.language.partition("/")
        return (first, second) if slash else None

    @property
    def bilingual(self) -> bool:
        """Return whether the stream is sentence pairs."""
        return self.pair is not None

    @property
    def is_written(self) -> bool:
        """Return whether models write its text."""
        return any(name.startswith(MODEL_PREFIX) for name in self.corpus.text)

    @property
    def languages(self) -> tuple[str, ...]:
        """Return the languages of the stream's text."""
        return tuple(self.language.split("/"))

    @property
    def prefix(self) -> str:
        """Return the beginning of the names of the stream's token files."""
        return f"{self.name}-" if self.name else ""


def check_names(key: str, wanted: Iterable[str], names: Sequence[str]) -> None:
    """Check that streams which a key of the recipe names are there.

    Raises:
        RecipeError: one is not.
    """
    for name in wanted:
        if name not in names:
            available = ", ".join(filter(None, names)) or "none; give [[streams]]"
            raise RecipeError(
                f"{key}: there is no stream '{name}'; the recipe's streams: {available}"
            )


def check_data(phase: Phase, names: tuple[str, ...]) -> None:
    """Check that what a phase reads is there, and how often it is drawn.

    Raises:
        ValueError: an unknown stream, one under the same objective twice, or weights and shares
            that do not add up.
    """
    where = f"phase '{phase.name}': data"
    check_names(where, [entry.stream for entry in phase.data], names)
    read = [(entry.stream, entry.objective or phase.objective) for entry in phase.data]
    if len(set(read)) < len(read):
        raise ValueError(f"{where}: a stream occurs twice under one objective; give it one weight")
    shares = [entry.share for entry in phase.data if entry.share is not None]
    if shares and (len(shares) == len(phase.data) or sum(shares) >= 1):
        raise ValueError(
            f"{where}: the shares leave no tokens for a stream without one; leave one share out"
        )
    if shares and phase.mixture.draw == "alternate":
        raise ValueError(f"{where}: shares do not go with mixture.draw = 'alternate'; give weights")
    weighted = {entry.weight is not None for entry in phase.data if entry.share is None}
    both = any(entry.weight is not None and entry.share is not None for entry in phase.data)
    if both or len(weighted) > 1:
        raise ValueError(f"{where}: give each entry without a share a weight, or none of them")


def distilled(phase: Phase, streams: Sequence[Stream]) -> Stream:
    """Return the stream whose sentences a teacher reads too.

    Raises:
        RecipeError: there is none, the phase does not read it, or trains nothing that it teaches.
    """
    assert phase.distil is not None
    if not phase.lora and {part.partition(".")[0] for part in phase.trained} <= UNTAUGHT:
        raise RecipeError(
            f"phase '{phase.name}': distil: nothing beneath the head trains, which a teacher could "
            "teach; leave distil out, or train more"
        )
    names = [entry.stream for entry in phase.data] or [stream.name for stream in streams]
    name = phase.distil.stream
    for stream in streams:
        english = stream.pair is None and standard(stream.language).split("-")[0] == "en"
        if stream.name in names and (english if name is None else stream.name == name):
            return stream
    raise RecipeError(
        f"phase '{phase.name}': distil.stream: name one in the source's language that the phase "
        f"reads, of {', '.join(filter(None, names)) or 'several [[streams]]'}"
    )


def standard(code: str) -> str:
    """Return the usual form of a language code: `en` of `eng`; what is no code as it is."""
    import langcodes  # compiles a large expression
    from langcodes.tag_parser import LanguageTagError

    try:
        return langcodes.standardize_tag(code)
    except LanguageTagError:
        return code


def named_texts(texts: Sequence[str], language: str | None) -> dict[str, Any]:
    """Return what of a recipe the command line's texts stand for; nothing without a language.

    Args:
        texts: paths, or LANGUAGE=PATH each: then every language is a stream.
        language: of all texts, or None.

    Raises:
        RecipeError: only some texts name their language, or they do and one is given too.
    """
    named = [text for text in texts if CODE.fullmatch(text.partition("=")[0]) and "=" in text]
    if language is not None and all(path_of(text).exists() for text in named):
        return {"language": language, "corpus": {"text": list(texts)}}
    if named and (language is not None or len(named) < len(texts)):
        raise RecipeError(
            "--text: give LANGUAGE=PATH for all texts and no --lang, or paths alone with --lang"
        )
    paths: dict[str, list[str]] = {}
    for code, _, path in (text.partition("=") for text in named):
        paths.setdefault(code, []).append(path)
    return {"streams": plain_streams(paths)} if paths else {}


def plain_streams(texts: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """Return streams as plain data, each called as its language; `texts` are paths by language."""
    return [
        {"name": code.lower(), "language": code, "corpus": {"text": list(paths)}}
        for code, paths in texts.items()
    ]
