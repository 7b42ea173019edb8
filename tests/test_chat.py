"""A chat model goes on answering: it replays its own chats, and its answers are counted."""

import json
import shutil

import numpy as np
import pytest
import tiny_judged
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from lingraft.corpus import streams
from lingraft.corpus.split import SPLITS
from lingraft.errors import UnsupportedModelError
from lingraft.evaluation import samples, written
from lingraft.recipe.methods import recipe_from
from lingraft.rundir import Run
from lingraft.tokenizer.documents import WRITTEN, as_lines, encode, end_of_text, read

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
    asked, end = [], tokenizer.convert_tokens_to_ids("<|im_end|>")

    def go_on(model, prompts, *_):
        asked.append(prompts[0])
        said = tokenizer(f" {'rain' if len(asked) % 2 else 'dog'}")["input_ids"][1:]
        endless = [said] * (len(prompts) // 2)  # these are left out
        return [*[[*said, end]] * (len(prompts) - len(endless)), *endless]

    monkeypatch.setattr(written, "go_on", go_on)
    written.write(str(models[0]), 100, tmp_path / "chats.jsonl", 0)
    chat = [{"role": "user", "content": " rain"}, {"role": "assistant", "content": " dog"}]
    first, *others = (tmp_path / "chats.jsonl").read_text("utf-8").splitlines()
    assert len(others) + 1 == 16  # of 64, half of the turns and half of the answers ended
    said = json.loads(first)["text"].translate(WRITTEN)
    assert said == tokenizer.apply_chat_template(chat, tokenize=False)
    prompts = [tokenizer.decode(ids) for ids in asked]
    assert prompts == ["<|im_start|>user\n", f"{prompts[0]} rain<|im_end|><|im_start|>assistant\n"]
    (tmp_path / "train.txt").write_text(json.loads(first)["text"], "utf-8")
    for special in (True, False):
        encode(tokenizer, tmp_path / "train.txt", tmp_path, "train", 64, special=special)
        ids = np.fromfile(tmp_path / "train.bin", np.uint16).tolist()
        turns = tokenizer.apply_chat_template(chat, return_dict=False)
        assert (ids[1:-1] == turns) == special


def test_a_base_model_with_a_chat_template_writes_documents(models, tmp_path, monkeypatch):
    tokenizer = AutoTokenizer.from_pretrained(models[1])
    tokenizer.chat_template = TEMPLATE
    base = shutil.copytree(models[1], tmp_path / "base")
    tokenizer.save_pretrained(base)
    ids = tokenizer("the rain")["input_ids"][1:]
    monkeypatch.setattr(written, "go_on", lambda model, prompts, *_: [ids] * len(prompts))
    written.write(str(base), 10, tmp_path / "texts.jsonl", 0)
    first = json.loads((tmp_path / "texts.jsonl").read_text("utf-8").splitlines()[0])
    assert first == {"text": tokenizer.decode(ids, skip_special_tokens=True)}


def test_turns_that_never_end_are_one_line(models, tmp_path, monkeypatch):
    monkeypatch.setattr(written, "go_on", lambda model, prompts, *_: [[5]] * len(prompts))
    with pytest.raises(UnsupportedModelError, match="writes no turns of at most 512 tokens"):
        written.write(str(models[0]), 10, tmp_path / "texts.jsonl", 0)


def test_short_chats_stay_whole_with_their_blank_lines(models, tmp_path, monkeypatch):
    """Their marks are the same in all of them, and so in those that are held out."""
    tokenizer = AutoTokenizer.from_pretrained(models[0])
    tokenizer.bos_token = "<|im_start|>"  # as in Llama 3, whose template begins with it, too
    template = "<|im_start|>{% for m in messages %}<|im_start|>{{ m.role }}\n\n{{ m.content }}"
    template += "<|im_end|>{% endfor %}"
    tokenizer.chat_template = template
    said = [
        f"the {word}\n\n    if rain:\n\tdog {number}" for number, word in enumerate("abcdefgh" * 8)
    ]
    chats = [
        tokenizer.apply_chat_template([{"role": "user", "content": one}], tokenize=False)
        for one in said
    ]
    rows = [json.dumps({"text": as_lines(chat)}) + "\n" for chat in chats]
    text = tmp_path / "written-0.jsonl"
    text.write_text("".join(rows))
    stream = {"name": "en", "language": "en", "corpus": {
        "text": [str(text)], "split_sentences": False, "whole_documents": True,
        "max_characters": 10**6, "deduplicate": False,
    }}  # fmt: skip
    table = {"source": {"model": "m"}, "streams": [stream], "training": {"budget": "1 steps"}}
    streams.prepare(recipe_from(table), tmp_path, {"en"})
    folder = tmp_path / "en"
    found = [one.translate(WRITTEN) for split in SPLITS for one in read(folder / f"{split}.txt")]
    assert sorted(found) == sorted(chats)


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
