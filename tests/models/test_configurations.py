"""Whatever stands in config.json, a model loads or one line says why it does not."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lingraft.errors import LingraftError
from lingraft.evaluation.scorer import Scorer
from lingraft.finetuning import heads
from lingraft.models.source import load_model
from lingraft.pipeline.source_config import source_of
from lingraft.pipeline.stages import position_settings
from lingraft.pretrained.tokenizers import load_tokenizer
from lingraft.recipe.methods import recipe_from
from lingraft.tasks import TASKS

FAMILIES = ("bert", "roberta", "electra", "modernbert")
EXAMPLES = int(os.environ.get("LINGRAFT_EXAMPLES", "12"))
"""To a family; thousands are a matter of minutes."""
NUMBERS = [-1, 0, 1, 2, 3, 7, 1_000, 10**6, 10**9, 10**15, 10**30, -(10**30)]
VALUES = st.one_of(
    st.sampled_from([None, True, False, *NUMBERS, 0.5, 1e300, float("nan"), float("inf")]),
    st.sampled_from(["", "x", "gelu", "float32", "a/b", "full_attention", "\0", "é" * 9]),
    st.lists(st.sampled_from([None, 0, "x", "full_attention", []]), max_size=3),
    st.dictionaries(st.sampled_from(["", "x", "rope_type", "0"]), st.sampled_from([0, "x", None])),
)
MORE = ("dtype", "torch_dtype", "layer_types", "num_labels", "id2label", "auto_map", "model_type")
MORE += ("attn_implementation", "quantization_config", "rope_parameters", "pruned_heads")
MORE += ("is_decoder", "chunk_size_feed_forward", "tie_word_embeddings", "problem_type")


def load(folder):
    """All that reads a configuration: check, adapt, evaluate and finetune of this model."""
    recipe = recipe_from(
        {"name": "x", "language": "ko", "source": {"model": folder}, "corpus": {"text": ["ko"]}}
    )
    source_of(recipe)
    position_settings(recipe)
    load_model(folder)
    Scorer.load(folder, 1, "fp32")
    task = TASKS["glue-sst2"]
    heads.build(heads.resolve(folder, Path()), task, heads.tokenizer_for(folder, task), 0)


@pytest.mark.parametrize("family", FAMILIES)
def test_any_value_of_any_setting_loads_or_is_one_line(family, tiny_source, tmp_path):
    source = shutil.copytree(tiny_source(family), tmp_path / "source")
    path = source / "config.json"
    good = json.loads(path.read_text())
    load(str(source))  # as it is
    said: list[str] = []

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.dictionaries(st.sampled_from(sorted({*good, *MORE})), VALUES, min_size=1, max_size=2))
    def one(changes):
        path.write_text(json.dumps(good | changes))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # transformers warns of odd values
                load(str(source))
        except LingraftError as error:
            said.append(str(error))

    one()
    assert said
    assert not [message for message in said if "\n" in message]


@pytest.mark.parametrize("value", ["x", -5, 0, [512]])
def test_a_length_that_no_text_has_is_one_line(value, tiny_source, tmp_path):
    source = shutil.copytree(tiny_source("roberta"), tmp_path / "source")
    path = source / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_max_length": value}))
    with pytest.raises(LingraftError, match="json has model_max_length"):
        load_tokenizer(str(source))


def test_quantised_weights_are_named_where_they_would_be_judged_too(tiny_source, tmp_path):
    source = shutil.copytree(tiny_source("roberta"), tmp_path / "source")
    path = source / "config.json"
    settings = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"quantization_config": settings}))
    with pytest.raises(LingraftError, match=r"are quantised \(bitsandbytes\).*bf16 or fp32"):
        Scorer.load(str(source), 1, "fp32")
