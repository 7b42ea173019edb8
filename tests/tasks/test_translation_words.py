"""By what BLEU cuts words, by language and by what is installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from lingraft.errors import DataError
from lingraft.tasks import translation_metrics as bleu
from lingraft.tasks.decoding import decode, task_of

RIGHT, WRONG_LETTER = "これは私が昨日買った本です。", "これは私が昨日買った木です。"


@pytest.fixture(params=[False, True], ids=["alone", "with packages"])
def installed(request, monkeypatch):
    """Sacrebleu alone, or with the packages of Japanese and Korean."""
    find = importlib.util.find_spec
    packages = {name for names in bleu.PACKAGES.values() for name in names}
    spec = find("sacrebleu") if request.param else None
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: spec if name in packages else find(name)
    )
    bleu.tokenizer.cache_clear()
    yield request.param
    bleu.tokenizer.cache_clear()


def task(language, **more):
    files = {"train": "train.jsonl", "dev": "dev.jsonl"}
    table = {"name": "t", "kind": "translation", "language": language, "files": files, **more}
    return task_of(decode(table), Path())


def test_a_tokenizer_by_language_and_chrf_chooses_where_no_words_are_cut(installed):
    words = {
        "ja": ("ja-mecab", "bleu") if installed else ("char", "chrf"),
        "ko": ("ko-mecab", "bleu") if installed else ("13a", "chrf"),
        "zh-Hant": ("zh", "bleu"),
        "th": ("char", "chrf"),
        "de": ("13a", "bleu"),
        "und": ("13a", "bleu"),
    }
    found = {name: (bleu.tokenizer(name), task(name).selection) for name in words}
    assert found == words
    assert task("th").metrics == ("bleu", "chrf")
    assert task("ja", selection="bleu").selection == "bleu"


@pytest.mark.parametrize("language", ["en", "und", "ko"])
def test_references_in_another_script_than_their_language_s_are_refused(language):
    with pytest.raises(DataError, match=r"--lang: .*written in Hira"):
        bleu.check_language(language, [RIGHT], "--lang")
    bleu.check_language("ja", [RIGHT, "東京都"], "--lang")
    bleu.check_language(language, ["The 本 is mine."], "--lang")
