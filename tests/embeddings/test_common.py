from __future__ import annotations

import numpy as np
import torch

from lingraft.embeddings.common import Provenance, build
from lingraft.vocabulary import Vocabulary


def vocabulary(*pieces: str) -> Vocabulary:
    return Vocabulary(len(pieces), list(pieces), [None] * len(pieces), {}, frozenset())


def test_the_table_has_a_line_a_token_with_tabs_and_line_ends_escaped(tmp_path):
    provenance = Provenance(("exact", "fresh", "lower"), np.array([1, -1, 0]))
    path = tmp_path / "provenance.tsv"
    provenance.write(path, vocabulary("a\tb", "집", "c\\n"), vocabulary("C\n", "a\tb"))
    assert path.read_text(encoding="utf-8").split("\n") == [
        "target_id\tpiece\trule\tsource_id\tsource_piece",
        "0\ta\\tb\texact\t1\ta\\tb",
        "1\t집\tfresh\t-1\t",
        "2\tc\\\\n\tlower\t0\tC\\n",
        "",
    ]


def test_counts_come_in_the_order_of_the_rules_without_empty_ones():
    provenance = Provenance(("fresh", "exact", "pad", "fresh"), np.array([-1, 3, -1, -1]))
    assert list(provenance.counts().items()) == [("exact", 1), ("pad", 1), ("fresh", 2)]


def test_fresh_rows_do_not_depend_on_what_is_matched():
    source = target = vocabulary("a", "b", "c")
    made = [
        build(
            torch.ones(3, 4),
            source,
            target,
            matches,
            generator=torch.Generator().manual_seed(0),
            copy_special_tokens=False,
        ).target_UD
        for matches in ({}, {1: ("exact", 2)})
    ]
    assert torch.equal(made[0][[0, 2]], made[1][[0, 2]])
    assert torch.equal(made[1][1], torch.ones(4))
