"""Tiny stock models with an encoder and a decoder, their tokenizer, and pairs to learn."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tiny_tokenizers import ROBERTA, SIZE, TEXT, build

from lingraft.tokenizer.frame import languages

if TYPE_CHECKING:
    from pathlib import Path

PAIRS = [
    ("나는 학교에 간다", "I go to school"),
    ("책을 읽었다", "read a book"),
    ("친구를 만났다", "met a friend"),
    ("날씨가 좋다", "the weather is good today"),
    ("커피를 마신다", "drink coffee"),
    ("집에 왔다", "came home"),
    ("문서를 연다", "open the document"),
    ("음악을 듣는다", "listen to music in the evening"),
]
IDS = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
WIDTH = 32


def translator(kind: str, **changes: Any) -> Any:
    """An untrained model: 'encoder-decoder' (of RoBERTa's), 'bart', 'marian' or 't5'."""
    import torch
    import transformers as hf

    ids = {"vocab_size": SIZE, **IDS}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if kind == "t5":
            shape = {"d_model": WIDTH, "d_kv": 16, "d_ff": 48, "num_layers": 2, "num_heads": 2}
            config = hf.T5Config(**{**shape, **ids, **changes})
            return hf.T5ForConditionalGeneration(config).eval()
        if kind in ("bart", "marian"):
            stack = {"layers": 2, "attention_heads": 2, "ffn_dim": 48}
            shape = {f"{s}_{k}": v for s in ("encoder", "decoder") for k, v in stack.items()}
            shape |= {"d_model": WIDTH, "max_position_embeddings": 64, "forced_eos_token_id": None}
            if kind == "bart":
                config = hf.BartConfig(**{**shape, **ids, **changes})
                return hf.BartForConditionalGeneration(config).eval()
            ids |= {"decoder_start_token_id": IDS["pad_token_id"]}
            model = hf.MarianMTModel(hf.MarianConfig(**{**shape, **ids, **changes}))
            model.final_logits_bias.normal_()
            return model.eval()
        shape = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2}
        shape |= {"intermediate_size": 48, "max_position_embeddings": 66, "type_vocab_size": 1}
        shape |= {key: value for key, value in ids.items() if key != "decoder_start_token_id"}
        shape |= changes
        decoder = hf.RobertaConfig(**shape, is_decoder=True, add_cross_attention=True)
        both = (hf.RobertaConfig(**shape), decoder)
        config = hf.EncoderDecoderConfig.from_encoder_decoder_configs(*both, **ids)
        model = hf.EncoderDecoderModel(config)
        model.generation_config.update(**IDS)
        return model.eval()


SEEDS = {"bart": 2, "t5": 1, "encoder-decoder": 3}
"""With which `varied` models say different things of different sentences."""


def varied(kind: str, **settings: Any) -> Any:
    """A `translator` whose translations depend on their text and differ from token to token.

    Its tokenizer is `build("xlm-roberta")`, each piece of which can be read. `settings` are those
    of its generation.
    """
    import torch

    model = translator(kind, tie_word_embeddings=False)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(SEEDS[kind])
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=1.0 if kind == "t5" else 0.1)
            else:
                parameter.fill_("norm" in name.lower() and name.endswith("weight"))
        model.get_output_embeddings().weight.normal_()
    # a pad within a text has no position of its own in RoBERTa, unless it is read from the cache
    model.generation_config.update(suppress_tokens=[model.config.pad_token_id], **settings)
    return model


def save(folder: Path, kind: str, **changes: Any) -> Path:
    """The folder of a `translator` with its tokenizer."""
    translator(kind, **changes).save_pretrained(folder)
    build("roberta").save_pretrained(folder)
    return folder


def of_languages(kind: str, folder: Path) -> list[str]:
    """Save an untrained 'nllb', 'm2m', 'mbart-50' or 'mbart', and return its codes.

    The tokenizers of mBART know no letters.
    """
    import sentencepiece
    import transformers as hf

    folder.mkdir()
    model, vocabulary = folder / "spm.model", folder / "vocab.json"
    if kind == "m2m":
        (folder / "text").write_text("\n".join(TEXT), "utf-8")
        learn: Any = sentencepiece.SentencePieceTrainer.train
        how = {"model_type": "bpe", "character_coverage": 1.0, "minloglevel": 2}
        learn(input=folder / "text", model_prefix=folder / "spm", vocab_size=300, **how)
        learnt = sentencepiece.SentencePieceProcessor(model_file=str(model))
        pieces = [*ROBERTA, *map(learnt.id_to_piece, range(3, len(learnt)))]
        vocabulary.write_text(json.dumps(dict(zip(pieces, range(len(pieces)), strict=True))))
        tokenizer: Any = hf.M2M100Tokenizer(str(vocabulary), str(model))
    elif kind == "nllb":
        pieces = [*ROBERTA, "▁", *sorted({*"".join(TEXT)} - {" "})]
        ids = dict(zip(pieces, range(len(pieces)), strict=True))
        tokenizer = hf.NllbTokenizer(vocab=ids, extra_special_tokens=["eng_Latn", "kor_Hang"])
    else:
        tokenizer = hf.MBart50Tokenizer() if kind == "mbart-50" else hf.MBartTokenizer()
    codes, kinds = languages(tokenizer), {True: hf.MBartConfig, False: hf.M2M100Config}
    shape = {"d_model": WIDTH, "max_position_embeddings": 64, "encoder_layers": 1, **IDS}
    shape |= {"decoder_layers": 1, "vocab_size": max(len(tokenizer), *codes.values()) + 1}
    config = kinds[kind.startswith("mbart")](**shape)
    hf.AutoModelForSeq2SeqLM.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return list(codes)


def write_pairs(path: Path, pairs: list[tuple[str, str]]) -> Path:
    """A JSONL file with the columns ko and en."""
    rows = (json.dumps({"ko": ko, "en": en}, ensure_ascii=False) + "\n" for ko, en in pairs)
    path.write_text("".join(rows), "utf-8")
    return path


def write_task(folder: Path, pairs: list[tuple[str, str]] = PAIRS, more: str = "") -> Path:
    """A task file whose training, development and test files are the same."""
    folder.mkdir(exist_ok=True)
    for split in ("train", "dev", "test"):
        write_pairs(folder / f"{split}.jsonl", pairs)
    path = folder / "ko-en.toml"
    path.write_text(
        'name = "ko-en"\nkind = "translation"\nlanguage = "en"\n'
        'files = {train = "train.jsonl", dev = "dev.jsonl", test = "test.jsonl"}\n'
        f'columns = {{text = "ko", pair = "en"}}\n{more}',
        encoding="utf-8",
    )
    return path
