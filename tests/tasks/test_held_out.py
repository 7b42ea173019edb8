"""Texts of tasks, out of five-row files in the official formats (tests/tasks/official)."""

from pathlib import Path

import pytest

from lingraft.corpus.cleaning.steps import SentenceFilter
from lingraft.errors import DataError
from lingraft.recipe import Corpus
from lingraft.tasks import TASKS
from lingraft.tasks.held_out import decontaminated, tasks_of, texts

OFFICIAL = Path(__file__).parents[1] / "tasks" / "official"
SECTION = Corpus(text=("ko.txt",))


@pytest.mark.parametrize("name", ["klue-nli", "klue-ner", "klue-mrc", "klue-re"])
def test_a_sentence_of_a_held_out_split_is_dropped_whatever_form_its_file_has(name, tmp_path):
    found = texts(TASKS[name], OFFICIAL)
    assert found
    assert not any("<" in text and ":PS>" in text for text in found)
    section = decontaminated(SECTION, [TASKS[name]], OFFICIAL, tmp_path)
    judge = SentenceFilter(section, "ko")
    asked = [s for text in found for s in judge.split(text) if len(s.split()) >= 4]
    assert asked
    codes = judge.codes([*asked, "이 문장은 어느 평가에도 나오지 않는 문장입니다."])
    assert codes.tolist() == [codes[0]] * len(asked) + [0]
    assert codes[0] != 0


def own_task(folder, test="test.csv"):
    folder.mkdir()
    (folder / "train.csv").write_text("text,label\nlearnt,a\nlearnt too,b\n")
    (folder / "test.csv").write_text("text,label\njudged by this,a\n")
    path = folder / "mood.toml"
    path.write_text(
        'name = "mood"\nkind = "classification"\n'
        f'files = {{train = "train.csv", test = "{test}"}}\n'
    )
    return str(path)


def test_a_test_file_that_is_not_there_is_no_reason_to_take_the_training_file(tmp_path):
    (task,) = tasks_of([own_task(tmp_path / "a", test="tset.csv")])
    with pytest.raises(DataError, match=r"mood: no such file \(test: .*tset.csv\)"):
        texts(task, None)
