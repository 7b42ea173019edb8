"""`lingraft translate` as people use it: one line in, one line out, whatever happens between."""

from __future__ import annotations

import copy
import io
import json
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import tiny_translators
from tiny_tokenizers import build
from tiny_translators import varied
from transformers import MBart50Tokenizer, MBartTokenizer, NllbTokenizer

from lingraft.crosslingual import translator
from lingraft.crosslingual.translator import Settings, Translator
from lingraft.errors import RecipeError
from lingraft.models.generation import translate
from lingraft.tokenizer.frame import languages

if TYPE_CHECKING:
    from collections.abc import Callable

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
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("translator")
    varied("bart").save_pretrained(folder)
    build("xlm-roberta").save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def expected() -> bytes:
    lines = translate(varied("bart"), build("xlm-roberta"), TEXT, beams=2, max_new_tokens=6)
    assert len(set(lines)) == 5
    return "".join(f"{line}\n" for line in lines).encode()


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "src.txt"
    path.write_bytes("\r\n".join(TEXT).encode())  # a last line without its end counts, too
    return path


def test_a_text_becomes_a_file_of_as_many_lines(
    model: Path, text: Path, expected: bytes, command: Callable[..., Any], tmp_path: Path
) -> None:
    out = tmp_path / "hyp.txt"
    ended = command("translate", model, "--text", text, "--out", out, *OPTIONS)
    assert ended.status == 0, ended.err
    assert out.read_bytes() == expected
    assert "6, 2 of them empty\n" in ended.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hyp.txt", "src.txt"]


def test_a_killed_call_goes_on_to_the_same_file_and_asks_the_model_no_line_twice(
    model: Path,
    text: Path,
    expected: bytes,
    command: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(translator, "BLOCK", 2)
    whole, asked = Translator.translate, []

    def killed(self: Translator, lines: list[str], *more: Any) -> list[str]:
        asked.extend(lines)
        if len(asked) == 4:
            raise KeyboardInterrupt
        return whole(self, lines, *more)

    monkeypatch.setattr(Translator, "translate", killed)
    out = tmp_path / "hyp.txt"
    start = ("translate", model, "--text", text, "--out", out)
    with pytest.raises(KeyboardInterrupt):
        translator.write(str(model), text, out, Settings(2, 6))
    assert not out.exists()
    (partial,) = tmp_path.glob("hyp.txt.*.partial")
    with partial.open("ab") as file:
        file.write(b"a line of half a block\nhalf of a li")
    ended = command(*start, *OPTIONS)
    assert ended.status == 0, ended.err
    assert "goes on after 2 lines" in ended.err
    assert out.read_bytes() == expected
    assert asked == [*TEXT[:4], *TEXT[2:]]
    assert not partial.exists()


def test_overwrite_replaces_a_file(
    model: Path, text: Path, expected: bytes, command: Callable[..., Any], tmp_path: Path
) -> None:
    out = tmp_path / "hyp.txt"
    out.write_text("mine")
    start = ("translate", model, "--text", text, "--out", out, *OPTIONS)
    assert command(*start).status == 1
    assert out.read_text() == "mine"
    assert command(*start, "--force").status == 0
    assert out.read_bytes() == expected


def test_a_model_that_cannot_be_loaded_leaves_nothing(
    model: Path, text: Path, command: Callable[..., Any], tmp_path: Path
) -> None:
    broken = shutil.copytree(model, tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"x")
    ended = command("translate", broken, "--text", text, "--out", tmp_path / "hyp.txt", *OPTIONS)
    assert ended.status == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken", "src.txt"]


def test_standard_input_and_output_are_files_too(
    model: Path, expected: bytes, command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = io.TextIOWrapper(io.BytesIO("\n".join(TEXT).encode()))
    monkeypatch.setattr(sys, "stdin", given)
    ended = command("translate", model, "--text", "-", "--out", "-", *OPTIONS)
    assert ended.out == expected.decode()


@pytest.mark.parametrize("out", ["-", "hyp.txt"])
def test_a_pipe_is_read_once(
    out: str,
    model: Path,
    text: Path,
    expected: bytes,
    command: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")  # as a shell's <(zcat src.gz)
    with ThreadPoolExecutor() as pool:
        pool.submit(Path("pipe").write_bytes, text.read_bytes())
        ended = command("translate", model, "--text", "pipe", "--out", out, *OPTIONS)
    assert ended.status == 0, ended.err
    written = ended.out.encode() if out == "-" else Path(out).read_bytes()
    assert written == expected


def test_a_byte_order_mark_before_standard_input_is_no_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = io.TextIOWrapper(io.BytesIO("가\r\n나\n".encode("utf-8-sig")))
    monkeypatch.setattr(sys, "stdin", given)
    assert list(translator.Text(Path("-"))) == ["가", "나"]


def test_a_prefix_stands_before_every_line_that_is_not_empty(model: Path) -> None:
    plain = Translator.load(str(model), Settings(1, 5))
    prefixed = Translator.load(str(model), Settings(1, 5, prefix="the dog "))
    assert prefixed.translate(["", "Open"]) == ["", *plain.translate(["the dog Open"])]
    assert prefixed.translate(["Open"]) != plain.translate(["Open"])


def resize(model: Any, pieces: int) -> None:
    """Give both stacks rows of their own: transformers makes them one tensor, and saves one."""
    model.resize_token_embeddings(pieces)
    for stack in (model.model.encoder, model.model.decoder):
        stack.embed_tokens = copy.deepcopy(stack.embed_tokens)


@pytest.mark.parametrize("kind", [NllbTokenizer, MBart50Tokenizer, MBartTokenizer])
def test_the_source_language_is_read_and_the_target_language_comes_first(
    kind: type, tmp_path: Path
) -> None:
    tokenizer = kind()
    codes = list(languages(tokenizer))
    assert len(codes) in (25, 52, 202)
    model = varied("bart", max_new_tokens=3)
    resize(model, len(tokenizer))
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(saved | {"src_lang": None}))
    source, target = codes[1], codes[2]
    with pytest.raises(
        RecipeError, match=f"--source-language: '.*' translates between {len(codes)}"
    ):
        Translator.load(str(tmp_path), Settings(target_language=target))
    with pytest.raises(RecipeError, match="nearest of its"):
        Translator.load(str(tmp_path), Settings(source_language="xx", target_language=target))
    settings = Settings(1, source_language=source, target_language=target)
    loaded = Translator.load(str(tmp_path), settings)
    assert tokenizer.convert_tokens_to_ids(source) in loaded.tokenizer("a")["input_ids"]
    asked: list[dict[str, Any]] = []
    stock = loaded.model.generate
    loaded.model.generate = lambda **given: asked.append(stock(**given)) or asked[-1]  # type: ignore[method-assign]
    loaded.translate(["a"])
    first = asked[0][0, 0 if kind is MBartTokenizer else 1]
    assert int(first) == tokenizer.convert_tokens_to_ids(target)


def test_languages_that_the_checkpoint_names_need_no_option(tmp_path: Path) -> None:
    tokenizer = NllbTokenizer(src_lang="deu_Latn")
    model = varied("bart")
    resize(model, len(tokenizer))
    model.generation_config.forced_bos_token_id = tokenizer.convert_tokens_to_ids("eng_Latn")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded = Translator.load(str(tmp_path), Settings())
    assert loaded.tokenizer.src_lang == "deu_Latn"
    assert loaded.model.generation_config.forced_bos_token_id == tokenizer.convert_tokens_to_ids(
        "eng_Latn"
    )


def test_a_special_token_in_a_text_is_text_unless_the_prefix_has_one(tmp_path: Path) -> None:
    folder, tokenizer = tiny_translators.save(tmp_path, "bart"), copy.deepcopy(build("roberta"))
    tokenizer.split_special_tokens = True  # as in finetuning/coders/translation.py
    text = "open a </s> file"
    for prefix in ("", "to German: "):
        read = Translator.load(str(folder), Settings(prefix=prefix)).tokenizer(prefix + text)
        assert read["input_ids"] == tokenizer(prefix + text)["input_ids"]
        assert read["input_ids"].count(tokenizer.eos_token_id) == 1
    read = Translator.load(str(folder), Settings(prefix="<s>")).tokenizer("<s>" + text)
    assert [read["input_ids"].count(token) for token in (0, 2)] == [2, 2]
