import numpy as np
import pytest

from lingraft.evaluation.intrinsic import mask_text
from lingraft.recipe import Masking
from lingraft.recipe.decoding import decode, load
from lingraft.rundir import Run
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.shards import Tokens
from lingraft.training.objectives.common import TokenIds


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
