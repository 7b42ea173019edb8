"""A chat model goes on answering: it replays its own chats, and its answers are counted."""

import json

import numpy as np
import pytest
import tiny_judged
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from lingraft.evaluation import samples, written
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


def test_a_run_tells_how_a_chat_model_and_its_source_answer(models, tmp_path, korean_text, command):
    (tmp_path / "prompts.txt").write_text("the rain\nthe dog\nhe was\n", "utf-8")
    command(
        *("adapt", "--source", models[0], "--text", korean_text, "--lang", "ko"),
        *("--budget", "2steps", "training.batch=200 tokens", "tokenizer.max_tokens=48"),
        *("tokenizer.action=extend", "tokenizer.new_pieces=20", "evaluation.samples=0"),
        *(f"evaluation.prompts={tmp_path / 'prompts.txt'}", "--out", tmp_path / "run"),
    ).well()
    run = Run(tmp_path / "run")
    evaluation = run.stage("evaluation").result()
    assert evaluation["chat"]["prompts"] == evaluation["untouched"]["chat"]["prompts"] == 3
    assert evaluation["chat"]["text"] == evaluation["untouched"]["chat"]["text"]
    assert "Answers to prompts" in (run.path / "report.html").read_text("utf-8")
    tokens = np.fromfile(run.path / "tokenizer" / "train.bin", np.uint16)
    tokenizer = AutoTokenizer.from_pretrained(run.model_path)
    ends = tokens.tolist().count(tokenizer.convert_tokens_to_ids("</s>"))
    assert ends == json.loads((run.path / "tokenizer" / "train.json").read_text())["sentences"]
    assert tokenizer.chat_template == TEMPLATE


@pytest.mark.parametrize(
    ("which", "more", "said"),
    [
        (1, (), "no chat template"),
        (0, ("tokenizer.algorithm=unigram",), "no chat template"),
        (0, ("tokenizer.action=use", "tokenizer.model={base}"), "no chat template"),
        (0, ("evaluation.prompts={empty}",), "holds no prompt"),
    ],
)
def test_prompts_that_nothing_can_answer_are_refused_before_a_run(
    which, more, said, models, tmp_path, korean_text, command
):
    prompts, empty = tmp_path / "prompts.txt", tmp_path / "empty.txt"
    prompts.write_text("the rain\n", "utf-8")
    empty.write_text("\n", "utf-8")
    texts = ("--text", korean_text, "--lang", "ko", f"evaluation.prompts={prompts}")
    more = [one.format(base=models[1], empty=empty) for one in more]
    refused = command("check", "--source", models[which], *texts, "--budget", "2steps", *more)
    assert said in refused.err
    assert refused.status


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
