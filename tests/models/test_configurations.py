"""Whatever stands in config.json, a model loads or one line says why it does not."""

from __future__ import annotations

import json
import os
import shutil
import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lingraft.errors import LingraftError
from lingraft.models.source import load_model

FAMILIES = ("bert", "roberta", "electra", "modernbert")
EXAMPLES = int(os.environ.get("LINGRAFT_EXAMPLES", "12"))
"""To a family; thousands are a matter of minutes."""
NUMBERS = [-1, 0, 1, 2, 3, 7, 1_000, 10**6]
VALUES = st.one_of(
    st.sampled_from([None, True, False, *NUMBERS, 0.5, 1e300, float("nan"), float("inf")]),
    st.sampled_from(["", "x", "gelu", "float32", "a/b", "full_attention", "\0", "é" * 9]),
    st.lists(st.sampled_from([None, 0, "x", "full_attention", []]), max_size=3),
    st.dictionaries(st.sampled_from(["", "x", "rope_type", "0"]), st.sampled_from([0, "x", None])),
)
MORE = ("dtype", "torch_dtype", "layer_types", "num_labels", "id2label", "auto_map", "model_type")
MORE += ("attn_implementation", "quantization_config", "rope_parameters", "pruned_heads")
MORE += ("is_decoder", "chunk_size_feed_forward", "tie_word_embeddings", "problem_type")


@pytest.mark.parametrize("family", FAMILIES)
def test_any_value_of_any_setting_loads_or_is_one_line(family, tiny_source, tmp_path):
    source = shutil.copytree(tiny_source(family), tmp_path / "source")
    path = source / "config.json"
    good = json.loads(path.read_text())
    load_model(str(source))  # as it is
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
                load_model(str(source))
        except LingraftError as error:
            said.append(str(error))

    one()
    assert said
    assert not [message for message in said if "\n" in message]
