"""`lingraft check MODEL`: what is wrong with a checkpoint is said, a line each."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import causal_tokenizers
import pytest
from safetensors.torch import load_file, save_file

from lingraft.models.families import FAMILIES

ROOT = Path(__file__).parents[2]


@pytest.fixture
def model(tiny_source, tmp_path):
    """A copy of a family's tiny model, and how to change a JSON file of it."""

    def copied(family, file=None, **changes):
        folder = tmp_path / family
        shutil.copytree(tiny_source(family), folder)
        if file:
            path = folder / file
            path.write_text(json.dumps(json.loads(path.read_text()) | changes))
        return folder

    return copied


def tensors(folder, change):
    path = folder / "model.safetensors"
    changed = load_file(path)
    change(changed)
    save_file(changed, path, {"format": "pt"})


def test_a_sound_model_is_told_in_a_few_lines(command):
    ended = command("check", ROOT / "demo/source")
    assert ended.status == 0, ended.err
    assert ended.out.splitlines()[1:5] == [
        "output projection: its embeddings (tied)",
        "tokenizer: 4,000 pieces, unigram",
        "rows: 4,000, 0 of them without a piece",
        "special ids: cls 0, sep 2, bos 0, pad 1, eos 2, unk 3, mask 4",
    ]
    assert ended.out.endswith(f"{ROOT / 'demo/source'}: sound\n")
    assert "their ids give them back" in ended.out


@pytest.mark.parametrize("family", sorted(FAMILIES.keys() - {"eurobert"}))
def test_models_of_all_families_are_sound(family, tiny_source, command):
    ended = command("check", tiny_source(family))
    assert (ended.status, ended.err) == (0, "")


def refused(command, folder, *texts):
    ended = command("check", folder)
    assert ended.status == 1
    lines = [line for line in ended.err.splitlines() if line.startswith("lingraft: ")]
    assert len(lines) == len(texts), ended.err
    for line, text in zip(lines, texts, strict=True):
        assert line.startswith(f"lingraft: {folder}: ")
        assert text in line
    assert "sound" not in ended.out


def test_all_that_is_wrong_is_told_at_once(model, command):
    folder = model("bert", "config.json", pad_token_id=7, mask_token_id=1)
    tensors(folder, lambda found: found.pop("cls.predictions.transform.dense.weight"))
    refused(
        command,
        folder,
        "lack 1 tensors of a masked language model (cls.predictions.transform.dense.weight is one)",
        "config.json: pad_token_id 7 is no special token",
        "config.json: mask_token_id is 1, but the tokenizer's is 4",
    )


@pytest.fixture
def chat_model(tiny_model, tmp_path, command):
    """Checks a model with more rows than pieces; ids are given as tokens, None leaves them open."""

    def checked(family, kind, roles, config, generation):
        tokenizer = causal_tokenizers.build.__wrapped__(kind)
        for role, token in roles.items():
            setattr(tokenizer, f"{role}_token", token)
        tiny_model(family, vocab_size=400).save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        for name, tokens in {"config": config, "generation_config": generation}.items():
            path = tmp_path / f"{name}.json"
            if tokens is None:
                path.unlink()
                continue
            ids = {
                f"{role}_token_id": token and tokenizer.convert_tokens_to_ids(token)
                for role, token in tokens.items()
            }
            path.write_text(json.dumps(json.loads(path.read_text()) | ids))
        return command("check", tmp_path)

    return checked


FIRST, TEXT_END, TURN_END = "<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"
LLAMA3 = ("llama", "llama-3", {"eos": TURN_END})
QWEN_END, QWEN_TURN = "<|endoftext|>", "<|im_end|>"
QWEN = ("qwen2", "qwen", {})
QWEN_IDS = {"bos": QWEN_END, "eos": [QWEN_TURN, QWEN_END], "pad": QWEN_END}
SOUND = {
    "Llama 3": (*LLAMA3, {"bos": FIRST, "eos": TEXT_END}, {"eos": [TEXT_END, TURN_END]}),
    "Llama 3.2": (*LLAMA3, {"eos": [TEXT_END, TURN_END]}, {"eos": [TEXT_END, TURN_END]}),
    "Qwen": (*QWEN, {"bos": QWEN_END, "eos": QWEN_TURN, "pad": None}, QWEN_IDS),
    "a chat model with its base's config.json": (*QWEN, {"eos": QWEN_END}, QWEN_IDS),
    "Qwen without a generation configuration": (*QWEN, {"eos": QWEN_TURN, "pad": None}, None),
    "Gemma": (
        *("gemma3_text", "gemma", {}),
        {"bos": "<bos>", "eos": ["<eos>", "<end_of_turn>"], "pad": "<pad>"},
        {"bos": "<bos>", "eos": ["<eos>", "<end_of_turn>"], "pad": "<pad>"},
    ),
    "TinyLlama": (
        *("llama", "llama-2", {"pad": "</s>"}),
        {"bos": "<s>", "eos": "</s>", "pad": None},
        {"bos": "<s>", "eos": "</s>", "pad": "<unk>"},
    ),
    "Phi 2": ("phi", "gpt2", {"pad": QWEN_END}, {"eos": QWEN_END, "pad": QWEN_END}, None),
    "DeepSeek": (
        *("qwen3", "llama-3", {}),
        {"bos": TEXT_END, "eos": TEXT_END, "pad": None},
        {"bos": FIRST, "eos": TEXT_END},
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_chat_models_as_they_are_published_are_sound(name, chat_model):
    ended = chat_model(*SOUND[name])
    assert (ended.status, ended.err) == (0, "")


@pytest.mark.parametrize(
    ("config", "generation", "text"),
    [
        ({"eos": TURN_END}, {"eos": TEXT_END}, "generation_config.json: eos_token_id is 331, but"),
        ({"eos": TEXT_END}, None, "config.json: eos_token_id is 331, but the tokenizer's is 334"),
        ({"eos": [TURN_END, "a"]}, {"eos": TURN_END}, "config.json: eos_token_id 64 is no special"),
        ({"pad": TURN_END}, {"eos": TURN_END}, "config.json: pad_token_id is 334, but"),
    ],
)
def test_a_chat_model_that_would_not_stop_is_found(config, generation, text, chat_model):
    ended = chat_model(*LLAMA3, config, generation)
    assert ended.status == 1
    assert f": {text}" in ended.err
    assert ended.err.count("lingraft: ") == 1


def test_embeddings_that_are_tied_in_name_alone_are_found(tiny_model, model, command):
    folder = model("llama")
    tiny_model("llama", tie_word_embeddings=False).save_pretrained(folder)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tie_word_embeddings": True}))
    refused(command, folder, "says that the output projection is the embeddings")


def test_a_tokenizer_that_is_larger_than_the_model_is_found(tiny_model, model, command):
    folder = model("roberta")
    tiny_model("roberta", vocab_size=200).save_pretrained(folder)
    refused(command, folder, "but the model only 200 embedding rows")


def test_text_that_does_not_come_back_is_found(model, command):
    folder = model("modernbert", "tokenizer.json", decoder=None)
    refused(command, folder, "sample words do not give them back")
