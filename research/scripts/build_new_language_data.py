"""Write text, tasks and an untrained M2M for the study of a new language of a translator.

    python research/scripts/build_new_language_data.py data build/new-language

The text is LibreOffice Help (`data/par_libreoffice_help`), pairs with at most 60 characters a side.
English, German, French and Korean are the model's languages. Spanish is new: 5,000 pairs, 300 of
dev and 500 of test, and as raw text 1 MB of other sentences of at most 140 characters. No pair of
any language whose English or Spanish side is in dev or test is left in training or raw text, by
letters and digits.

- `start`: NLLB's tokenizer class with four codes, and a random M2M (3 + 2 layers of 128);
- `base.toml`: English to and from German, French and Korean, to train `start`;
- `new-mean.toml`, `new-french.toml`, `borrowed.toml`: English to Spanish with a code of its own,
  which starts from the mean of all codes or from French's, or with the code of French;
- `borrowed-pairs.toml`: with the code of French, and without the raw text;
- `old-…`: the same, with 2,000 pairs of each old direction in the training file;
- `old.tsv`: 300 pairs of English and French that are in no training file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import re
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import M2M100Config, M2M100ForConditionalGeneration, NllbTokenizer

CODES = {"en": "eng_Latn", "de": "deu_Latn", "fr": "fra_Latn", "ko": "kor_Hang"}
NEW, RELATIVE = "spa_Latn", CODES["fr"]
SHORTEST, LONGEST = 12, 60
PAIRS, DEV, TEST, OLD_TEST, OLD_PAIRS = 5_000, 300, 500, 300, 2_000
RAW_BYTES, RAW_LONGEST = 1_000_000, 140
PIECES = 4_000
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
Pairs = list[tuple[str, str]]


def key(text: str) -> str:
    """Letters and digits alone."""
    return re.sub(r"\W+", "", text.lower())


def pairs(data: Path, language: str, longest: int = LONGEST) -> Pairs:
    """All pairs of English and a language that are short enough, in an order of their hashes."""
    with lzma.open(
        data / f"par_libreoffice_help/en-{language}.tsv.xz", "rt", encoding="utf-8"
    ) as file:
        rows = {tuple(line.rstrip("\n").split("\t")) for line in file}
    kept = [row for row in rows if all(SHORTEST <= len(side) <= longest for side in row)]
    return sorted(kept, key=lambda row: hashlib.sha256("\t".join(row).encode()).digest())


def write_pairs(path: Path, rows: Pairs) -> None:
    """A TSV file with the columns en and other."""
    path.write_text("".join("\t".join(row) + "\n" for row in [("en", "other"), *rows]), "utf-8")


def write_rows(path: Path, rows: list[tuple[str, str, str, str]]) -> None:
    """A JSONL file of text, translation and their codes; rows without codes have the task's."""
    names = ("en", "other", "text_code", "pair_code")
    made = ({k: v for k, v in zip(names, row, strict=True) if v} for row in rows)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in made), "utf-8")


def write_task(out: Path, name: str, train: str, codes: list[str], more: str, stem: str) -> None:
    """A task of translation from English."""
    language = "es" if stem == "es" else "de"
    files = f'{{train = "{train}", dev = "{stem}-dev.tsv", test = "{stem}-test.tsv"}}'
    (out / f"{name}.toml").write_text(
        f'name = "{name}"\nkind = "translation"\nlanguage = "{language}"\nfiles = {files}\n'
        f'columns = {{text = "en", pair = "other"}}\nselection = "chrf"\n'
        f"codes = {json.dumps(codes)}\n{more}",
        "utf-8",
    )


def write_start(out: Path, text: list[str]) -> None:
    """An untrained M2M of four languages and its tokenizer, which has letters of Latin-1 too."""
    learner = Tokenizer(models.BPE(unk_token="<unk>"))
    learner.pre_tokenizer = pre_tokenizers.Metaspace()
    letters = [*map(chr, range(0x21, 0x7F)), *map(chr, range(0xA1, 0x100)), "▁"]
    how = {"special_tokens": SPECIAL, "initial_alphabet": letters, "show_progress": False}
    learner.train_from_iterator(text, trainers.BpeTrainer(vocab_size=PIECES, **how))
    state = json.loads(learner.to_str())["model"]
    tokenizer = NllbTokenizer(
        vocab=state["vocab"],
        merges=[tuple(merge) for merge in state["merges"]],
        extra_special_tokens=list(CODES.values()),
        model_max_length=128,
    )
    torch.manual_seed(0)
    shape = {"attention_heads": 4, "ffn_dim": 512, "layerdrop": 0.0}
    config = M2M100Config(
        vocab_size=len(tokenizer),
        d_model=128,
        encoder_layers=3,
        decoder_layers=2,
        max_position_embeddings=128,
        dropout=0.1,
        **{f"{side}_{k}": v for side in ("encoder", "decoder") for k, v in shape.items()},
    )
    M2M100ForConditionalGeneration(config).save_pretrained(out / "start")
    tokenizer.save_pretrained(out / "start")


def main() -> None:
    """Write everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    out: Path = args.out
    out.mkdir(parents=True, exist_ok=True)
    spanish = pairs(args.data, "es")
    held = {key(side) for row in spanish[: DEV + TEST] for side in row}
    old = pairs(args.data, "fr")[:OLD_TEST]
    held |= {key(row[0]) for row in old}
    rest = [row for row in spanish if not {*map(key, row)} & held]
    write_pairs(out / "es-dev.tsv", spanish[:DEV])
    write_pairs(out / "es-test.tsv", spanish[DEV : DEV + TEST])
    write_pairs(out / "old.tsv", old)
    (out / "old.en").write_text("".join(row[0] + "\n" for row in old), "utf-8")
    (out / "old.fr").write_text("".join(row[1] + "\n" for row in old), "utf-8")
    raw, size, known = [], 0, held | {key(row[1]) for row in rest[:PAIRS]}
    for text in dict.fromkeys(row[1] for row in pairs(args.data, "es", RAW_LONGEST)):
        if size < RAW_BYTES and key(text) not in known:
            raw.append(text)
            size += len(text.encode()) + 1
    (out / "raw.es").write_text("".join(f"{text}\n" for text in raw), "utf-8")

    train, olds, texts = [], [], []
    for language in ("de", "fr", "ko"):
        rows = [row for row in pairs(args.data, language) if key(row[0]) not in held]
        if language == "de":
            write_pairs(out / "de-dev.tsv", rows[:100])
            write_pairs(out / "de-test.tsv", rows[100:200])
            rows = rows[200:]
        codes = (CODES["en"], CODES[language])
        both = [(a, b, *codes) for a, b in rows], [(b, a, *codes[::-1]) for a, b in rows]
        train += [row for side in both for row in side]
        olds += [row for side in both for row in side[:OLD_PAIRS]]
        texts += [side for row in rows for side in row]
    write_rows(out / "base.jsonl", train)
    new = [(*row, "", "") for row in rest[:PAIRS]]
    write_rows(out / "new.jsonl", new)
    write_rows(out / "old.jsonl", [*new, *olds])
    write_start(out, texts)
    write_task(out, "base", "base.jsonl", [CODES["en"], CODES["de"]], "", "de")
    for prefix, file in (("", "new.jsonl"), ("old-", "old.jsonl")):
        raw_text = 'raw = "raw.es"\n'
        for name, code, more in (
            ("new-mean", NEW, f'new_code = "mean"\n{raw_text}'),
            ("new-french", NEW, f'new_code = "{RELATIVE}"\n{raw_text}'),
            ("borrowed", RELATIVE, raw_text),
            ("borrowed-pairs", RELATIVE, ""),
        ):
            write_task(out, prefix + name, file, [CODES["en"], code], more, "es")
    counts = {"base": len(train), "new": len(new), "old": len(olds), "raw": len(raw)}
    print(json.dumps(counts | {"raw_bytes": size}))


if __name__ == "__main__":
    main()
