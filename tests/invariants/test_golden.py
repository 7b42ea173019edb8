"""Three tiny runs give the numbers that are written down in golden.json.

Integers and hashes of integers (token files, batches with their masks, fingerprints of stages) are
compared exactly, floats to a relative 1e-5 and more, since processors differ in their last bits.
Who means to change a number records it anew, and shows it: `LINGRAFT_WRITE_GOLDEN=1 pytest
tests/invariants/test_golden.py`.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from pathlib import Path

import pytest
from safetensors.torch import load_file

import lingraft
from lingraft.models.packed import PackedModel
from lingraft.pipeline import fingerprints

FILE = Path(__file__).with_name("golden.json")
WRITING = bool(os.environ.get("LINGRAFT_WRITE_GOLDEN"))
RUNS = {
    "roberta, xpt": ("roberta", {"method": "xpt", "preset": "xpt2021"}),
    "modernbert, xpt": ("modernbert", {"method": "xpt", "preset": "chameleon2022"}),
    "roberta, adapters": ("roberta", {"method": "adapters", "preset": "xpt2021"}),
}
TRAINED = {"learning_rate": 0.01, "budget": {"value": 6}, "batch": {"size": 8}}
OTHERS = {
    "name": "golden",
    "language": "ko",
    "tokenizer": {"vocab_size": 300, "max_tokens": 64},
    "hardware": {"precision": "fp32", "row_tokens": 64, "micro_batch_tokens": 64, "log_steps": 1},
    "evaluation": {"max_sentences": 12, "max_words": 8, "samples": 1},
}


def short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


@pytest.fixture(scope="module")
def found(tiny_source, korean_text, tmp_path_factory):
    """What a run gives: `integers` and `floats`, each plain data."""

    @functools.cache
    def of(name):
        family, method = RUNS[name]
        folder = tmp_path_factory.mktemp("golden")
        text = folder / "ko.txt"
        text.write_bytes(korean_text.read_bytes())
        os.utime(text, (1_700_000_000, 1_700_000_000))
        recipe = OTHERS | {
            "source": {"model": str(tiny_source(family))},
            "corpus": {"text": [text.name], "valid": 0.05, "test": 0.1},
            "training": method | TRAINED,
        }
        batches: list[str] = []
        original = PackedModel.logits

        def spy(self, batch):
            tensors = (batch.input_ids_NT, batch.positions_NT, batch.segments_NT)
            tensors += (batch.masked_M, batch.targets_M)
            batches.append(short(b"".join(tensor.numpy().tobytes() for tensor in tensors)))
            return original(self, batch)

        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setattr(PackedModel, "logits", spy)
            # The source's files have another date at each test.
            patch.setattr(fingerprints, "source_fingerprint", lambda recipe: family)
            run = lingraft.adapt(recipe, folder / "run")
        numbers = integers(run) | {"batches": batches}
        return {"integers": numbers, "floats": floats(run)}

    return of


def integers(run):
    files = sorted([*run.path.glob("corpus/*.txt"), *run.path.glob("tokenizer/*.bin")])
    names = ["corpus", "tokenizer", "graft"]
    names += [path.parent.name for path in sorted(run.path.glob("phase-*/done.json"))]
    results = {name: run.stage(name).result() for name in [*names, "evaluation"]}
    counts = ("steps", "tokens", "sentences", "masked", "trainable_parameters", "train")
    return {
        "files": {path.name: short(path.read_bytes()) for path in files},
        "vocabulary": short((run.path / "tokenizer" / "tokenizer.json").read_bytes()),
        "fingerprints": {name: run.stage(name).fingerprint() for name in [*names, "evaluation"]},
        "parameters": results["graft"]["parameters"],
        "account": short((run.path / "graft" / "account.json").read_bytes()),
        "phases": {
            name: {key: results[name][key] for key in counts} for name in names if "phase" in name
        },
        "evaluation masks": results["evaluation"]["masks"],
    }


def floats(run):
    rows = {
        f"{row['phase']} {row['kind']} {row['step']}": [row["loss"], row.get("gradient_norm") or 0]
        for row in run.metrics()
    }
    evaluation = run.stage("evaluation").result()
    scores = {
        f"{scheme} {name}": value
        for scheme, metrics in evaluation["metrics"].items()
        for name, value in metrics.items()
    }
    return {
        "graft": norms(run.path / "graft" / "model"),
        "model": norms(run.path / "model"),
        "losses": rows,
        "scores": scores | {"bits": evaluation["words"], "unigram": evaluation["unigram_entropy"]},
    }


def norms(folder):
    """Of each tensor the norm, and the first three numbers of its middle."""
    result = {}
    for path in sorted(folder.glob("*.safetensors")):
        for name, tensor in sorted(load_file(path).items()):
            middle = tensor.flatten()[tensor.numel() // 2 :][:3].tolist()
            result[name] = [float(f"{x:.8g}") for x in (float(tensor.double().norm()), *middle)]
    return result


def flat(data, name=""):
    """Numbers of nested plain data, by the way to each."""
    if isinstance(data, dict):
        parts = data.items()
    elif isinstance(data, list):
        parts = enumerate(data)
    else:
        return {name: data} if isinstance(data, (int, float)) else {}
    return {key: value for k, part in parts for key, value in flat(part, f"{name}/{k}").items()}


@pytest.fixture(scope="module")
def written(found):
    """What golden.json holds."""
    if WRITING:
        facts = [
            f'"{name}: {kind}: {fact}": {json.dumps(value, ensure_ascii=False)}'
            for name in RUNS
            for kind, values in found(name).items()
            for fact, value in values.items()
        ]
        FILE.write_text("{\n" + ",\n".join(facts) + "\n}\n", encoding="utf-8")
    return json.loads(FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize(
    "fact",
    ["files", "vocabulary", "parameters", "account", "phases", "evaluation masks", "batches"],
)
def test_what_is_whole_numbers_is_as_it_was(name, fact, found, written):
    assert found(name)["integers"][fact] == written[f"{name}: integers: {fact}"]


@pytest.mark.parametrize("name", RUNS)
def test_a_run_of_an_earlier_version_is_still_up_to_date(name, found, written):
    assert found(name)["integers"]["fingerprints"] == written[f"{name}: integers: fingerprints"]


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("fact", ["graft", "losses", "model", "scores"])
def test_what_is_measured_is_as_it_was(name, fact, found, written):
    ours = flat(found(name)["floats"][fact])
    theirs = flat(written[f"{name}: floats: {fact}"])
    assert ours.keys() == theirs.keys()
    # Six steps at a high rate amplify the last bits; the graft has had none.
    tolerance = 1e-5 if fact == "graft" else 1e-4
    for key, value in theirs.items():
        assert ours[key] == pytest.approx(value, rel=tolerance, abs=1e-5), key
