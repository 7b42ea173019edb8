"""Compare ids of llama.cpp and of tokenizer.json, of vocabularies kept and adapted.

    python research/scripts/gguf_ids.py LINES TOKENIZER…

LINES is text in NFC, a line each; a TOKENIZER is a folder. Each is kept, trimmed, extended and
replaced on every second line, goes into a GGUF file with a model of one narrow layer, and all lines
are read by llama-cpp-python. Lines that hold a special token are left out.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from llama_cpp import Llama
from transformers import LlamaConfig, LlamaForCausalLM

from lingraft import recipe
from lingraft.errors import LingraftError
from lingraft.models import llama_cpp
from lingraft.tokenizer import extension, files

SIZES = {"vocab_size": 6_000, "new_pieces": 3_000}
SHAPE = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}


def differing(tokenizer: files.PreTrainedTokenizerFast, lines: list[str]) -> str:
    """How many lines have other ids, or why there is no file."""
    with tempfile.TemporaryDirectory() as name:
        folder, rows = Path(name), max(tokenizer.get_vocab().values()) + 1
        LlamaForCausalLM(LlamaConfig(vocab_size=rows, **SHAPE)).save_pretrained(folder)
        files.save(tokenizer, folder)
        try:
            found = llama_cpp.export(name, folder / "model.gguf", "fp16")
        except LingraftError as error:
            return f"refused: {str(error)[:100]}"
        opened = Llama(str(folder / "model.gguf"), vocab_only=True, verbose=False)
    special = {token.content for token in tokenizer.added_tokens_decoder.values()} | {"</s>"}
    lines = [line for line in lines if not any(token in line for token in special)]
    wrong = 0
    for line in lines:
        ids = tokenizer.backend_tokenizer.encode(line).ids
        wrong += ids != opened.tokenize(line.encode(), add_bos=True, special=True)
    return f"{wrong} of {len(lines)} lines differ ({found['pre']})"


def main() -> None:
    """Print a line for each vocabulary."""
    lines = [line for line in Path(sys.argv[1]).read_text("utf-8").split("\n") if line]
    for folder in sys.argv[2:]:
        source = files.load(folder)
        for action in ("keep", "trim", "extend", "replace"):
            section = recipe.Tokenizer(action=action, **SIZES)
            options = {"pad_id": None, "seed": 0, "causal": True}
            made, _ = extension.make(section, source, lambda: iter(lines[::2]), **options)
            print(Path(folder).name, action, differing(made, lines), flush=True)


if __name__ == "__main__":
    main()
