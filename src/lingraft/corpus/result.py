"""What became of a corpus: told, and checked."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from lingraft.corpus.cleaning import clean
from lingraft.corpus.readers.lines import LINE_TOO_LONG
from lingraft.corpus.split import LEAST, SPLITS
from lingraft.errors import DataError

if TYPE_CHECKING:
    from lingraft import recipe

logger = logging.getLogger(__name__)

WRONG_SCRIPT_LIMIT = 0.95
NOT_IN_SUBSET = "not in the subset"
HELD_OUT = "held out as well"
"""In another stream."""
PLACES = "places"
"""Of a row: the places of its sentences in the whole document, where some were left out."""


def log_result(result: dict[str, Any], section: recipe.Corpus) -> None:
    """Tell the whole way from documents to splits, one line a fact."""
    logger.info(
        "corpus: %s documents and %s sentences from %s",
        f"{result['documents']:,}",
        f"{result['sentences_in']:,}",
        ", ".join(source["name"] for source in result["sources"][:5])
        + (", …" if len(result["sources"]) > 5 else ""),
    )
    for reason, count in (result["dropped"] | result["subset"]).items():
        logger.info("corpus: %s left out: %s", f"{count:,}", reason)
        for text in result.get("samples", {}).get(reason, ()):
            logger.debug("corpus: left out: %s: %s", reason, text)
    for kind, count in result["changed"].items():
        logger.info("corpus: %s changed: %s", f"{count:,}", kind)
    for notice in result.get("notices", ()):  # an older corpus has none
        logger.warning("corpus: %s", notice)
    if LINE_TOO_LONG in result["dropped"]:
        logger.warning(
            "corpus: what is counted as one line may be a whole text: it has more than %s bytes; "
            "give it line ends, or raise corpus.max_line_bytes",
            f"{section.max_line_bytes:,}",
        )
    if not section.deduplicate:
        logger.warning("corpus: deduplicate = false: held-out sentences may stand in train, too")
    if result["widened"]:
        logger.info(
            "corpus: the shares give fewer than %d documents to %s, so the next ones in the order "
            "of the split are held out too; some of them train when more text is added",
            *(LEAST, " and ".join(result["widened"])),
        )
    for name, counts in result["splits"].items():
        logger.info(
            "corpus: %s: %s sentences of %s documents, %s characters",
            name,
            *(f"{counts[key]:,}" for key in ("sentences", "documents", "characters")),
        )


def check_result(result: dict[str, Any], section: recipe.Corpus) -> None:
    """Refuse a corpus that cannot be trained on.

    Raises:
        DataError: nearly all is in another script, or a split that was asked for is empty.
    """
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in result["dropped"].items())
    counts = (
        f"{result['documents']:,} documents, {result['sentences_in']:,} sentences; "
        f"dropped: {dropped or 'none'}"
    )
    wrong = result["dropped"].get(clean.WRONG_SCRIPT, 0)
    if wrong > WRONG_SCRIPT_LIMIT * max(result["sentences_in"], 1):
        raise DataError(
            f"corpus: {wrong:,} of {result['sentences_in']:,} sentences are not in "
            f"{'/'.join(result['scripts'])}, the script of language '{result['language']}' "
            f"({counts}); check language and corpus.text, or set corpus.scripts"
        )
    shares = {"train": 1.0, "valid": section.valid, "test": section.test}
    for name in SPLITS:
        if shares[name] > 0 and not result["splits"][name]["sentences"]:
            raise DataError(
                f"corpus: no {name} sentence is left ({counts}); {_advice(name, section)}"
            )


def _advice(name: str, section: recipe.Corpus) -> str:
    if name == "train":
        return "check corpus.text, corpus.where, and the filters in [corpus]"
    return (
        f"give more documents or raise corpus.{name}, or say what a document of a .txt file is "
        '(corpus.document = "line"); documents of one id (corpus.id_column) count as one'
    )
