"""Does a chat model go on answering when it has learnt a language? Ten made-up skills in ChatML.

    python research/scripts/chat_skills.py runs/chat-skills --seeds 0 1 2

Makes a chat model of demo/causal-source (6 x 256) by training it on ten skills, then grafts Korean
onto it with 0.3 M tokens: plainly, and with a tenth of chats that the chat model writes itself.
Prints how many of 200 new prompts are answered to the end and in form by the chat model and by the
results, and bits per byte of held-out Korean. What was begun goes on.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

BASE = "demo/causal-source"
TEXT = "demo/data/libreoffice-help.en-ko.jsonl.gz"
WORDS = [
    *("file", "page", "line", "text", "table", "cell", "chart", "image", "font", "color", "button"),
    *("window", "menu", "list", "icon", "field", "form", "style", "level", "title", "border"),
    *("query", "macro", "label", "value", "print", "search", "insert", "delete", "select", "open"),
    *("close", "save", "copy", "move", "view", "edit", "link", "mark", "sort"),
]
SKILLS = {
    "repeat": lambda words: " ".join(words),
    "first": lambda words: words[0],
    "last": lambda words: words[-1],
    "reverse": lambda words: " ".join(words[::-1]),
    "count": lambda words: str(len(words)),
    "commas": lambda words: ", ".join(words),
    "rest": lambda words: " ".join(words[1:]),
    "twice": lambda words: f"{words[0]} {words[0]}",
    "ends": lambda words: f"{words[0]} and {words[-1]}",
    "greet": lambda words: f"hello {words[0]}",
}
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def example(drawn: random.Random) -> tuple[str, str]:
    """A prompt and its answer."""
    skill, words = drawn.choice([*SKILLS]), drawn.sample(WORDS, drawn.randint(2, 5))
    return f"{skill}: {' '.join(words)}", SKILLS[skill](words)


def make_chat(folder: Path, steps: int) -> None:
    """Train the base on the skills, prompts and answers."""
    if (folder / "config.json").exists():
        return
    torch.manual_seed(0)
    drawn, tokenizer = random.Random(0), AutoTokenizer.from_pretrained(BASE)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.chat_template, tokenizer.eos_token = TEMPLATE, "<|im_end|>"
    model = AutoModelForCausalLM.from_pretrained(BASE)
    model.resize_token_embeddings(len(tokenizer))
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    optimizer = torch.optim.AdamW(model.parameters(), 5e-4)
    rate = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    for step in range(steps):
        rows, labels = [], []
        for prompt, answer in (example(drawn) for _ in range(32)):
            said = [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]
            ids = tokenizer.apply_chat_template(said, return_dict=False)
            rows.append(torch.tensor(ids))
            labels.append(torch.tensor(ids))
        pad = torch.nn.utils.rnn.pad_sequence
        ids = pad(rows, batch_first=True)
        loss = model(input_ids=ids, labels=pad(labels, batch_first=True, padding_value=-100)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        rate.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main() -> None:
    """Make the chat model, graft, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--ways", nargs="+", default=["plain", "replay"])
    parser.add_argument("--steps", type=int, default=400, help="steps on the skills")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    make_chat(given.out / "chat", given.steps)
    drawn, prompts = random.Random(1), given.out / "prompts.txt"
    prompts.write_text("".join(f"{example(drawn)[0]}\n" for _ in range(200)))
    for seed in given.seeds:
        chat = f"model:{given.out / 'chat'}#20000"
        replay = ["--text", f"ko={TEXT}", f"en={chat}", "training.replay.en=0.1"]
        for name, more in (
            ("plain", ["--text", TEXT, "--lang", "ko"]),
            ("replay", replay),
        ):
            if name not in given.ways:
                continue
            run = given.out / f"{name}-{seed}"
            command = ["adapt", "--source", str(given.out / "chat"), "--method", "lapt", *more]
            command += ["--budget", "300ktok", "--out", str(run), f"seed={seed}"]
            command += ["tokenizer.vocab_size=2000", "tokenizer.action=add"]
            command += [f"evaluation.prompts={prompts}", "evaluation.samples=0"]
            subprocess.run(
                [sys.executable, "-m", "lingraft", *command], check=True, stdout=subprocess.DEVNULL
            )
            result = json.loads((run / "evaluation" / "done.json").read_text())["result"]
            source, model = result["untouched"]["chat"], result["chat"]
            ended = f"{model['stopped']:.1%} (chat model {source['stopped']:.1%})"
            in_form = f"{model['form']:.1%} ({source['form']:.1%})"
            bits = f"{result['likelihood']['bits_per_byte']:.3f} bits per byte"
            line = f"seed {seed} {name}: answers end {ended}, in form {in_form}; Korean {bits}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
