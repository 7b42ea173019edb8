"""Made-up results of fine-tuning on disk, of every kind of task."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

from lingraft.finetuning import outcomes
from lingraft.tasks import TASKS, examples as saved

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lingraft.tasks import Task

WORDS = "서울 대학교 의 학생 이 오늘 버스 를 타고 갔다 그리고 도서관 에서 책 을 읽었다"


def sentence(rng: random.Random, least: int = 3) -> str:
    return " ".join(rng.choice(WORDS.split()) for _ in range(rng.randint(least, 14)))


def made_examples(task: Task, n: int, seed: int = 0) -> list[saved.Example]:
    """Examples of a task with random texts and answers."""
    rng = random.Random(seed)
    return [made_example(task, f"{task.name}-{i}", rng) for i in range(n)]


def made_example(task: Task, name: str, rng: random.Random) -> saved.Example:
    text = sentence(rng)
    match task.kind:
        case "classification":
            return saved.TextExample(name, text, None, rng.choice(task.labels))
        case "pair":
            return saved.TextExample(name, text, sentence(rng), rng.choice(task.labels))
        case "regression":
            return saved.TextExample(name, text, sentence(rng), None, rng.randint(0, 50) / 10)
        case "relation":
            pair = (saved.Entity(0, 2, "PER"), saved.Entity(3, 4, "ORG"))
            return saved.RelationExample(name, text, *pair, rng.choice(task.labels[:6]))
        case "tagging":
            return saved.TaggedExample(name, tuple(text), tags_of(text, rng), characters=True)
        case "parsing":
            words = tuple(text.split())
            heads = (*tuple(range(2, len(words) + 1)), 0)
            relations = tuple(rng.choice(task.labels[:18]) for _ in words)
            return saved.ParseExample(name, words, tuple("NNG" for _ in words), heads, relations)
        case "span":
            answers = (saved.Answer(text[:3], 0),) if rng.random() < 0.8 else ()
            return saved.SpanExample(name, sentence(rng), text, answers, rng.randint(1, 3))
    raise AssertionError(task.kind)


def tags_of(text: str, rng: random.Random) -> tuple[str, ...]:
    tags = []
    for word in text.split(" "):
        kind = rng.choice(("PS", "LC", "DT", "", ""))
        tags += [f"{'BI'[i > 0]}-{kind}" if kind else "O" for i in range(len(word))]
        tags.append("O")
    return tuple(tags[:-1])


def said_of(
    task: Task, example: saved.Example, quality: float, rng: random.Random
) -> saved.Prediction:
    """The gold answer with a probability of `quality`, else another."""
    right = rng.random() < quality
    other = made_example(task, example.id, rng)
    match example:
        case saved.TextExample(score=float() as score):
            return saved.ScorePrediction(example.id, score + rng.gauss(0, 2 * (1.1 - quality)))
        case saved.TextExample() | saved.RelationExample():
            label = example.label if right else other.label
            sure = rng.uniform(0.4, 0.95)
            rest = (1 - sure) / (len(task.labels) - 1)
            scores = tuple(sure if one == label else rest for one in task.labels)
            return saved.LabelPrediction(example.id, label, scores)
        case saved.TaggedExample():
            guess = tags_of(example.text, rng)
            return saved.TagPrediction(example.id, example.tags if right else guess)
        case saved.ParseExample():
            n = len(example.words)
            heads, kinds = list(example.heads), list(example.relations)
            heads = [one if rng.random() < quality else rng.randint(0, n) for one in heads]
            kinds = [one if rng.random() < quality else rng.choice(task.labels) for one in kinds]
            return saved.ParsePrediction(example.id, tuple(heads), tuple(kinds))
        case saved.SpanExample():
            gold = example.answers[0].text if example.answers else ""
            return saved.SpanPrediction(example.id, gold if right else example.context[2:7])
    raise AssertionError(example)


def write_run(
    folder: Path,
    label: str,
    task: Task,
    seed: int,
    examples: Sequence[saved.Example],
    said: Sequence[saved.Prediction],
    **more: object,
) -> Path:
    """One finished seed as lingraft finetune leaves it."""
    place = folder / label / task.name / f"seed-{seed}"
    place.mkdir(parents=True)
    saved.save(place / "predictions-dev.jsonl", said)
    outcomes.save_examples(place / "examples-dev.jsonl", examples)
    data = {
        "model": f"models/{label}",
        "model_label": label,
        "model_fingerprint": f"weights of {label}",
        "task": task.name,
        "seed": seed,
        "splits": {"dev": {"n": len(examples), "scores": task.score(examples, said)}},
        "evaluation": ["dev"],
        "shown": list(task.shown),
        "split_note": "official",
        "settings": {"epochs": 3, "learning_rate": 5e-5},
        "fingerprint": f"{label} {task.name} {seed}",
    } | more
    (place / "scores.json").write_text(json.dumps(data))
    return place


def write_model(
    folder: Path,
    label: str,
    quality: float,
    tasks: Sequence[str],
    seeds: Sequence[int] = (0, 1),
    n: int = 60,
    **more: object,
) -> None:
    """A model on several tasks with several seeds."""
    for name in tasks:
        task = TASKS[name]
        examples = made_examples(task, n)
        for seed in seeds:
            rng = random.Random(f"{label} {name} {seed}")
            said = [said_of(task, example, quality, rng) for example in examples]
            write_run(folder, label, task, seed, examples, said, **more)
