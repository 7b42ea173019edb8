"""Texts of tasks, out of five-row files in the official formats (tests/tasks/official)."""

import json
from pathlib import Path

import pytest

from lingraft.corpus.cleaning.steps import SentenceFilter
from lingraft.errors import DataError, RecipeError
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


def test_the_training_split_stays_where_another_one_is_judged(tmp_path):
    rows = {"train": ["훈련 문장", "다른 훈련 문장"], "dev": ["시험 문장"]}
    files = {}
    for split, sentences in rows.items():
        path = tmp_path / f"{split}.jsonl"
        labelled = [{"text": s, "label": "ab"[n % 2]} for n, s in enumerate(sentences)]
        path.write_text("".join(json.dumps(row) + "\n" for row in labelled))
        files[split] = f'{split} = "{path.name}"'
    task = tmp_path / "mood.toml"
    task.write_text(
        f'name = "mood"\nkind = "classification"\nlabels = ["a", "b"]\n'
        f"files = {{ {', '.join(files.values())} }}\n"
    )
    [mine] = tasks_of([str(task), str(task)])
    assert texts(mine, None) == ["시험 문장"]


def test_the_section_names_one_file_a_task_which_is_left_alone_when_nothing_changed(tmp_path):
    tasks = tasks_of(["klue-nli", "nsmc"])
    section = decontaminated(SECTION, tasks, OFFICIAL, tmp_path / "evaluations")
    paths = [tmp_path / "evaluations" / name for name in ("klue-nli.json", "nsmc.json")]
    assert section.decontaminate == tuple(map(str, paths))
    before = [path.stat().st_mtime_ns for path in paths]
    assert decontaminated(section, tasks, OFFICIAL, tmp_path / "evaluations") == section
    assert [path.stat().st_mtime_ns for path in paths] == before


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


def test_two_tasks_of_one_name_are_refused(tmp_path):
    tasks = tasks_of([own_task(tmp_path / "a"), own_task(tmp_path / "b")])
    with pytest.raises(RecipeError, match="two tasks are called 'mood'"):
        decontaminated(SECTION, tasks, None, tmp_path / "evaluations")


def test_a_test_file_that_is_not_there_is_no_reason_to_take_the_training_file(tmp_path):
    (task,) = tasks_of([own_task(tmp_path / "a", test="tset.csv")])
    with pytest.raises(DataError, match=r"mood: no such file \(test: .*tset.csv\); correct"):
        texts(task, None)
