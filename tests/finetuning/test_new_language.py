"""A language that a translator lacks: its code, its row, its pairs and its raw text."""

import json

import pytest
import tiny_translators as tiny
import torch
import transformers as hf

from lingraft.finetuning import new_language
from lingraft.finetuning.coders.common import InputShape
from lingraft.finetuning.coders.translation import TranslationCoder
from lingraft.finetuning.outcomes import outcomes
from lingraft.models import encoder_decoder
from lingraft.tasks.decoding import task_in
from lingraft.tasks.examples import TranslationExample

CODES = {"nllb": "kor_Hang xyz_Latn", "m2m": "ko xyz", "mbart-50": "ko_KR xy_XX"}
CODES["mbart"] = CODES["mbart-50"]
"""A code that is there, and a new one."""
SHORT_RUN = ("--seeds", "1", "steps=1", "batch=4", "max_length=48", "keep_models=true")


@pytest.fixture
def learn(tmp_path, command):
    """Fine-tunes tmp_path/start on pairs, with more keys of the task."""

    def run(keys, pairs=tiny.PAIRS):
        task = tiny.write_task(tmp_path / "task", pairs, f"{keys}\n")
        out = ("--task", task, "--out", tmp_path / "out", *SHORT_RUN)
        return command("finetune", tmp_path / "start", *out)

    return run


@pytest.mark.parametrize("like", ["mean", "related"])
@pytest.mark.parametrize("kind", CODES)
def test_a_new_code_has_its_row_and_survives_in_stock_transformers(kind, like, learn, tmp_path):
    codes, (known, new) = tiny.of_languages(kind, tmp_path / "start"), CODES[kind].split()
    like = known if like == "related" else like
    learn(f'codes = ["{known}", "{new}"]\nnew_code = "{like}"').well()
    folders = (tmp_path / "start", tmp_path / "out" / new_language.FOLDER / "start/ko-en/model")
    best = tmp_path / "out/start/ko-en/seed-0/best"
    load, stock = hf.AutoModelForSeq2SeqLM.from_pretrained, hf.AutoTokenizer.from_pretrained(best)
    before, after = (load(one).get_output_embeddings().weight.detach() for one in folders)
    around = "__" if kind == "m2m" else ""
    token, *others = (f"{around}{code}{around}" for code in (new, *codes))
    row, *old = stock.convert_tokens_to_ids([token, *others])
    assert torch.equal(before[:row], after[:row])
    expected = before[old] if like == "mean" else before[[old[codes.index(known)]]]
    torch.testing.assert_close(after[row], expected.mean(0))
    stock.src_lang = stock.tgt_lang = token
    assert row in stock("a")["input_ids"]
    assert row in stock(text_target="a")["input_ids"]
    written = load(best).generate(**stock(["a"], return_tensors="pt"), max_new_tokens=3)
    assert written[0].tolist()[0 if kind == "mbart" else 1] == row


def test_raw_text_is_translated_back_once_and_learnt(learn, tmp_path, monkeypatch):
    tiny.of_languages("nllb", tmp_path / "start")
    (tmp_path / "task").mkdir()
    held = "Read a book!"  # an answer of the test set, but for its spelling
    (tmp_path / "task/raw.txt").write_text(f"the sun\n\nthe city\n{held}\na menu\n", "utf-8")
    keys = 'codes = ["kor_Hang", "xyz_Latn"]\nnew_code = "mean"\nraw = "raw.txt"'
    monkeypatch.setattr(encoder_decoder, "BLOCK", 2)
    asked = []

    def half(model, tokenizer, texts, **_):
        asked.append((tokenizer.src_lang, model.generation_config.forced_bos_token_id, *texts))
        if len(asked) == 2:
            raise KeyboardInterrupt
        return [f"{text} back" for text in texts]

    monkeypatch.setattr(new_language, "translate", half)
    assert learn(keys, tiny.PAIRS * 13).status == 130
    place = tmp_path / "out" / new_language.FOLDER / "start/ko-en"
    trained = place / "back/start/ko-en/seed-0/done.json"
    before = trained.stat().st_mtime_ns
    learn(keys, tiny.PAIRS * 13).well()
    assert trained.stat().st_mtime_ns == before
    ids = hf.AutoTokenizer.from_pretrained(place / "model").get_vocab()
    way = ("xyz_Latn", ids["kor_Hang"])
    assert asked == [(*way, "the sun", "the city"), (*way, "a menu"), (*way, "a menu")]
    (made,) = place.glob("back-translations-*.txt")
    assert made.read_text("utf-8").splitlines() == ["the sun back", "the city back", "a menu back"]
    (found,) = outcomes(tmp_path / "out")
    assert found.train_examples == 2 * 13 * len(tiny.PAIRS) + 3


@pytest.mark.parametrize("kind", ["nllb", "mbart"])
def test_a_pair_is_read_in_its_own_direction(kind, tmp_path):
    known = tiny.of_languages(kind, tmp_path / "start")[:2]
    stock = hf.AutoTokenizer.from_pretrained(tmp_path / "start")
    task = task_in(tiny.write_task(tmp_path / "task", more=f"codes = {json.dumps(known)}\n"))
    shape = InputShape(stock, 1, 64, types=False, generation=hf.GenerationConfig(**tiny.IDS))
    coder = TranslationCoder(task, shape)
    ways = (None, (known[1], known[0]), None)
    pairs = [TranslationExample("0", "a b", "c", codes=codes) for codes in ways]
    items = coder.encode_training(pairs)
    one, two = stock.convert_tokens_to_ids(known)
    assert [(one in item.ids, two in item.ids) for item in items] == [(1, 0), (0, 1), (1, 0)]
    read = coder.targets(items, 8)["decoder_input_ids"]
    assert read[:, 0 if kind == "mbart" else 1].tolist() == [two, one, two]
    assert one in coder.reader("a")["input_ids"]


@pytest.mark.parametrize(
    ("codes", "keys", "told"),
    [
        ("eng_Latn kor_Hang", 'new_code = "mean"', "has 2 of the two codes"),
        ("eng_Latn xy_XX", 'new_code = "mean"', "must be spelt as the tokenizer's: eng_Latn"),
        ("eng_Latn xyz_Latn", 'new_code = "kor_Latn"', "give one of mean, eng_Latn"),
        ("eng_Latn kor_Hang", 'raw = "train.jsonl"', "8 pairs and 8 sentences"),
        ("", 'new_code = "mean"', "has no language codes; leave it out"),
    ],
)
def test_what_cannot_be_added_is_refused_in_one_line(codes, keys, told, learn, tmp_path):
    if codes:
        tiny.of_languages("nllb", tmp_path / "start")
        keys = f"codes = {json.dumps(codes.split())}\n{keys}"
    else:
        tiny.save(tmp_path / "start", "bart")
    ended = learn(keys)
    assert (ended.status, ended.err.count("lingraft: ")) == (1, 1)
    assert told in ended.err.splitlines()[-1]
