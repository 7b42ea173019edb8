"""Where the translations of a split's examples are found, without a model."""

import json

import pytest

from lingraft.finetuning import partners
from lingraft.tasks.definition import task_in
from lingraft.tasks.splits import read_split

MOOD = 'name = "mood"\nkind = "classification"\nlabels = ["no", "yes"]\n'


@pytest.fixture
def found(tmp_path):
    """Translations by id in a file of rows, of a task with more lines."""

    def called(rows, more=""):
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        (tmp_path / "train.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        files = 'files = { train = "train.jsonl", dev = "train.jsonl", test = "train.jsonl" }\n'
        (tmp_path / "mood.toml").write_text(MOOD + files + more, encoding="utf-8")
        task = task_in(tmp_path / "mood.toml")
        matches = partners.translations(task, "train", tmp_path)
        return {key: example.text for key, example in matches.items()}

    return called


def row(number, **more):
    return {"id": number, "text": f"text {number}", "label": ("no", "yes")[number % 2], **more}


def test_the_first_row_may_lack_a_translation(found):
    assert found([row(0), row(1, translation="말 1"), row(2), row(3, translation="말 3")]) == {
        "1": "말 1",
        "3": "말 3",
    }


def test_the_first_row_may_be_in_another_language(found):
    rows = [row(0, lang="de", translation="a"), row(1, lang="ko", translation="b")]
    assert found(rows, 'only = { lang = "ko" }\n') == {"1": "b"}


@pytest.mark.parametrize("nothing", ["", " ", None])
def test_an_empty_translation_is_none(nothing, found):
    assert found([row(0, translation="말 0"), row(1, translation=nothing)]) == {"0": "말 0"}


@pytest.mark.parametrize("more", ["", 'metrics = ["entities"]\n'])
@pytest.mark.parametrize("suffix", ["jsonl", "txt"])
def test_translations_of_named_words_may_lack_tags(more, suffix, tmp_path):
    tagged = {"id": "0", "words": ["Jo", "runs"], "tags": ["B-PER", "O"]}
    (tmp_path / "train.jsonl").write_text(json.dumps(tagged), encoding="utf-8")
    bare = {"jsonl": json.dumps({"id": "0", "words": ["조", "뛴다"]}), "txt": "조\n뛴다\n"}
    (tmp_path / f"bare.{suffix}").write_text(bare[suffix], encoding="utf-8")
    table = f'name = "names"\nkind = "tagging"\n{more}files = {{ train = "train.jsonl" }}\n'
    table += f'translations = {{ train = "bare.{suffix}" }}\n'
    (tmp_path / "names.toml").write_text(table, encoding="utf-8")
    task = task_in(tmp_path / "names.toml")
    (example,) = read_split(
        task.translation(), "train", [tmp_path / f"bare.{suffix}"], unanswered=True
    )
    assert (example.units, example.tags) == (("조", "뛴다"), None)


@pytest.mark.parametrize("more", ['evaluation = ["test"]\n', 'hidden = ["test"]\n'])
def test_translations_of_the_training_set_alone_are_enough(more, found, tmp_path):
    (tmp_path / "ko.jsonl").write_text('{"id": 0, "text": "말 0"}\n', encoding="utf-8")
    more += 'translations = { train = "ko.jsonl" }\n'
    assert found([row(0), row(1)], more) == {"0": "말 0"}


def test_a_file_without_translations_has_none(found):
    assert found([row(0), row(1)]) == {}
