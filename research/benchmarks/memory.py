"""Memory and speed of preparing text: the corpus stage, the vocabulary, token files; of training.

    python research/benchmarks/memory.py --gigabytes 0.1 0.5 2 5 --folder build/memory \
        --json memory.json
    python research/benchmarks/memory.py --training --json training.json

For each size it writes a text of made-up Korean sentences, nearly all different (the worst case for
finding duplicates), three to a line, a line a document. Then each stage runs in a process of its
own, as `lingraft adapt` runs it: `corpus` (read, clean, drop duplicates, split), `vocabulary`
(byte-level BPE of 32,000 pieces on at most 200,000 sentences), `tokens` (the token files).
`command-N` is `lingraft data clean` with N processes; near-duplicates are not looked for, as in the
corpus stage.

`--training` compares what `lingraft check` says that a phase needs with what it takes: small
models with random weights, three steps on made-up text, validated and saved, each in a process of
its own.

The peak is what the kernel says of the largest process (on Linux VmHWM, file pages that are mapped
included). MB/s are megabytes of the text a second, of the clock and of the processors.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shared import head, parser_of, peak_bytes, row, timed, write

if TYPE_CHECKING:
    from lingraft.recipe import Phase, Recipe
    from lingraft.training.data import Reading

SYLLABLES = [chr(code) for code in range(0xAC00, 0xAC00 + 588 * 19, 97)]
WORDS, FRAGMENTS, SENTENCES = 50_000, 100_000, 3
VOCABULARY, TRAINED_ON = 32_000, 200_000
LONGEST = 128
"""Tokens of a sentence in training, at most."""
STAGES = ("corpus", "vocabulary", "tokens", "command-1", "command-2")


def write_text(path: Path, size: int) -> None:
    """Write lines of three sentences, each of three fragments, until there are `size` bytes."""
    drawn = random.Random(0)
    words = ["".join(drawn.choices(SYLLABLES, k=drawn.randint(1, 4))) for _ in range(WORDS)]
    weights = list(itertools.accumulate(1 / rank for rank in range(1, WORDS + 1)))
    fragments = [
        " ".join(drawn.choices(words, cum_weights=weights, k=drawn.randint(2, 4)))
        for _ in range(FRAGMENTS)
    ]
    written = 0
    with path.open("wb") as file:
        while written < size:
            parts = drawn.choices(fragments, k=9 * 1_000)
            lines = [
                " ".join(
                    f"{parts[at]} {parts[at + 1]} {parts[at + 2]}."
                    for at in range(start, start + 9, 3)
                )
                for start in range(0, len(parts), 9)
            ]
            written += file.write(("\n".join(lines) + "\n").encode())


def run_stage(stage: str, folder: Path) -> None:
    """Do one stage in this process."""
    from lingraft import recipe
    from lingraft.corpus import stage as corpus_stage
    from lingraft.pipeline.stages import read_lines
    from lingraft.tokenizer import files as tokenizer
    from lingraft.tokenizer import shards as tokens
    from lingraft.tokenizer.extension import make

    out = folder / "run"
    out.mkdir(exist_ok=True)
    if stage == "corpus":
        section = recipe.Corpus(text=(str(folder / "text.txt"),))
        corpus_stage.prepare(section, "ko", out)
    elif stage == "vocabulary":
        wanted = recipe.Tokenizer(
            algorithm="byte-bpe", vocab_size=VOCABULARY, max_train_sentences=TRAINED_ON
        )
        made, _ = make(wanted, None, lambda: read_lines(out / "train.txt"), pad_id=None, seed=0)
        tokenizer.save(made, out)
    else:
        made = tokenizer.load(out)
        tokens.encode(made, out / "train.txt", out, "train", 512)
        tokens.Tokens.open(out, "train")


def measured(stage: str, folder: Path) -> dict[str, float]:
    """Run a stage in a fresh process; seconds and bytes."""
    if stage.startswith("command"):
        out = folder / stage
        shutil.rmtree(out, ignore_errors=True)
        command = [
            "-m",
            "lingraft",
            "--quiet",
            "data",
            "clean",
            str(folder / "text.txt"),
            "--lang",
            "ko",
        ]
        command += ["--out", str(out), "--jobs", stage.rpartition("-")[2]]
        command += ["--lang", "ko", "near_duplicates=false"]
        runner = "import subprocess,sys,resource as r;subprocess.run(sys.argv[1:],check=True)"
        runner += ";print(r.getrusage(r.RUSAGE_CHILDREN).ru_maxrss*1024)"
        call = [sys.executable, "-c", runner, sys.executable, *command]
    else:
        call = [sys.executable, __file__, "--stage", stage, "--folder", str(folder)]
    printed, seconds, processors = timed(call)
    return {
        "seconds": seconds,
        "cpu_seconds": processors,
        "peak_bytes": int(printed.split()[-1]),
    }


def measure(gigabytes: float, stages: list[str], folder: Path) -> list[dict[str, object]]:
    """Make the text and run the stages on it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    text = folder / "text.txt"
    write_text(text, int(gigabytes * 1e9))
    size = text.stat().st_size
    rows = []
    for stage in stages:
        found = measured(stage, folder)
        rows.append({"gigabytes": size / 1e9, "stage": stage, **found, "load": os.getloadavg()[0]})
        speeds = (size / 1e6 / found[key] for key in ("seconds", "cpu_seconds"))
        cells = (f"{size / 1e9:.2f} GB", stage, f"{found['peak_bytes'] / 1e9:.2f} GB")
        print(row(*cells, *(f"{speed:.1f}" for speed in speeds), f"{found['seconds']:.0f}"),
              flush=True)  # fmt: skip
    shutil.rmtree(folder)
    return rows


@dataclass(frozen=True)
class Trained:
    """A phase that is trained: a source of random weights, and changes to the recipe."""

    model_type: str
    layers: int
    width: int
    vocabulary: int
    sets: tuple[str, ...] = ()
    method: str = "xpt-sp"
    language: str = "ko"
    longest: int = LONGEST
    """Tokens of a sentence, or of a side of a pair, at most."""
    filled: bool = False
    """Whether all have so many."""

    def recipe(self, folder: Path) -> Recipe:
        from lingraft.recipe.methods import recipe_from

        (folder / "text.tsv").write_text("a text\tein Text\n", encoding="utf-8")
        (folder / "text.txt").write_text("a text\n", encoding="utf-8")
        text = folder / ("text.tsv" if "/" in self.language else "text.txt")
        stream = {"name": "text", "language": self.language, "corpus": {"text": [str(text)]}}
        plain = {
            "streams": [stream],
            "source": {"model": str(folder / "source")},
            "tokenizer": {"action": "keep", "max_tokens": self.longest},
            "training": {"method": self.method, "batch": {"size": 4096, "unit": "tokens"}},
            "embeddings": {"init": "mean"},
        }
        return recipe_from(plain, list(self.sets))

    def write(self, folder: Path) -> None:
        """The source, and what the graft stage would leave."""
        from transformers import AutoConfig

        from lingraft.models import source
        from lingraft.models.families import family_of
        from lingraft.models.graft import build, rebuild
        from lingraft.models.loading import stock_class
        from lingraft.models.plans import layer_plans

        family = family_of(self.model_type)
        special = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
        shape = {"hidden_size": self.width, "num_hidden_layers": self.layers}
        shape |= {"num_attention_heads": self.width // 64}
        shape["max_position_embeddings"] = 2 * self.longest + 2  # RoBERTa's begin behind padding
        if self.model_type == "gpt2":
            shape = {"n_embd": self.width, "n_layer": self.layers, "n_head": self.width // 64}
        elif self.model_type == "bart":
            stacks = ("encoder", "decoder")
            sizes = {"layers": self.layers, "attention_heads": self.width // 64}
            sizes["ffn_dim"] = 4 * self.width
            shape |= {f"{stack}_{key}": size for stack in stacks for key, size in sizes.items()}
        else:
            shape |= {"intermediate_size": 4 * self.width}
        config = AutoConfig.for_model(
            self.model_type, vocab_size=self.vocabulary, **shape, **special
        )
        model_class = stock_class(config)
        build(model_class, config, 0).save_pretrained(folder / "source")
        loaded, graft = source.load_model(str(folder / "source")), self.recipe(folder).graft
        sizes = (graft.inserted_before, graft.inserted_after, graft.inserted_init)
        plans = layer_plans(loaded.model.config, family, *sizes)
        model, _ = rebuild(loaded.model, family, plans, config_changes={}, seed=0)
        model.save_pretrained(folder / "graft")


def on_pairs(objective: str, longest: int, *more: str, filled: bool = True) -> Trained:
    """A phase on pairs of which every side has `longest` tokens, or some 30 of them."""
    sets = (f'phases.0.objective="{objective}"', *more)
    if filled:
        sets += (f'phases.0.data=[{{stream="text", max_tokens={longest}}}]',)
    return Trained("roberta", 4, 256, 8_000, sets, "xpt-sp", "en/de", longest, filled)


CROSSED = "graft.cross_attention=true"
TRAININGS = {
    "llama 6 × 384": Trained("llama", 6, 384, 8_000),
    "llama 6 × 384, activations computed again": Trained(
        "llama", 6, 384, 8_000, ("hardware.gradient_checkpointing=true",)
    ),
    "llama 4 × 512, 64,000 pieces, short batches": Trained(
        "llama", 4, 512, 64_000, ("hardware.micro_batch_tokens=1024",)
    ),
    "gpt2 6 × 384": Trained("gpt2", 6, 384, 8_000),
    "roberta 6 × 384": Trained("roberta", 6, 384, 8_000),
    "roberta 8 × 512, frozen body": Trained(
        "roberta", 8, 512, 20_000, ('phases.0.train=["embeddings","output_bias","itl"]',)
    ),
    "roberta 4 × 256": Trained("roberta", 4, 256, 8_000),
    "roberta 4 × 256, rows of 512": Trained(
        "roberta", 4, 256, 8_000, ("hardware.row_tokens=512",), longest=512
    ),
    "bart 3 and 3 × 256": Trained("bart", 3, 256, 8_000),
    "ca_mlm, short pairs": on_pairs("ca_mlm", LONGEST, CROSSED, filled=False),
    "ca_mlm, sides of 128": on_pairs("ca_mlm", 128, CROSSED),
    "ca_mlm, sides of 512": on_pairs("ca_mlm", 512, CROSSED),
    "ca_mlm, cross-attention alone, sides of 512": on_pairs(
        "ca_mlm", 512, CROSSED, 'phases.0.train=["cross_attention"]'
    ),
    "tlm, sides of 128": on_pairs("tlm", 128),
    "tlm, sides of 512": on_pairs("tlm", 512),
}


def reading_of(case: Trained, phase: Phase, rows: int) -> Reading:
    """Sentences, or pairs of them, that a phase reads in place of a text."""
    import numpy as np
    from made_up import TextShape, made_up

    from lingraft.objectives import OBJECTIVES
    from lingraft.tokenizer.pairs import Edges, TokenPairs
    from lingraft.training.data import Reading

    lengths = {"mean": case.longest, "spread": 0.0} if case.filled else {}
    units = made_up(TextShape(sentences=2_000, longest=case.longest, **lengths), rows)
    if "pairs" in (reads := OBJECTIVES[phase.objective].reads):
        firsts = np.arange(0, len(units), 2)
        sides = np.stack([firsts, firsts + 1, firsts + 1, firsts + 2], 1).reshape(-1, 2, 2)
        joined = 2 * case.longest if reads == "joined pairs" else None
        units = TokenPairs(units, sides, Edges(1, 1), case.longest, joined)
    return Reading("", units, units, phase.objective, phase.masking)


def run_training(name: str, folder: Path) -> None:
    """Train a phase in this process, as the stage does."""
    from made_up import token_ids

    from lingraft.models import source
    from lingraft.models.modules import MODULES
    from lingraft.models.parts import translation_layers
    from lingraft.pipeline.suiting import suited
    from lingraft.recipe import Budget, Validation
    from lingraft.training.loop import train_phase
    from lingraft.training.machine import accelerator_for
    from lingraft.training.phase import Job

    loaded = source.load_model(str(folder / "graft"))
    recipe = suited(TRAININGS[name].recipe(folder), loaded.family)
    phase = recipe.phases[0]
    rows = len(loaded.model.get_input_embeddings().weight)
    if recipe.graft.cross_attention:
        cross = MODULES["cross_attention"]
        cross.code.insert(loaded.model, loaded.family, loaded.model.config.num_hidden_layers)
    train_phase(
        Job(
            phase=phase.model_copy(
                update={
                    "budget": Budget(value=3),
                    "validation": Validation(every_steps=3, max_sentences=16),
                }
            ),
            hardware=recipe.hardware,
            seed=0,
            folder=folder / "phase",
            metrics_path=folder / "metrics.jsonl",
            fingerprint="",
            family=loaded.family,
            itl_layers=translation_layers(loaded.model.config, loaded.family, recipe.graft.places),
            readings=(reading_of(TRAININGS[name], phase, rows),),
            vocabulary=token_ids(rows),
        ),
        loaded.model,
        accelerator_for(recipe.hardware, folder),
    )


def compare_trainings(names: list[str], folder: Path) -> list[dict[str, object]]:
    """What was said and what was taken, of each."""
    from lingraft.pipeline import preflight

    print(head("phase", "said", "taken", "said : taken"))
    found: list[dict[str, object]] = []
    for name in names:
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "phase").mkdir(parents=True)
        TRAININGS[name].write(folder)
        plan = preflight.check(TRAININGS[name].recipe(folder))
        said = max(need.total for need in plan.memory.values())
        call = [sys.executable, __file__, "--stage", name, "--folder", str(folder)]
        printed, seconds, _ = timed(call)
        taken = int(printed.split()[-1])
        found.append({"phase": name, "said": said, "taken": taken, "seconds": seconds})
        sizes = (f"{size / 1e9:.2f} GB" for size in (said, taken))
        print(row(name, *sizes, f"{said / taken:.2f}"), flush=True)
    shutil.rmtree(folder)
    return found


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--training", nargs="*", choices=TRAININGS, help="phases; all if none")
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[0.1])
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES))
    parser.add_argument("--folder", type=Path, default=Path("build/memory"), help="is deleted")
    parser.add_argument("--stage", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.stage:
        run = run_training if asked.stage in TRAININGS else run_stage
        run(asked.stage, asked.folder)
        print(peak_bytes())
        return
    if asked.training is not None:
        write(asked.json, compare_trainings(asked.training or list(TRAININGS), asked.folder))
        return
    print(head("text", "stage", "peak memory", "MB/s", "MB/CPU-s", "seconds"))
    rows = [row for size in asked.gigabytes for row in measure(size, asked.stages, asked.folder)]
    write(asked.json, rows)


if __name__ == "__main__":
    main()
