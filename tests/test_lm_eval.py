"""lm-evaluation-harness on what a causal run exports, offline (docs/guides/causal.md)."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest
import tiny_judged
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("lm_eval") is None,
        reason="lm-evaluation-harness is not installed (pip install 'lingraft[lm-eval]')",
    ),
]
SUBJECTS = (
    ("비가 와서", "우산을 썼다", "문을 열고 나가 오래 걸었다", "비"),
    ("The dog ran to the door", "it was hungry", "the rain was green and slow", "because"),
    ("개가 짖어서", "문이", "아이가 깨어나 울기 시작했다", "it was"),
    ("He was reading", "a long book about rain", "and", "the"),
)
QUESTIONS = [
    {"context": f"{context} {times}".rstrip(), "choices": choices, "label": (7 * n + m) % 3}
    for m, times in enumerate(("", "두 번", "three times", "네 번", "다섯"))
    for n, (context, *choices) in enumerate(SUBJECTS)
]
TASK = """task: quiz
dataset_path: json
dataset_kwargs: {data_files: {test: quiz.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{context}}"
doc_to_choice: choices
doc_to_target: label
metric_list: [{metric: acc}, {metric: acc_norm}]
"""


@pytest.fixture
def model(tmp_path, korean_text, command):
    out = tmp_path / "run"
    command(
        *("adapt", "--source", tiny_judged.save(tmp_path / "source"), "--text", korean_text),
        *("--lang", "ko", "--budget", "4steps", "--out", out),
        *("training.preset=xpt2021", "tokenizer.vocab_size=400"),
        *("training.batch={size=500, unit='tokens'}", "tokenizer.max_tokens=64"),
        *("evaluation.samples=0", "evaluation.untouched=false"),
    ).well()
    return out / "model"


def log_likelihoods(folder):
    """By question and choice, with the stock classes and a forward pass for each."""
    kinds = (AutoModelForCausalLM, AutoTokenizer)
    model, tokenizer = (kind.from_pretrained(folder) for kind in kinds)
    for question in QUESTIONS:
        start = len(tokenizer(question["context"])["input_ids"])
        values = []
        for choice in question["choices"]:
            ids = tokenizer(f"{question['context']} {choice}", return_tensors="pt")["input_ids"]
            with torch.no_grad():
                logs = model(ids).logits[0, :-1].float().log_softmax(-1)
            values.append(float(logs.gather(1, ids[0, 1:, None])[start - 1 :].sum()))
        yield values


def test_the_harness_scores_an_export_as_the_stock_model_does(model, tmp_path):
    (tmp_path / "quiz.yaml").write_text(TASK, "utf-8")
    lines = (json.dumps(question, ensure_ascii=False) for question in QUESTIONS)
    (tmp_path / "quiz.jsonl").write_text("\n".join(lines), "utf-8")
    command = [sys.executable, "-m", "lm_eval", "run", "--model", "hf", "--tasks", "quiz"]
    command += ["--model_args", f"pretrained={model},dtype=float32", "--include_path", "."]
    command += ["--device", "cpu", "--batch_size", "4", "--output_path", "out", "--log_samples"]
    offline = dict.fromkeys(("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"), "1")
    ended = subprocess.run(
        command, cwd=tmp_path, env=os.environ | offline | {"HF_HOME": str(tmp_path / "cache")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-2_000:]
    (results,) = tmp_path.glob("out/**/results_*.json")
    (samples,) = tmp_path.glob("out/**/samples_*.jsonl")
    rows = sorted(map(json.loads, samples.read_text().splitlines()), key=lambda row: row["doc_id"])
    found = [[float(value) for value, _ in row["filtered_resps"]] for row in rows]
    expected = list(log_likelihoods(model))
    values = [value for row in expected for value in row]
    assert [value for row in found for value in row] == pytest.approx(values, abs=1e-3)
    scores = json.loads(results.read_text())["results"]["quiz"]
    for metric, length in (("acc", lambda _: 1), ("acc_norm", len)):
        right = 0
        for question, values in zip(QUESTIONS, expected, strict=True):
            each = [v / length(c) for v, c in zip(values, question["choices"], strict=True)]
            right += each.index(max(each)) == question["label"]
        assert 0 < right < len(QUESTIONS)
        assert scores[f"{metric},none"] == pytest.approx(right / len(QUESTIONS))
