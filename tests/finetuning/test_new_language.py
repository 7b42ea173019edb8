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
from lingraft.tasks.examples import DirectedExample, TranslationExample

NEW = {"nllb": "xyz_Latn", "m2m": "xyz", "mbart-50": "xy_XX", "mbart": "xy_XX"}
KNOWN = {"nllb": "kor_Hang", "m2m": "ko", "mbart-50": "ko_KR", "mbart": "ko_KR"}
SHORT_RUN = ("--seeds", "1", "steps=1", "batch=4", "max_length=48", "keep_models=true")
MANY = tiny.PAIRS * 13


@pytest.fixture
def learn(tmp_path, command):
    """Fine-tunes a model on pairs with more keys of the task: `learn(folder, keys)`."""

    def run(folder, keys, pairs=tiny.PAIRS):
        task = tiny.write_task(tmp_path / "task", pairs, keys)
        return command("finetune", folder, "--task", task, "--out", tmp_path / "out", *SHORT_RUN)

    return run


def rows(folder):
    return hf.AutoModelForSeq2SeqLM.from_pretrained(folder).get_output_embeddings().weight.detach()


@pytest.mark.parametrize("kind", NEW)
@pytest.mark.parametrize("like", ["mean", "related"])
def test_a_new_code_has_its_row_and_survives_in_stock_transformers(kind, like, learn, tmp_path):
    folder, (new, known) = tmp_path / kind, (NEW[kind], KNOWN[kind])
    codes = tiny.of_languages(kind, folder)
    like_code = known if like == "related" else like
    learn(folder, f'codes = ["{known}", "{new}"]\nnew_code = "{like_code}"\n').well()
    place = f"{kind}/ko-en"
    before, after = rows(folder), rows(tmp_path / "out" / new_language.FOLDER / place / "model")
    stock = hf.AutoTokenizer.from_pretrained(tmp_path / "out" / place / "seed-0" / "best")
    marks = ("__", "__") if kind == "m2m" else ("", "")
    token, *old = (code.join(marks) for code in (new, *codes))
    row, ids = stock.convert_tokens_to_ids(token), stock.convert_tokens_to_ids(old)
    shared = [index for index in range(len(before)) if index != row]
    assert torch.equal(before[shared], after[shared])
    related = before[stock.convert_tokens_to_ids(known.join(marks))]
    torch.testing.assert_close(after[row], related if like == "related" else before[ids].mean(0))
    stock.src_lang = stock.tgt_lang = token
    assert row in stock("a")["input_ids"]
    assert row in stock(text_target="a")["input_ids"]
    model = hf.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out" / place / "seed-0" / "best")
    written = model.generate(**stock(["a"], return_tensors="pt"), max_new_tokens=3)
    assert written[0].tolist()[0 if kind == "mbart" else 1] == row


def test_raw_text_is_translated_back_once_and_learnt_from_there(learn, tmp_path, monkeypatch):
    tiny.of_languages("nllb", tmp_path / "nllb")
    (tmp_path / "task").mkdir()
    (tmp_path / "task/raw.txt").write_text("the sun\n\nthe city\na menu\n", "utf-8")
    keys = 'codes = ["kor_Hang", "xyz_Latn"]\nnew_code = "mean"\nraw = "raw.txt"\n'
    monkeypatch.setattr(encoder_decoder, "BLOCK", 2)
    whole, asked = new_language.translate, []

    def killed(model, tokenizer, texts, **how):
        asked.append((tokenizer.src_lang, model.generation_config.forced_bos_token_id, *texts))
        if len(asked) == 2:
            raise KeyboardInterrupt
        return [f"{text} ko" for text in whole(model, tokenizer, texts, **how) + texts][
            -len(texts) :
        ]

    monkeypatch.setattr(new_language, "translate", killed)
    ended = learn(tmp_path / "nllb", keys, MANY)
    assert ended.status == 130, ended.err
    place = tmp_path / "out" / new_language.FOLDER / "nllb/ko-en"
    trained = place / "back/nllb/ko-en/seed-0/done.json"
    before = trained.stat().st_mtime_ns
    learn(tmp_path / "nllb", keys, MANY).well()
    assert trained.stat().st_mtime_ns == before
    korean = hf.AutoTokenizer.from_pretrained(place / "model").convert_tokens_to_ids("kor_Hang")
    way = ("xyz_Latn", korean)
    assert asked == [(*way, "the sun", "the city"), (*way, "a menu"), (*way, "a menu")]
    (made,) = place.glob("back-translations-*.txt")
    assert made.read_text("utf-8").splitlines() == ["the sun ko", "the city ko", "a menu ko"]
    (found,) = outcomes(tmp_path / "out")
    assert found.train_examples == 2 * len(MANY) + 3


@pytest.mark.parametrize("kind", ["nllb", "mbart"])
def test_a_pair_is_read_in_its_own_direction(kind, tmp_path):
    known = tiny.of_languages(kind, tmp_path / kind)[:2]
    stock = hf.AutoTokenizer.from_pretrained(tmp_path / kind)
    task = task_in(tiny.write_task(tmp_path / "task", more=f"codes = {json.dumps(known)}\n"))
    shape = InputShape(stock, 1, 64, types=False, generation=hf.GenerationConfig(**tiny.IDS))
    coder = TranslationCoder(task, shape)
    turned = DirectedExample("1", "a b", "c", codes=(known[1], known[0]))
    first, other, last = coder.encode_training(
        [TranslationExample("0", "a b", "c"), turned, TranslationExample("2", "a b", "c")]
    )
    decoder_ids = coder.targets([first, other], 8)["decoder_input_ids"].tolist()
    one, two = stock.convert_tokens_to_ids(known)
    assert [one in first.ids, two in first.ids, one in other.ids] == [True, False, False]
    place = 0 if kind == "mbart" else 1
    assert [ids[place] for ids in decoder_ids] == [two, one]
    assert (first.ids == last.ids).all()
    assert one in coder.reader("a")["input_ids"]


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ('codes = ["eng_Latn", "kor_Hang"]\nnew_code = "mean"', "has 2 of the two codes"),
        ('codes = ["eng_Latn", "xy_XX"]\nnew_code = "mean"', "spelt like the tokenizer's: eng"),
        ('codes = ["eng_Latn", "xyz_Latn"]\nnew_code = "kor_Latn"', "'mean', kor_Hang"),
        ('codes = ["eng_Latn", "kor_Hang"]\nraw = "train.jsonl"', "at least 100 pairs"),
        ('new_code = "mean"', "has no language codes; leave it out"),
    ],
)
def test_what_cannot_be_added_is_refused_in_one_line(keys, told, learn, tmp_path):
    if "codes" in keys:
        tiny.of_languages("nllb", tmp_path / "model")
    else:
        tiny.save(tmp_path / "model", "bart")
    ended = learn(tmp_path / "model", f"{keys}\n")
    assert (ended.status, ended.err.count("lingraft: ")) == (1, 1)
    assert told in ended.err.splitlines()[-1]
