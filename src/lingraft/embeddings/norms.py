"""Lengths of embedding rows: measured by where the rows came from, and set to the source's.

Rows that were averaged are shorter than those that they were made of, and a model notices. Source:
rescaling to the median norm of a script's rows, "Beyond Initialization Loss" (arXiv 2608.03494).

Shape letters: V source vocabulary, U target vocabulary, D width of the embeddings.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import torch

from lingraft.corpus.cleaning.scripts import letters_by_script

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lingraft.embeddings.common import Initialised
    from lingraft.tokenizer.vocabulary import Canonical, Vocabulary

FEWEST = 20
"""Rows of a script that give a median; with fewer, that of all rows is taken."""


def calibrated(
    rows: Initialised, source_VD: torch.Tensor, source: Vocabulary, target: Vocabulary, to: str
) -> tuple[Initialised, dict[str, Any]]:
    """Rescale the rows that were made to a median length of the source's, and measure all rows.

    Args:
        rows: the target's rows; those that were copied from the source stay as they are.
        source_VD: [V, D] the source's rows.
        source: its vocabulary.
        target: the new one.
        to: 'made' rescales nothing, 'all' to the median of all rows of the source that have a
            piece, 'script' to that of the rows whose piece is in the same script.

    Returns:
        The rows, and plain data: the source's median length (`source`), and by rule how many `rows`
        there are and their median length `before` and `after`.
    """
    medians = _medians(source_VD, source, by_script=to == "script")
    before_U = rows.target_UD.norm(dim=1)
    target_UD = rows.target_UD
    if to != "made":
        ids = torch.from_numpy(rows.provenance.made)
        scripts = [script_of(target.canonical[i]) if to == "script" else "" for i in ids.tolist()]
        lengths = torch.tensor([medians.get(script, medians[""]) for script in scripts])
        target_UD = target_UD.clone()
        target_UD[ids] *= (lengths / before_U[ids].clamp_min(1e-12))[:, None]
    after_U = target_UD.norm(dim=1)
    rules = defaultdict(list)
    for index, rule in enumerate(rows.provenance.rules):
        rules[rule].append(index)
    groups = {
        rule: {
            "rows": len(ids),
            "before": float(before_U[ids].median()),
            "after": float(after_U[ids].median()),
        }
        for rule, ids in rules.items()
    }
    report = {"source": medians[""], "to": to, "groups": groups}
    return dataclasses.replace(rows, target_UD=target_UD), report


def _medians(
    source_VD: torch.Tensor, source: Vocabulary, *, by_script: bool
) -> Mapping[str, float]:
    """Return the median length of the source's rows by script, and of all under the empty name."""
    norms_V = source_VD.detach().to("cpu", torch.float32).norm(dim=1)
    groups = defaultdict(list)
    for index, form in enumerate(source.canonical):
        if form is not None:
            groups[""].append(index)
            if by_script and (script := script_of(form)):
                groups[script].append(index)
    large_groups = {name: ids for name, ids in groups.items() if len(ids) >= FEWEST}
    large_groups.setdefault("", groups[""] or list(range(len(norms_V))))
    return {name: float(norms_V[ids].median()) for name, ids in large_groups.items()}


def script_of(form: Canonical | None) -> str:
    """Return the script of most letters of a piece; empty where no letter has one."""
    if form is None:
        return ""
    letters = letters_by_script(form.text.decode(errors="ignore"))
    return max(letters, key=letters.__getitem__, default="")
