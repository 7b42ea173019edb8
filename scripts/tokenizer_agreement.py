"""Compare lingraft's reading of published tokenizers with their files, on probe texts.

    python scripts/tokenizer_agreement.py FOLDER

FOLDER holds a tokenizer a folder, files plain or as NAME.xz, and `probe.txt`: a JSON string a line.
"""

from __future__ import annotations

import json
import lzma
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import sentencepiece

from lingraft.errors import LingraftError
from lingraft.pretrained import tokenizers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def unpack(packed: Path, folder: Path) -> Path:
    """Copy a folder; what is compressed is unpacked."""
    folder.mkdir()
    for file in packed.iterdir():
        if file.suffix == ".xz":
            (folder / file.stem).write_bytes(lzma.decompress(file.read_bytes()))
        else:
            shutil.copy(file, folder)
    return folder


def reference(folder: Path) -> Callable[[str], list[int]] | None:
    """Return what gives the ids of a text by the files alone; None where no file says all."""
    if (file := folder / "tokenizer.json").is_file():
        backend = tokenizers.stored_backend(file)
        return lambda text: backend.encode(text, add_special_tokens=False).ids
    models = [folder / name for name in tokenizers.SENTENCEPIECE if (folder / name).is_file()]
    if not models:
        return None
    return sentencepiece.SentencePieceProcessor(model_file=str(models[0])).encode


def compare(folder: Path, texts: list[str]) -> tuple[str, str]:
    """Return a verdict on a tokenizer (agrees, refused, differs, no file), and its reason."""
    try:
        tokenizer = tokenizers.load_tokenizer(str(folder))
    except LingraftError as error:
        return "refused", str(error)
    ids_of, kind = reference(folder), type(tokenizer).__name__
    if ids_of is None:
        return "no file", f"read as a {kind}, for its files leave the pipeline to the class"
    ids = [tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"] for text in texts]
    wrong = [n for n, text in enumerate(texts, 1) if ids[n - 1] != ids_of(text)]
    return ("differs", f"{kind}, texts {wrong}") if wrong else ("agrees", kind)


def verdicts(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield name, verdict and reason of every tokenizer in a folder."""
    texts = [json.loads(line) for line in (folder / "probe.txt").read_text("utf-8").splitlines()]
    pairs = folder / "llama_cpp_pairs"
    for packed in sorted(path for path in folder.iterdir() if path.is_dir() and path != pairs):
        with tempfile.TemporaryDirectory() as temporary:
            one = unpack(packed, Path(temporary) / packed.name)
            verdict, reason = compare(one, texts)
            yield packed.name, verdict, reason.replace(str(one), packed.name)


if __name__ == "__main__":
    counts: Counter[str] = Counter()
    for name, verdict, reason in verdicts(Path(sys.argv[1])):
        counts[verdict] += 1
        print(f"{name:26} {verdict:8} {reason}", flush=True)
    print(", ".join(f"{verdict}: {count}" for verdict, count in counts.items()))
