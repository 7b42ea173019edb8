"""A source's tokenizer is read as tokenizer.json holds it, whatever class its other files name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import causal_tokenizers
import pytest
import real_data
import script_modules
import sentencepiece
from tiny_tokenizers import TEXT
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from lingraft.errors import DataError, LingraftError, UnsupportedModelError
from lingraft.pretrained.tokenizers import LINES, load_tokenizer
from lingraft.tokenizer import files

REAL = real_data.folder("real_tokenizers")
WORDS = "In 1234567 ＦＵＬＬ Ünï naïve CAFÉ"


def changed(path, change):
    state = json.loads(path.read_text("utf-8"))
    change(state)
    path.write_text(json.dumps(state), "utf-8")


def folded(state):
    """A RoBERTa that folds case and width."""
    steps = [{"type": "NFKC"}, {"type": "Lowercase"}]
    state["normalizer"] = {"type": "Sequence", "normalizers": steps}


def digits(state):
    """A Llama whose numbers fall into digits, as SmolLM's do."""
    steps = [{"type": "Digits", "individual_digits": True}, state["pre_tokenizer"]]
    state["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}


def unknown_first(state):
    """An XLM-R whose `<unk>` is 0."""
    order = ["<unk>", "<s>", "<pad>", "</s>"]
    state["model"]["vocab"][:4] = [[token, 0.0] for token in order]
    state["model"]["unk_id"] = 0
    for token in state["added_tokens"]:
        token["id"] = order.index(token["content"]) if token["id"] < 4 else token["id"]
    for token in state["post_processor"].get("special_tokens", {}).values():
        token["ids"] = [order.index(name) for name in token["tokens"]]


SOURCES = {
    "a RoBERTa that lower-cases": ("roberta", "RobertaTokenizer", folded),
    "a Llama that splits digits": ("llama", "GPT2Tokenizer", digits),
    "an XLM-R with <unk> at 0": ("xlm-roberta", "XLMRobertaTokenizer", unknown_first),
    "a WordPiece called a RoBERTa": ("bert", "RobertaTokenizer", lambda state: None),
}


@pytest.fixture
def source(tiny_source, tmp_path):
    """A copy of a tiny source whose files name a class, and whose tokenizer.json says otherwise."""

    def made(family, kind, change):
        folder = shutil.copytree(tiny_source(family), tmp_path / "source")
        if family == "llama":
            causal_tokenizers.build("gpt2").save_pretrained(folder)
        changed(folder / "tokenizer.json", change)
        changed(folder / "tokenizer_config.json", lambda c: c.update(tokenizer_class=kind))
        return folder

    return made


@pytest.mark.parametrize("name", SOURCES)
def test_ids_are_those_of_the_file_and_stay_so_when_it_is_saved(name, source, tmp_path, caplog):
    folder = source(*SOURCES[name])
    written = Tokenizer.from_file(str(folder / "tokenizer.json"))
    texts = [*LINES, *TEXT, WORDS]
    expected = [written.encode(text).ids for text in texts]
    stock = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    assert [stock(text)["input_ids"] for text in texts] != expected, "the case shows nothing"
    tokenizer = files.load(folder)
    assert [tokenizer(text)["input_ids"] for text in texts] == expected
    assert SOURCES[name][1] in caplog.text
    files.save_as_it_is(tokenizer, tmp_path / "saved")
    again = AutoTokenizer.from_pretrained(tmp_path / "saved", trust_remote_code=False)
    assert [again(text)["input_ids"] for text in texts] == expected
    assert again.unk_token_id == written.token_to_id(str(tokenizer.unk_token))


def test_a_class_gives_the_roles_that_no_file_names(tiny_source, tmp_path):
    folder = shutil.copytree(tiny_source("roberta"), tmp_path / "source")
    changed(folder / "tokenizer.json", folded)
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 512}')
    tokenizer = load_tokenizer(str(folder))
    assert (tokenizer.pad_token_id, tokenizer.mask_token_id) == (1, 319)
    assert tokenizer("cafe")["input_ids"] == tokenizer("CAFE")["input_ids"]


def test_a_template_that_the_file_lacks_is_the_class_s(tiny_source, tmp_path):
    folder = shutil.copytree(tiny_source("bert"), tmp_path / "source")
    around = load_tokenizer(str(folder))("")["input_ids"]
    changed(folder / "tokenizer.json", lambda state: state.update(post_processor=None))
    assert load_tokenizer(str(folder))("")["input_ids"] == around == [2, 3]


def shifted(state):
    for token in state["added_tokens"]:
        token["id"] += 5 * (token["content"] == "</s>")


def shared(state):
    state["model"]["vocab"]["the"] = state["model"]["vocab"]["a"]


@pytest.mark.parametrize(("change", "words"), [(shifted, "'</s>' at id 7"), (shared, "same id")])
def test_ids_that_tokenizers_would_change_without_a_word_are_refused(
    change, words, tiny_source, tmp_path
):
    folder = shutil.copytree(tiny_source("roberta"), tmp_path / "source")
    changed(folder / "tokenizer.json", change)
    with pytest.raises(DataError, match=words):
        load_tokenizer(str(folder))


def test_a_token_with_a_role_needs_a_row(tiny_source, tmp_path):
    folder = shutil.copytree(tiny_source("roberta"), tmp_path / "source")
    tokenizer = load_tokenizer(str(folder))
    tokenizer.add_special_tokens({"extra_special_tokens": ["<image>"]})
    files.save(tokenizer, folder)
    assert "<image>" in load_tokenizer(str(folder)).get_vocab()  # no text gives it
    tokenizer.pad_token = "<image>"
    files.save(tokenizer, folder)
    with pytest.raises(UnsupportedModelError, match="'<image>' at id 320, but the model only 320"):
        load_tokenizer(str(folder))


def sentencepiece_model(folder, name, **options):
    folder.mkdir(exist_ok=True)
    with (folder / name).open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(TEXT),
            model_writer=file,
            vocab_size=400,
            hard_vocab_limit=False,
            num_threads=1,
            minloglevel=2,
            **options,
        )
    return folder


def test_a_sentencepiece_model_alone_is_read_as_sentencepiece_does_or_refused(tmp_path):
    mistral = sentencepiece_model(
        tmp_path / "mistral",
        "tokenizer.model",
        model_type="bpe",
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
    )
    (mistral / "config.json").write_text('{"model_type": "mistral"}')
    with pytest.raises(UnsupportedModelError, match=r"other pieces than tokenizer\.model"):
        load_tokenizer(str(mistral))
    xlmr = sentencepiece_model(tmp_path / "xlmr", "sentencepiece.bpe.model", model_type="unigram")
    (xlmr / "config.json").write_text('{"model_type": "xlm-roberta"}')
    assert load_tokenizer(str(xlmr)).tokenize("The dog sleeps")
    (xlmr / "config.json").unlink()
    with pytest.raises(UnsupportedModelError, match=r"no tokenizer\.json.*; add it"):
        load_tokenizer(str(xlmr))


SLOW = {
    "PhobertTokenizer": ("vocab.txt", "bpe.codes"),
    "BertJapaneseTokenizer": ("vocab.txt",),
    "ByT5Tokenizer": (),
}


@pytest.mark.parametrize("kind", SLOW)
def test_a_run_from_a_tokenizer_without_a_backend_ends_before_it_begins(
    kind, tiny_source, tmp_path, command, korean_text
):
    folder = tmp_path / "source"
    shutil.copytree(tiny_source("bert"), folder, ignore=shutil.ignore_patterns("tokenizer*"))
    settings = {"tokenizer_class": kind, "word_tokenizer_type": "basic"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    for file in SLOW[kind]:
        (folder / file).write_text("[PAD]\n[UNK]\n" if kind.startswith("Bert") else "a 3\nb 2\n")
    words = (
        "--text",
        korean_text,
        "--lang",
        "ko",
        "--budget",
        "10steps",
        "--out",
        tmp_path / "run",
    )
    ended = command("adapt", "--source", folder, *words)
    assert ended.status == 1
    assert f"its tokenizer is {kind}" in ended.err
    assert "such as " in ended.err
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.skipif(not REAL.is_dir(), reason=f"needs the tokenizers in {REAL}")
def test_no_published_tokenizer_is_read_otherwise_than_its_files_say():
    script = script_modules.load("tokenizer_agreement")
    found = {name: verdict for name, verdict, _ in script.verdicts(Path(REAL))}
    assert len(found) >= 50
    assert not [name for name, verdict in found.items() if verdict == "differs"]
    assert sum(verdict == "agrees" for verdict in found.values()) >= 33


def of_no_token(folder):
    changed(folder / "tokenizer_config.json", lambda config: config.update(pad_token=""))


def of_a_lost_template_token(folder):
    def without(state):
        state["post_processor"]["special_tokens"].pop("[CLS]")

    changed(folder / "tokenizer.json", without)


@pytest.mark.parametrize("damage", [of_no_token, of_a_lost_template_token])
def test_files_that_contradict_themselves_are_one_line(damage, tiny_source, tmp_path):
    folder = shutil.copytree(tiny_source("bert"), tmp_path / "source")
    damage(folder)
    with pytest.raises(LingraftError) as error:
        load_tokenizer(str(folder))
    assert "\n" not in str(error.value)
