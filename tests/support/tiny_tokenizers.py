"""Small tokenizers of all families, built in memory."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING

import tokenizers as tk
import transformers as hf
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertTokenizer, PreTrainedTokenizerFast

if TYPE_CHECKING:
    from collections.abc import Callable

    from transformers import PreTrainedTokenizerBase

TEXT = [
    "The quick brown fox jumps over the lazy dog, and the dog sleeps in the sun.",
    "Open the file, choose the format and save the document in the folder.",
    "A café in the city opens at nine; the menu lists tea, coffee and cake.",
    "나는 학교에 가서 친구를 만나고 집에 와서 책을 읽었다.",
    "문서를 열고 형식을 선택한 다음 폴더에 저장합니다.",
    "이 문서의 형식을 변경하려면 도구 모음에서 단추를 선택하십시오.",
] * 4
SIZE = 320
ROBERTA = ["<s>", "<pad>", "</s>", "<unk>"]
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
MASK = tk.AddedToken("<mask>", lstrip=True, special=True, normalized=False)
MASKED = {"mask_token": MASK, "model_max_length": 512}
MODERNBERT = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]


def _learn(
    pre_tokenizer: object, specials: list[str], size: int, **options: object
) -> tk.Tokenizer:
    """Byte-pair merges; the only trainer that gives the same pieces at every run."""
    learner = tk.Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizer
    options |= {"vocab_size": size, "special_tokens": specials, "show_progress": False}
    learner.train_from_iterator(TEXT, trainers.BpeTrainer(**options))
    return learner


def _add_specials(backend: tk.Tokenizer, tokens: list[str], mask: str) -> None:
    how = {"special": True, "normalized": False}
    backend.add_special_tokens([tk.AddedToken(t, lstrip=t == mask, **how) for t in tokens])


def _byte_level(specials: list[str], size: int) -> tk.Tokenizer:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    first = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return _learn(first, specials, size, initial_alphabet=letters)


def _roberta() -> PreTrainedTokenizerBase:
    learnt = _byte_level(ROBERTA, SIZE - 1)
    vocabulary = learnt.get_vocab() | {"<mask>": learnt.get_vocab_size()}
    merges = [tuple(merge) for merge in _merges(learnt)]
    return hf.RobertaTokenizer(vocab=vocabulary, merges=merges, **MASKED)


def _merges(learnt: tk.Tokenizer) -> list[list[str]]:
    return json.loads(learnt.model.__getstate__())["merges"]


def _modernbert() -> PreTrainedTokenizerBase:
    """Special tokens behind the pieces, as in the real one: [UNK] 315 … [MASK] 319."""
    backend = _byte_level([], SIZE - len(MODERNBERT))
    backend.normalizer = normalizers.NFC()
    backend.decoder = decoders.ByteLevel()
    _add_specials(backend, MODERNBERT, "[MASK]")
    ids = [(token, backend.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ids
    )
    names = (f"{role}_token" for role in ("unk", "cls", "sep", "pad", "mask"))
    roles = dict(zip(names, MODERNBERT, strict=True))
    roles |= {"model_input_names": ["input_ids", "attention_mask"], "model_max_length": 8192}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **roles)


def _wordpieces() -> dict[str, int]:
    letters = sorted({character for line in TEXT for character in line if not character.isspace()})
    continuing = [f"##{letter}" for letter in letters if letter.isalpha()]
    how = {"initial_alphabet": letters, "continuing_subword_prefix": "##"}
    return _learn(pre_tokenizers.BertPreTokenizer(), BERT + continuing, SIZE, **how).get_vocab()


def _xlm_roberta() -> PreTrainedTokenizerBase:
    learnt = _learn(pre_tokenizers.Metaspace(), [], SIZE - 5)
    pieces = sorted(learnt.get_vocab(), key=lambda piece: (-len(piece), piece))
    scored = [(piece, -1.0 - 0.01 * rank) for rank, piece in enumerate(pieces)]
    vocabulary = [*((token, 0.0) for token in ROBERTA), *scored, ("<mask>", 0.0)]
    return hf.XLMRobertaTokenizer(vocab=vocabulary, **MASKED)


def _unigram(
    first: list[str], last: list[str], single: str, **roles: str
) -> PreTrainedTokenizerBase:
    """Special tokens, pieces, and at the end tokens that are known by their name."""
    learnt = _learn(pre_tokenizers.Metaspace(), [], SIZE - len(first) - len(last))
    pieces = sorted(learnt.get_vocab(), key=lambda piece: (-len(piece), piece))
    scored = [(piece, -1.0 - 0.01 * rank) for rank, piece in enumerate(pieces)]
    vocabulary = [*((token, 0.0) for token in first), *scored, *((token, 0.0) for token in last)]
    backend = tk.Tokenizer(models.Unigram(vocabulary, first.index("<unk>"), byte_fallback=False))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    special = [*first, *(token for token in last if not token.startswith("▁"))]
    _add_specials(backend, special, "<mask>")
    around = [(token, backend.token_to_id(token)) for token in single.split() if token != "$A"]
    pair = single.replace("$A", "$A $B")
    backend.post_processor = processors.TemplateProcessing(single, pair, around)
    how = roles | {"model_input_names": ["input_ids", "attention_mask"], "model_max_length": 512}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **how)


SENTINELS = [f"<extra_id_{number}>" for number in reversed(range(100))]
T5_ROLES = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
ROBERTA_ROLES = T5_ROLES | {"bos_token": "<s>", "cls_token": "<s>", "sep_token": "</s>"}
ROBERTA_ROLES |= {"mask_token": "<mask>"}


DEBERTA_ROLES = {"pad_token": "[PAD]", "cls_token": "[CLS]", "bos_token": "[CLS]"}
DEBERTA_ROLES |= {"sep_token": "[SEP]", "eos_token": "[SEP]", "unk_token": "<unk>"}
DEBERTA_ROLES |= {"mask_token": "[MASK]"}


def _t5(word_start: str = "") -> PreTrainedTokenizerBase:
    last = [word_start + sentinel for sentinel in SENTINELS]
    return _unigram(["<pad>", "</s>", "<unk>"], last, "$A </s>", **T5_ROLES)


def _with_codes(*codes: str) -> PreTrainedTokenizerBase:
    return _unigram(ROBERTA, [*codes, "<mask>"], f"{codes[0]} $A </s>", **ROBERTA_ROLES)


BUILDERS: dict[str, Callable[[], PreTrainedTokenizerBase]] = {
    "roberta": _roberta,
    "xlm-roberta": _xlm_roberta,
    "modernbert": _modernbert,
    "bert": lambda: BertTokenizer(vocab=_wordpieces(), model_max_length=512),
    "bart": _roberta,
    "camembert": _xlm_roberta,
    "xlm-roberta-xl": _xlm_roberta,
    "roberta-prelayernorm": _roberta,
    "gte": _xlm_roberta,
    "eurobert": _modernbert,
    "distilbert": lambda: BertTokenizer(vocab=_wordpieces(), model_max_length=512),
    "deberta-v2": lambda: _unigram(
        ["[PAD]", "[CLS]", "[SEP]", "<unk>"], ["[MASK]"], "[CLS] $A [SEP]", **DEBERTA_ROLES
    ),
    "mbart": lambda: _with_codes("en_XX", "ko_KR", "de_DE"),
    "m2m_100": lambda: _with_codes("eng_Latn", "kor_Hang"),
    "t5": _t5,
    "mt5": lambda: _t5("▁"),
    "electra": lambda: hf.ElectraTokenizer(vocab=_wordpieces(), model_max_length=512),
}


@functools.cache
def build(family: str) -> PreTrainedTokenizerBase:
    return BUILDERS[family]()
