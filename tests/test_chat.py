"""A chat model learns a language by its base, and keeps the difference."""

import json

import numpy as np
import pytest
import tiny_judged
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from lingraft.evaluation import samples, written
from lingraft.pipeline import chat
from lingraft.rundir import Run
from lingraft.tokenizer.documents import encode, end_of_text

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def save(folder, seed, *, chats):
    """A tiny causal model; a chat model's turns end with a token of their own."""
    tokenizer = tiny_judged.tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    if chats:
        tokenizer.chat_template, tokenizer.eos_token = TEMPLATE, "<|im_end|>"
    model = tiny_judged.model(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chat")
    return save(folder / "chat", 1, chats=True), save(folder / "base", 2, chats=False)


def adapt(command, models, out, text, *more):
    prompts = out.parent / "prompts.txt"
    prompts.write_text("the rain\nthe dog\nhe was\n", "utf-8")
    return command(
        *("adapt", "--source", models[0], "--text", text, "--lang", "ko", "--out", out),
        *("--budget", "2steps", "training.batch=200 tokens", "tokenizer.max_tokens=48"),
        *("evaluation.samples=0", "hardware.precision=fp32", f"evaluation.prompts={prompts}"),
        *more,
    )


def test_what_the_base_learns_and_what_the_chat_model_knows_are_added(
    models, tmp_path, korean_text, command
):
    more = ("tokenizer.action=extend", "tokenizer.new_pieces=20", f"source.base={models[1]}")
    adapt(command, models, tmp_path / "run", korean_text, *more).well()
    run = Run(tmp_path / "run")
    source, base = (AutoModelForCausalLM.from_pretrained(one).state_dict() for one in models)
    graft = AutoModelForCausalLM.from_pretrained(run.path / "graft" / "model").state_dict()
    trained = AutoModelForCausalLM.from_pretrained(run.weights(["phase-1"])).state_dict()
    result = AutoModelForCausalLM.from_pretrained(run.model_path).state_dict()
    ids = chat.source_ids(run.path / "graft")
    assert (ids >= 0).sum() == len(source["lm_head.weight"])
    for name, value in result.items():
        rows = name in ("lm_head.weight", "model.embed_tokens.weight")
        of_rows, at = (ids >= 0, ids[ids >= 0]) if rows else (slice(None), slice(None))
        change = source[name][at] - base[name][at]
        torch.testing.assert_close(graft[name][of_rows], base[name][at])
        torch.testing.assert_close(value[of_rows], trained[name][of_rows] + change)
        if rows:
            assert torch.equal(value[~of_rows], trained[name][~of_rows])
    evaluation = run.stage("evaluation").result()
    assert evaluation["chat"]["prompts"] == evaluation["untouched"]["chat"]["prompts"] == 3
    assert evaluation["chat"]["text"] == evaluation["untouched"]["chat"]["text"]
    assert "Answers to prompts" in (run.path / "report.html").read_text("utf-8")
    tokens = np.fromfile(run.path / "tokenizer" / "train.bin", np.uint16)
    tokenizer = AutoTokenizer.from_pretrained(run.model_path)
    ends = tokens.tolist().count(tokenizer.convert_tokens_to_ids("</s>"))
    assert ends == json.loads((run.path / "tokenizer" / "train.json").read_text())["sentences"]
    assert tokenizer.chat_template == TEMPLATE


def test_a_chat_model_writes_chats_whose_marks_are_tokens(models, tmp_path, monkeypatch):
    tokenizer = AutoTokenizer.from_pretrained(models[0])
    asked = []

    def go_on(model, prompts, *_):
        asked.append(prompts[0])
        return [tokenizer(f" {'rain' if len(asked) % 2 else 'dog'}")["input_ids"][1:]] * len(
            prompts
        )

    monkeypatch.setattr(written, "go_on", go_on)
    written.write(str(models[0]), 100, tmp_path / "chats.jsonl", 0)
    chat = [{"role": "user", "content": " rain"}, {"role": "assistant", "content": " dog"}]
    first, *_ = (tmp_path / "chats.jsonl").read_text("utf-8").splitlines()
    assert json.loads(first) == {"text": tokenizer.apply_chat_template(chat, tokenize=False)}
    prompts = [tokenizer.decode(ids) for ids in asked]
    assert prompts == ["<|im_start|>user\n", f"{prompts[0]} rain<|im_end|><|im_start|>assistant\n"]
    (tmp_path / "train.txt").write_text(json.loads(first)["text"], "utf-8")
    for special in (True, False):
        encode(tokenizer, tmp_path / "train.txt", tmp_path, "train", 64, special=special)
        ids = np.fromfile(tmp_path / "train.bin", np.uint16).tolist()
        turns = tokenizer.apply_chat_template(chat, return_dict=False)
        assert (ids[1:-1] == turns) == special


def test_a_base_that_does_not_fit_is_refused(models, tmp_path, korean_text, command, tiny_source):
    other = tiny_judged.model(3)
    other.config.num_hidden_layers = 1
    type(other)(other.config).save_pretrained(tmp_path / "other")
    for more, message in (
        ((f"source.base={tmp_path / 'other'}",), "name the model that it was made of"),
        ((f"source.base={models[1]}", "graft.inserted_after=1"), "insert none"),
    ):
        refused = adapt(command, models, tmp_path / "run", korean_text, *more)
        assert message in refused.err


def test_answers_are_counted_by_how_they_end(models):
    tokenizer = AutoTokenizer.from_pretrained(models[0])
    ids = {piece: tokenizer.convert_tokens_to_ids(piece) for piece in ("<|im_end|>", "</s>", "a")}
    model = AutoModelForCausalLM.from_pretrained(models[0])
    model.generation_config.eos_token_id = [ids["<|im_end|>"], ids["</s>"]]
    written = {
        "good": [ids["a"], ids["<|im_end|>"], ids["a"]],
        "empty": [ids["<|im_end|>"]],
        "text's end": [ids["a"], ids["</s>"]],
        "endless": [ids["a"]] * 5,
        "other": [tokenizer.convert_tokens_to_ids("<|im_start|>"), ids["<|im_end|>"]],
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(samples, "go_on", lambda *_: written.values())
        found = samples.answers(model, tokenizer, [*written], 96)
    assert found == {"prompts": 5, "stopped": 0.8, "form": 0.2}
    assert end_of_text(tokenizer) == [ids["</s>"]]
    assert end_of_text(AutoTokenizer.from_pretrained(models[1])) == [ids["</s>"]]
