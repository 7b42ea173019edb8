"""The translation study's pairs keep its tests out, and its start looks at neighbours."""

import pytest
import torch
from script_modules import load
from transformers import RobertaConfig, RobertaForMaskedLM

from lingraft.tasks.sentences import lines

pytestmark = pytest.mark.slow


data, start = (
    load("build_translation_data", "research/scripts"),
    load("build_translation_source", "research/scripts"),
)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """The pairs of Help pages alone, by set."""
    folder = tmp_path_factory.mktemp("pairs")
    data.write_demo(folder)
    files = {kind: folder / f"{kind}.tsv.gz" for kind in ("train", "dev", "test")}
    return {kind: [tuple(line.split("\t")) for line in lines(file)] for kind, file in files.items()}


def test_no_side_of_a_training_pair_is_a_line_of_a_held_out_page(pairs):
    pages = data.help_pages()
    held = {
        side for kind in ("valid", "test") for _, page in pages[kind] for p in page for side in p
    }
    assert {len(pair) for pair in pairs["train"]} == {2}
    assert held.isdisjoint(side for pair in pairs["train"] for side in pair if len(side) > 8)


@pytest.mark.parametrize(("kind", "count"), [("dev", 500), ("test", 1_000)])
def test_held_out_pairs_are_different_and_in_no_other_set(kind, count, pairs):
    own = pairs[kind]
    others = {side for other in {"dev", "test"} - {kind} for pair in pairs[other] for side in pair}
    assert len(set(own)) == count
    assert others.isdisjoint(side for pair in own for side in pair)


def test_a_pair_is_left_out_for_either_side():
    evaluations = data.Evaluations(["Open the file and save it."], lambda text: [text])
    given = [("Open the file and save it.", "하나"), ("Close it.", "OPEN the file, and save it")]
    assert data.allowed([*given, ("Close it.", "닫으세요.")], evaluations) == [
        ("Close it.", "닫으세요.")
    ]


@torch.no_grad()
def test_each_head_of_the_first_layer_looks_at_its_distance_most():
    config = RobertaConfig(
        vocab_size=50, hidden_size=start.WIDTH, intermediate_size=8, num_hidden_layers=1,
        num_attention_heads=start.HEADS, max_position_embeddings=start.POSITIONS, pad_token_id=1,
        attn_implementation="eager",
    )  # fmt: skip
    torch.manual_seed(0)
    model = RobertaForMaskedLM(config).eval()
    start.looks_at_neighbours(model)
    ids = torch.full((1, 30), 7)  # equal words: positions alone decide
    (weights,) = model(ids, output_attentions=True).attentions
    for head, distance in enumerate(start.DISTANCES):
        assert weights[0, head, 10].argmax() == 10 + distance
