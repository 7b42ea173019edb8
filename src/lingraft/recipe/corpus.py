"""The tables that say what text is read, and what of it is kept."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from lingraft.recipe.base import Names, Section, Share


class Repetition(Section):
    """Above these shares a document is dropped; the defaults are Gopher's (Rae et al. 2021)."""

    lines: Share = 0.30
    """Share of the lines (or paragraphs) that occurred before in the document."""
    line_characters: Share = 0.20
    """Share of the characters in such lines (or paragraphs)."""
    frequent: Annotated[tuple[Share, ...], Field(strict=False, min_length=3, max_length=3)] = (
        0.20, 0.18, 0.16,
    )  # fmt: skip
    """Shares of the words' characters in the most frequent run of 2, 3 and 4 words."""
    repeated: Annotated[tuple[Share, ...], Field(strict=False, min_length=6, max_length=6)] = (
        0.15, 0.14, 0.13, 0.12, 0.11, 0.10,
    )  # fmt: skip
    """Shares of the words' characters in runs of 5, 6 … 10 words that occurred before."""
    bullets: Share = 0.90
    """Share of the lines that begin with a bullet."""
    ellipses: Share = 0.30
    """Share of the lines that end with an ellipsis."""
    min_words: Annotated[int, Field(ge=1)] = 50
    """Shorter documents are not judged."""


class Corpus(Section):
    """Raw text in, clean sentences out."""

    text: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
    """Files (.txt .jsonl .parquet, MediaWiki dumps .xml, .html .md .warc .wet; all but .parquet
    also with .gz .xz .zst .bz2), directories of these, or Hub datasets
    (hub:NAME[:CONFIG][@REVISION][#SPLIT])."""
    text_column: str = "text"
    """The field that holds the text in .jsonl, .csv, .parquet and Hub datasets; "a.b" is the field
    b inside a."""
    id_column: str = "id"
    """The field that names the document, where there is one; the split depends on it alone."""
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
    repair_encoding: bool = False
    """Undo decoding with the wrong encoding (needs the extra `clean`)."""
    mask_personal_data: bool = False
    """Put placeholders for e-mail addresses, telephone numbers and IP addresses."""
    repetition: Repetition | None = None
    """Drop documents that mostly repeat themselves or are lists; an empty table takes Gopher's
    limits, None keeps them."""
    near_duplicates: bool = False
    """Drop documents that are nearly the same as one before (MinHash), in any source."""
    min_characters: Annotated[int, Field(ge=1)] = 2
    """Shorter sentences are dropped."""
    max_characters: Annotated[int, Field(ge=1)] = 5_000
    """Longer sentences are dropped."""
    max_line_bytes: Annotated[int, Field(ge=1_000)] = 10_000_000
    """Longer lines of a file are dropped without being held in memory."""
    scripts: Names | None = None
    """ISO 15924 names of the scripts that the language is written in; None takes those of
    `language`."""
    min_script_share: Share = 0.1
    """A sentence with a smaller share of its letters in these scripts is dropped. Han counts as a
    script of Korean: use `identify_language` on crawls, where Chinese would pass."""
    min_letter_share: Share = 0.2
    """A sentence with a smaller share of letters among its non-space characters is dropped."""
    identify_language: bool = False
    """Drop sentences in another language than `language`, by a model (needs the extra `clean`)."""
    min_language_probability: Share = 0.5
    """A sentence that is less likely in the language, beside the likeliest other one, is dropped;
    the rest of its document counts too."""
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
