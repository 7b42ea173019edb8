"""Where the translations of a split's examples are found, without a model."""

import json

import pytest

from lingraft.errors import DataError
from lingraft.finetuning import partners
from lingraft.tasks.decoding import task_in

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


def test_rows_may_lack_a_translation(found):
    rows = [row(0), row(1, translation="말 1"), row(2, translation=" "), row(3)]
    assert found(rows) == {"1": "말 1"}


def test_translations_in_a_file_of_their_own_are_found_by_ids_or_refused(found, tmp_path):
    other = json.dumps({"text": "말", "label": "no"}, ensure_ascii=False)
    (tmp_path / "other.jsonl").write_text(other + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"other\.jsonl: has no ids"):
        found([row(0)], 'translations = { train = "other.jsonl" }\n')
