"""`lingraft translate` beside stock `generate()`, with the same model on the same sentences.

    python research/benchmarks/vs_translation_pipeline.py MODEL src.txt --lines 500 --pairs 5

transformers 5 has no translation pipeline any more; what it did was this loop. Opponents: sentence
by sentence (its default, batch_size=1), and batches of eight in the order of the file, padded to
their longest, with the cache on; fp32. Arms alternate in one process: A B A B …, and a ratio is
taken within a pair. Speed is sentences a second of the processor, so that what else the machine
does counts little; on a GPU, a second of the clock. Both sides tokenise and detokenise.
"""

from __future__ import annotations

import time
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from shared import head, parser_of, row, spread, write

from lingraft.crosslingual.settings import Decoding
from lingraft.crosslingual.translator import Translator
from lingraft.models.encoder_decoder import MOST_NEW_TOKENS
from lingraft.tasks.reading import lines

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

OPPONENTS = {1: "one sentence at a time", 8: "eight at a time, in the order of the file"}


def options() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("model", help="a stock encoder–decoder with its tokenizer")
    parser.add_argument("text", type=Path, help="a sentence a line")
    parser.add_argument("--lines", type=int, default=500)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--beams", type=int, help="as the checkpoint says")
    parser.add_argument("--max-new-tokens", type=int, default=MOST_NEW_TOKENS)
    parser.add_argument("--batch-tokens", type=int, default=Decoding().batch_tokens)
    parser.add_argument("--opponents", type=int, nargs="+", choices=OPPONENTS, default=[*OPPONENTS])
    return parser.parse_args()


def stock(translator: Translator, texts: list[str], rows: int, **asked: Any) -> list[str]:
    """What the pipeline of transformers 4 did."""
    made: list[str] = []
    for start in range(0, len(texts), rows):
        batch = translator.tokenizer(
            texts[start : start + rows], return_tensors="pt", padding=True, truncation=True
        )
        ids = translator.model.generate(  # type: ignore[operator]
            input_ids=batch["input_ids"].to(translator.model.device),
            attention_mask=batch["attention_mask"].to(translator.model.device),
            do_sample=False,
            **{name: value for name, value in asked.items() if value is not None},
        )
        made += translator.tokenizer.batch_decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
    return [" ".join(text.splitlines()).strip() for text in made]


def timed(arm: Callable[[], list[str]]) -> tuple[list[str], float]:
    """What it gives, and seconds."""
    clock = time.perf_counter if torch.cuda.is_available() else time.process_time
    began = clock()
    return arm(), clock() - began


def main() -> None:
    asked = options()
    names = ("beams", "max_new_tokens", "batch_tokens")
    settings = Decoding(**{name: getattr(asked, name) for name in names})
    translator = Translator.load(asked.model, settings)
    filled = (line for line in lines(asked.text) if line.strip())
    texts = list(islice(filled, asked.lines))
    longest = translator.model.get_decoder().config.max_position_embeddings  # type: ignore[operator]
    decoding = {
        "num_beams": asked.beams,
        "max_new_tokens": min(asked.max_new_tokens, longest - 3),
    }
    translator.translate(texts[:8])
    results: dict[int, list[dict[str, float]]] = {}
    print(
        head(
            "stock `generate()`", "ratio: min – **median** – max", "lines/s, ours : theirs", "equal"
        )
    )
    for rows in asked.opponents:
        found = results[rows] = []
        for _ in range(asked.pairs):
            ours, our_seconds = timed(lambda: translator.translate(texts))
            theirs, their_seconds = timed(lambda n=rows: stock(translator, texts, n, **decoding))
            same = sum(one == other for one, other in zip(ours, theirs, strict=True))
            found.append({"ours": our_seconds, "theirs": their_seconds, "equal": same})
        speeds = [len(texts) / median(one[side] for one in found) for side in ("ours", "theirs")]
        print(
            row(
                OPPONENTS[rows],
                spread([one["theirs"] / one["ours"] for one in found]),
                f"{speeds[0]:.1f} : {speeds[1]:.1f}",
                f"{min(one['equal'] for one in found):.0f} of {len(texts)}",
            )
        )
    write(asked.json, {"asked": vars(asked), "results": results})


if __name__ == "__main__":
    main()
