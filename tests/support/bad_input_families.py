"""What test_bad_input.py does wrong with the architecture of a source."""

from __future__ import annotations

import json

FP4 = {"quant_method": "bitsandbytes", "load_in_4bit": True}
CONFIGURED = {
    "a model that sees images": {"model_type": "gemma3", "vision_config": {"hidden_size": 8}},
    "a quantised checkpoint": {"quantization_config": FP4},
    "layers that are one and the same": {"model_type": "albert"},
    "relative positions in a family that has none": {"position_embedding_type": "relative_key"},
    "layers with attention in chunks": {
        "model_type": "llama", "layer_types": ["chunked_attention", "full_attention"]
    },
}  # fmt: skip


def add(cases):
    """Put the cases into the table of bad_input_cases.py."""
    for wrong, values in CONFIGURED.items():
        cases[wrong] = configured(values)
    cases["a folder with a GGUF file"] = gguf
    cases["a generation_config.json that is no JSON"] = generation
    cases["silent layers in a family that has none"] = lambda place: place.adapt(
        "--set", "graft.inserted_init=identity"
    )
    cases["a baseline that the source's architecture cannot be"] = lambda place: place.adapt(
        "--method", "continued", "--baseline", "blocks"
    )


def configured(values):
    def case(place):
        path = place.source() / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | values))
        return place.adapt()

    return case


def gguf(place):
    source = place.source()
    (source / "config.json").unlink()
    (source / "model-q4.gguf").write_bytes(b"GGUF")
    return place.adapt()


def generation(place):
    (place.source("llama") / "generation_config.json").write_text("{")
    return place.adapt()
