"""A LoRA adapter's folder is a source: it merges with the base that it names, or is refused."""

from __future__ import annotations

import json
import warnings

import peft
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

import lingraft
from lingraft.errors import LingraftError
from lingraft.models.source import load_model
from lingraft.pipeline.fingerprints import source_fingerprint
from lingraft.pipeline.preflight import shapes_of
from lingraft.recipe import Recipe, Source
from lingraft.tokenizer import files

IDS = torch.arange(5, 25)[None]
CASES = {
    "roberta": (AutoModelForMaskedLM, {"target_modules": ["query", "dense"], "use_dora": True}),
    "gpt2": (AutoModelForCausalLM, {"target_modules": ["c_attn"], "modules_to_save": ["wte"]}),
}


@pytest.fixture(params=CASES)
def adapter(request, tiny_source, tmp_path):
    """An adapter whose base is a copy in a folder of its own, and what peft computes with it.

    One of the two has a row more than its base, and knows the tokenizer of these rows.
    """
    auto, settings = CASES[request.param]
    base, folder = tmp_path / "base", tmp_path / "adapter"
    model = auto.from_pretrained(tiny_source(request.param))
    tokenizer = files.load(tiny_source(request.param))
    model.resize_token_embeddings(len(tokenizer))
    for one in (model, tokenizer):
        one.save_pretrained(base)
    if "modules_to_save" in settings:
        tokenizer.add_tokens("neu")
        tokenizer.save_pretrained(folder)
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    model.name_or_path = str(base)
    with warnings.catch_warnings(action="ignore"):  # peft's
        made = peft.get_peft_model(model, peft.LoraConfig(r=3, lora_alpha=9, **settings)).eval()
    for parameter in (p for p in made.parameters() if p.requires_grad):
        torch.nn.init.normal_(parameter, std=0.1)
    with torch.no_grad(), warnings.catch_warnings(action="ignore"):
        made.save_pretrained(folder)
        return folder, base, made(input_ids=IDS).logits, len(tokenizer)


def test_an_adapter_and_its_base_are_one_source(adapter, korean_text):
    folder, base, expected_BTV, rows = adapter
    for name, close in ((folder, True), (base, False)):
        settings = {"tokenizer.action": "keep"}
        model, *_ = lingraft.graft(name, text=korean_text, settings=settings)
        found_BTV = model(input_ids=IDS).logits[..., : expected_BTV.shape[-1]]
        both = found_BTV, expected_BTV[..., : found_BTV.shape[-1]]
        assert torch.allclose(*both, atol=1e-4) is close
    assert len(files.load(folder)) == rows
    shapes = shapes_of(Source(model=str(folder)), 0).model.state_dict()
    tensors = load_model(str(folder)).model.state_dict()
    assert {n: t.shape for n, t in shapes.items()} == {n: t.shape for n, t in tensors.items()}


def test_the_files_of_both_are_in_the_fingerprint(adapter):
    folder, base, *_ = adapter
    recipe = Recipe.model_construct(source=Source(model=str(folder)))
    found = [source_fingerprint(recipe)]
    for place in (base, folder):
        (place / "more.json").write_text("{}")
        found.append(source_fingerprint(recipe))
    assert len({*found}) == 3


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"peft_type": "PROMPT_TUNING"}, "of type PROMPT_TUNING, and only LoRA .* 'BASE'"),
        ({"base_model_name_or_path": None}, "or without base_model_name_or_path"),
        ({"base_model_name_or_path": "/gone"}, "its base '/gone' is not there; download it"),
        ({"r": 4}, "differs or is in one alone"),
    ],
)
def test_what_cannot_be_merged_is_refused(adapter, change, problem):
    folder, base, *_ = adapter
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(LingraftError, match=problem.replace("BASE", str(base))):
        shapes_of(Source(model=str(folder)), 0)
