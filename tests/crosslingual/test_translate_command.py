"""`lingraft translate` as people use it: one line in, one line out, whatever happens between."""

import copy
import json

import pytest
from tiny_tokenizers import build
from tiny_translators import varied
from transformers import MBart50Tokenizer, MBartTokenizer, NllbTokenizer

from lingraft.crosslingual import translator
from lingraft.crosslingual.settings import Decoding
from lingraft.crosslingual.translator import Translator
from lingraft.errors import RecipeError
from lingraft.models import encoder_decoder
from lingraft.models.encoder_decoder import translate
from lingraft.tokenizer.frame import languages

TEXT = [
    "Open the file.",
    "",
    "나는 학교에 가서 책을 읽었다.",
    "A café in the city",
    " ",
    "tea, coffee",
]
OPTIONS = ("beams=2", "max_new_tokens=6")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("translator")
    varied("bart").save_pretrained(folder)
    build("xlm-roberta").save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def expected():
    lines = translate(varied("bart"), build("xlm-roberta"), TEXT, beams=2, max_new_tokens=6)
    assert len(set(lines)) == 5
    return "".join(f"{line}\n" for line in lines).encode()


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "src.txt"
    path.write_bytes("\r\n".join(TEXT).encode())  # a last line without its end counts, too
    return path


def test_a_text_becomes_a_file_of_as_many_lines(model, text, expected, command, tmp_path):
    out = tmp_path / "hyp.txt"
    ended = command("translate", model, "--text", text, "--out", out, *OPTIONS)
    assert ended.status == 0, ended.err
    assert out.read_bytes() == expected
    assert "6, 2 of them empty\n" in ended.out


def test_a_killed_call_goes_on_to_the_same_file_and_asks_the_model_no_line_twice(
    model, text, expected, command, tmp_path, monkeypatch
):
    monkeypatch.setattr(encoder_decoder, "BLOCK", 2)
    whole, asked = Translator.translate, []

    def killed(self, lines, **more):
        asked.extend(lines)
        if len(asked) == 4:
            raise KeyboardInterrupt
        return whole(self, lines, **more)

    monkeypatch.setattr(Translator, "translate", killed)
    out = tmp_path / "hyp.txt"
    with pytest.raises(KeyboardInterrupt):
        translator.write(str(model), text, out, Decoding(beams=2, max_new_tokens=6))
    assert not out.exists()
    (partial,) = tmp_path.glob("hyp.txt.*.partial")
    with partial.open("ab") as file:
        file.write(b"a line of half a block\nhalf of a li")
    ended = command("translate", model, "--text", text, "--out", out, *OPTIONS)
    assert ended.status == 0, ended.err
    assert "goes on after 2 lines" in ended.err
    assert out.read_bytes() == expected
    assert asked == [*TEXT[:4], *TEXT[2:]]
    assert not partial.exists()


@pytest.mark.parametrize("kind", [NllbTokenizer, MBart50Tokenizer, MBartTokenizer])
def test_the_source_language_is_read_and_the_target_language_comes_first(kind, tmp_path):
    tokenizer = kind()
    codes = list(languages(tokenizer))
    model = varied("bart", max_new_tokens=3)
    model.resize_token_embeddings(len(tokenizer))
    for stack in (model.model.encoder, model.model.decoder):  # transformers saves one tensor of two
        stack.embed_tokens = copy.deepcopy(stack.embed_tokens)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(saved | {"src_lang": None}))
    source, target = codes[1], codes[2]
    with pytest.raises(RecipeError, match=f"source_language: '.*' has {len(codes)} languages"):
        Translator.load(str(tmp_path), Decoding(target_language=target))
    with pytest.raises(RecipeError, match="'xx' is none of them"):
        Translator.load(str(tmp_path), Decoding(source_language="xx", target_language=target))
    settings = Decoding(beams=1, source_language=source, target_language=target)
    loaded = Translator.load(str(tmp_path), settings)
    assert tokenizer.convert_tokens_to_ids(source) in loaded.tokenizer("a")["input_ids"]
    asked = []
    stock = loaded.model.generate
    loaded.model.generate = lambda **given: asked.append(stock(**given)) or asked[-1]  # type: ignore[method-assign]
    loaded.translate(["a"])
    first = asked[0][0, 0 if kind is MBartTokenizer else 1]
    assert int(first) == tokenizer.convert_tokens_to_ids(target)
