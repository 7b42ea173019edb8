import numpy as np
import pytest

import lingraft
from lingraft.evaluation import words
from lingraft.evaluation.intrinsic import mask_text
from lingraft.evaluation.records import WORDS_FILE, read, word_blocks, word_metrics
from lingraft.objectives.common import TokenIds
from lingraft.recipe import Masking
from lingraft.recipe.decoding import decode, load
from lingraft.rundir import Run
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.shards import Tokens
from tests.support.vocabulary_kinds import keys_of


def test_the_stage_leaves_every_word_beside_its_averages_and_blocks(adapted):
    stage = Run(adapted("roberta")).stage("evaluation")
    result, records = stage.result(), read(stage.path / WORDS_FILE)
    assert len(records) == result["words"]["words"] + result["words"]["dropped"] > 0
    again = word_metrics(records)
    assert again["characters"] == result["words"]["characters"]
    assert abs(again["bits_per_character"] - result["words"]["bits_per_character"]) < 1e-4
    kept = result["blocks"]["words"]["bits_per_character"]
    assert [count for _, count in kept] == [
        count for _, count in word_blocks(records)["bits_per_character"]
    ]


def test_unigrams_are_over_the_tokens_that_can_be_targets(adapted):
    run = Run(adapted("roberta"))
    folder, section = run.stage("tokenizer").path, decode(load(run.recipe_path)).evaluation
    ids = TokenIds.of(tokenizer_files.load(str(folder)))
    test = Tokens.open(folder, "test")
    masking = Masking(rate=section.masking_rate, scheme="mask-only")
    text = mask_text(test.rows(range(len(test))), ids, "", masking, section.seed)
    targets = np.concatenate([item.targets for item in text.items])
    counts = Tokens.open(folder, "train").counts(ids.size) + 1
    expected = -np.log(counts[targets] / counts[ids.ordinary].sum()).mean()
    assert run.stage("evaluation").result()["unigram_entropy"] == pytest.approx(expected)


@pytest.mark.parametrize(("kind", "read"), [("keep", 128), ("source", 16)])
def test_with_the_sources_vocabulary_words_are_scored_within_all_positions(
    kind, read, tiny_source, korean_text, tmp_path, monkeypatch
):
    """Korean takes three times the tokens of its own vocabulary's in bytes."""
    asked = []
    measure = words.measure
    monkeypatch.setattr(words, "measure", lambda *given: asked.append(given[3]) or measure(*given))
    recipe = {
        "language": "ko",
        "source": {"model": str(tiny_source("roberta"))},
        "corpus": {"text": [str(korean_text)]},
        "tokenizer": keys_of(kind) | {"max_tokens": 16},
        "training": {
            "method": "scratch",
            "preset": "xpt2021",
            "budget": {"value": 1},
            "batch": {"size": 8},
        },
        "graft": {"inserted_before": 0, "inserted_after": 0},
    }
    run = lingraft.adapt(recipe, tmp_path / "run")
    assert asked == [read]
    assert run.stage("evaluation").result()["words"]["dropped"] == 0
