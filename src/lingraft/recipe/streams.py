"""Streams: the texts that a run reads, each in a language."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from lingraft.errors import RecipeError
from lingraft.paths import path_of
from lingraft.recipe.base import Section
from lingraft.recipe.corpus import Corpus

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lingraft.recipe.phase import Phase

CODE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]+)*")
"""Pattern of a BCP 47 code."""
UNTAUGHT = {"head", "output_bias", "cross_attention"}
"""Parts that the states of a sentence do not depend on."""
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
    def languages(self) -> tuple[str, ...]:
        """Return the languages of the stream's text."""
        return tuple(self.language.split("/"))

    @property
    def prefix(self) -> str:
        """Return the beginning of the names of the stream's token files."""
        return f"{self.name}-" if self.name else ""


def check_streams(language: str | None, corpus: Corpus | None, streams: tuple[Stream, ...]) -> None:
    """Check that a recipe names its text once.

    Raises:
        ValueError: it does not.
    """
    keys = [key for key, value in (("language", language), ("corpus", corpus)) if value]
    if streams and keys:
        raise ValueError(
            f"{keys[0]}: is the short form of a single stream; with [[streams]] put it there"
        )
    if not streams and len(keys) < 2:
        missing = "corpus" if keys == ["language"] else "language"
        raise ValueError(f"{missing}: is missing; the recipe must give it")
    names = [stream.name for stream in streams]
    if len(set(names)) != len(names):
        raise ValueError(f"streams: two streams have the same name, in {names}; give each its own")
    for stream in streams:
        if stream.pair and stream.corpus.where:
            raise ValueError(f"streams: '{stream.name}': corpus.where is not for sentence pairs")
    first_readers: dict[tuple[str, ...], str] = {}
    for stream in streams:
        where = stream.corpus.where
        for text in stream.corpus.text:
            reading = (
                standard(stream.language).lower(),
                text,
                stream.corpus.text_column,
                str(where),
            )
            first = first_readers.setdefault(reading, stream.name)
            if first != stream.name:
                raise ValueError(
                    f"streams: '{first}' and '{stream.name}' both read {text} in {stream.language},"
                    " which would be drawn twice; leave it out of one"
                )


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
    """Check that what a phase reads is there.

    Raises:
        ValueError: an unknown stream, one under the same objective twice, or some weights only.
    """
    check_names(f"phase '{phase.name}': data", [entry.stream for entry in phase.data], names)
    seen = set()
    for entry in phase.data:
        key = (entry.stream, entry.objective or phase.objective)
        if key in seen:
            raise ValueError(
                f"phase '{phase.name}': data: stream '{entry.stream}' occurs twice under "
                f"'{key[1]}'; give it one weight"
            )
        seen.add(key)
    if any(entry.weight is not None and entry.share is not None for entry in phase.data):
        raise ValueError(
            f"phase '{phase.name}': data: an entry has a weight and a share; a share is of the "
            "tokens, a weight of the draws: give one"
        )
    shares = [entry.share for entry in phase.data if entry.share is not None]
    if shares and phase.mixture.draw == "alternate":
        raise ValueError(
            f"phase '{phase.name}': data: a share of the tokens does not go with mixture.draw = "
            "'alternate'; give weights"
        )
    if shares and (len(shares) == len(phase.data) or sum(shares) >= 1):
        raise ValueError(
            f"phase '{phase.name}': data: the shares leave no tokens for a stream without one; "
            "leave the share of one stream out, which then gets what is left"
        )
    weights = [entry.weight is not None for entry in phase.data if entry.share is None]
    if any(weights) and not all(weights):
        raise ValueError(
            f"phase '{phase.name}': data: some entries have a weight and some have none; "
            "give all of them one, or none (then mixture.alpha decides)"
        )


def distilled(phase: Phase, streams: Sequence[Stream]) -> Stream:
    """Return the stream whose sentences a teacher reads too.

    Raises:
        RecipeError: there is none, the phase does not read it, or trains nothing that it teaches.
    """
    assert phase.distil is not None
    if not phase.lora and {part.partition(".")[0] for part in phase.trained} <= UNTAUGHT:
        raise RecipeError(
            f"phase '{phase.name}': distil: a teacher draws the states that the head reads, and "
            f"nothing beneath it trains ({', '.join(sorted(phase.train))}); leave distil out, or "
            "train more"
        )
    names = [entry.stream for entry in phase.data] or [stream.name for stream in streams]
    name = phase.distil.stream
    for stream in streams:
        english = stream.pair is None and standard(stream.language).split("-")[0] == "en"
        if stream.name in names and (english if name is None else stream.name == name):
            return stream
    choices = ", ".join(filter(None, names)) or "several [[streams]]"
    missing = "English stream" if name is None else f"stream '{name}'"
    raise RecipeError(
        f"phase '{phase.name}': distil: it reads no {missing}; name one in the teacher's "
        f"language in phases.….distil.stream, of {choices}"
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
    if language is not None:
        if _by_language([text for text in texts if not path_of(text).exists()]):
            raise RecipeError(
                "--lang: the texts name their languages (LANGUAGE=PATH); leave --lang out"
            )
        return {"language": language, "corpus": {"text": list(texts)}}
    paths = _by_language(texts)
    if not paths:
        return {}
    if sum(map(len, paths.values())) < len(texts):
        raise RecipeError(
            "--text: some texts are given as LANGUAGE=PATH and some are not; give all of them so, "
            "or none (then --lang names the language)"
        )
    return {"streams": plain_streams(paths)}


def _by_language(texts: Sequence[str]) -> dict[str, list[str]]:
    """Return the paths of LANGUAGE=PATH by language; those of a path alone are left out."""
    paths: dict[str, list[str]] = {}
    for text in texts:
        code, _, path = text.partition("=")
        if path and CODE.fullmatch(code):
            paths.setdefault(code, []).append(path)
    return paths


def plain_streams(texts: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """Return streams as plain data, each called as its language; `texts` are paths by language."""
    return [
        {"name": code.lower(), "language": code, "corpus": {"text": list(paths)}}
        for code, paths in texts.items()
    ]
