"""The tables that say what text is read, and what of it is kept."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from lingraft.recipe.base import Names, Section, Share


class Corpus(Section):
    """Raw text in, clean sentences out."""

    text: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
    """Files (.txt .jsonl .csv .parquet, MediaWiki dumps .xml, .html .warc .wet; all but .parquet
    also with .gz .xz .bz2), directories of these, Hub datasets
    (hub:NAME[:CONFIG][@REVISION][#SPLIT]), or one corpus of `lingraft data clean`."""
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
