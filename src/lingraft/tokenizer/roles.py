"""Tokens that a model needs of a tokenizer, and those around sentences, as plain data: no torch."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lingraft.errors import UnsupportedModelError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

ROLES = ("bos_token", "eos_token", "cls_token", "sep_token", "pad_token", "unk_token", "mask_token")
SENTINEL = re.compile(r"▁?<extra_id_(\d+)>")
"""T5's; mT5's vocabulary spells them with a word start."""


def sentinel_ids(vocabulary: Mapping[str, int]) -> tuple[int, ...]:
    """Return the ids of `<extra_id_0>`, `<extra_id_1>` … in this order."""
    lowest = sorted(vocabulary.items(), key=lambda entry: -entry[1])  # of two spellings, if any
    sentinels = {m[1]: index for piece, index in lowest if (m := SENTINEL.fullmatch(piece))}
    return tuple(sentinels[number] for number in sorted(sentinels, key=int))


def completed(
    roles: Mapping[str, str], kept: Iterable[str], *, causal: bool, kind: str, name: str
) -> dict[str, str]:
    """Return tokens by role, with those that stand in for others; refuse where one is missing."""
    roles = {role: token for role, token in roles.items() if role in ROLES}
    needed: tuple[str, ...] = ROLES[2:]
    if causal:
        needed = ("eos_token",) if kind == "byte-bpe" else ("eos_token", "unk_token")
    else:
        for role, alias in (("cls_token", "bos_token"), ("sep_token", "eos_token")):
            if role not in roles and alias in roles:
                roles[role] = roles[alias]
    if any(SENTINEL.fullmatch(token) for token in kept):
        needed = ("eos_token", "pad_token", "unk_token")  # sentinels stand for spans
        roles.pop("sep_token", None)
    missing = [role for role in needed if role not in roles]
    if missing:
        subject = f"a {kind} vocabulary" if causal else "its model"
        raise UnsupportedModelError(
            f"{name} has no {', '.join(missing)}; {subject} needs "
            f"{', '.join(needed)}; set them in its tokenizer_config.json"
        )
    return roles


def templates(
    processor: dict[str, Any] | None, known: set[str], name: str, *, bare: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the templates of one sentence and of two, in the short form (`Frame.single`).

    Args:
        processor: the post-processor of tokenizer.json.
        known: special tokens with a role.
        name: what errors call the tokenizer.
        bare: whether it may put nothing around a sentence.

    Raises:
        UnsupportedModelError: it puts nothing around one, or a token that has no role.
    """
    processor = processor or {"type": "none"}
    steps: list[dict[str, Any]] = (
        processor["processors"] if processor["type"] == "Sequence" else [processor]
    )
    for step in steps:
        if step["type"] in ("RobertaProcessing", "BertProcessing"):
            cls, sep = step["cls"][0], step["sep"][0]
            _check_known((cls, sep), known, name)
            single = (f"{cls}:0", "$A:0", f"{sep}:0")
            if step["type"] == "RobertaProcessing":
                return single, (*single, f"{sep}:0", "$B:0", f"{sep}:0")
            return single, (*single, "$B:1", f"{sep}:1")
        if step["type"] == "TemplateProcessing":
            _check_known(tuple(step["special_tokens"]), known, name)
            return _written(step["single"]), _written(step["pair"])
    if bare:
        return ("$A:0",), ("$A:0", "$B:0")
    raise UnsupportedModelError(
        f"{name} puts no special tokens around a sentence (its post-processor is "
        f"{processor['type']}; allowed are TemplateProcessing, RobertaProcessing, BertProcessing); "
        "save it with the model family's own tokenizer class"
    )


def _written(template: list[dict[str, Any]]) -> tuple[str, ...]:
    """Return a template of tokenizer.json in the short form."""
    pieces = []
    for piece in template:
        ((kind, value),) = piece.items()
        name = f"${value['id']}" if kind == "Sequence" else value["id"]
        pieces.append(f"{name}:{value['type_id']}")
    return tuple(pieces)


def _check_known(tokens: tuple[str, ...], known: set[str], name: str) -> None:
    unknown = sorted(set(tokens) - known)
    if unknown:
        raise UnsupportedModelError(
            f"{name} puts {', '.join(unknown)} around sentences, but no role of "
            f"{', '.join(ROLES)} has that token; set the roles in its tokenizer_config.json"
        )


def check_padding(has: int | None, needs: int | None, given: str | None = None) -> None:
    """Refuse a padding token at another id than the one that a model counts positions from.

    Args:
        has: its id in the tokenizer.
        needs: the model's; None where it does not matter.
        given: what errors call a tokenizer that is not the source's.

    Raises:
        UnsupportedModelError: they differ.
    """
    if needs is None or has == needs:
        return
    if given is None:
        raise UnsupportedModelError(
            f"the source's positions need the padding token at id {needs}, but its tokenizer has "
            f"it at {has}; set pad_token_id in its config.json right"
        )
    raise UnsupportedModelError(
        f"{given} has its padding token at id {has}, and the source counts positions from {needs}; "
        "choose a source that does not (BERT, ModernBERT), or let a tokenizer be trained"
    )


def check_present(present: Collection[str], needed: Iterable[str], given: str) -> None:
    """Refuse a tokenizer that lacks tokens which the source's model needs.

    Raises:
        UnsupportedModelError: it does.
    """
    if lacking := [token for token in needed if token not in present]:
        raise UnsupportedModelError(
            f"{given} lacks {', '.join(lacking[:4])}, which the source needs; let a tokenizer be "
            "trained (tokenizer.action = 'replace' keeps such tokens)"
        )
