from __future__ import annotations

import numpy as np
import torch

from lingraft.models.embeddings.common import Combination, Plan, Provenance, build
from lingraft.tokenizer.vocabulary import Vocabulary


def vocabulary(*pieces: str) -> Vocabulary:
    return Vocabulary(len(pieces), list(pieces), [None] * len(pieces), {}, frozenset())


def test_the_table_has_a_line_a_token_with_tabs_and_line_ends_escaped(tmp_path):
    provenance = Provenance(("exact", "fresh", "lower"), np.array([1, -1, 0]))
    path = tmp_path / "provenance.tsv"
    provenance.write(path, vocabulary("a\tb", "집", "c\\n"), vocabulary("C\n", "a\tb"))
    assert path.read_text(encoding="utf-8").split("\n") == [
        "target_id\tpiece\trule\tsource_id\tsource_piece\tsources",
        "0\ta\\tb\texact\t1\ta\\tb\t",
        "1\t집\tfresh\t-1\t\t",
        "2\tc\\\\n\tlower\t0\tC\\n\t",
        "",
    ]


def test_a_combined_row_is_the_weighted_sum_of_its_sources():
    source_VD = torch.tensor([[1.0, 0.0], [0.0, 2.0], [4.0, 4.0]], dtype=torch.bfloat16)
    made = build(
        source_VD,
        vocabulary("a", "b", "c"),
        vocabulary("x", "y", "z"),
        Plan(
            {2: ("exact", 1)},
            {
                0: Combination(np.array([0, 2]), np.array([0.5, -0.25], dtype=np.float32)),
                1: Combination.mean([1, 1, 0, 2]),
                2: Combination.mean([0]),
            },
        ),
        generator=torch.Generator().manual_seed(0),
        copy_special_tokens=False,
    )
    assert made.target_UD.tolist() == [[-0.5, -1.0], [1.25, 2.0], [0.0, 2.0]]
    assert made.provenance.rules == ("combined", "mean", "exact")
    assert made.provenance.source_ids.tolist() == [-1, -1, 1]
    assert list(made.provenance.combinations) == [0, 1]


def test_the_output_bias_is_carried_over_as_the_rows_were():
    combination = Combination(np.array([0, 2]), np.array([0.75, 0.25], dtype=np.float32))
    rules = ("fresh", "exact", "combined", "pad")
    provenance = Provenance(rules, np.array([-1, 1, -1, -1]), {2: combination})
    bias_V = torch.tensor([4.0, 5.0, 8.0, 9.0], dtype=torch.bfloat16)
    assert provenance.carry(bias_V).tolist() == [0.0, 5.0, 5.0, 0.0]


def test_fresh_rows_do_not_depend_on_what_is_matched():
    source = target = vocabulary("a", "b", "c")
    made = [
        build(
            torch.ones(3, 4),
            source,
            target,
            Plan(matches),
            generator=torch.Generator().manual_seed(0),
            copy_special_tokens=False,
        ).target_UD
        for matches in ({}, {1: ("exact", 2)})
    ]
    assert torch.equal(made[0][[0, 2]], made[1][[0, 2]])
    assert torch.equal(made[1][1], torch.ones(4))
