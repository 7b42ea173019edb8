"""Training in one language and scoring in others: runs of tiny models through the command."""

import csv
import json
import re
import signal
from pathlib import Path

import numpy as np
import pytest
import tasks_of_languages as made
from stopping import terminated_at

from lingraft.errors import DataError, RecipeError
from lingraft.finetuning import cells, heads, transfer
from lingraft.finetuning import outcomes as finetuned
from lingraft.finetuning.coders.common import Shape
from lingraft.finetuning.families import families, named
from lingraft.finetuning.outcomes import outcomes
from lingraft.finetuning.problem import Finetuning, Judged
from lingraft.finetuning.recipe import decode_finetune, tasks_of
from lingraft.pretrained.load import load_config
from lingraft.recipe import Batch
from lingraft.report.row import read
from lingraft.tasks import TASKS
from lingraft.training.data import BatchPlan, Position

OFFICIAL = Path(__file__).parents[1] / "tasks" / "official"


@pytest.fixture
def tagging(tmp_path):
    return made.write_tagging(tmp_path / "data")


@pytest.fixture
def run(tiny_source, command):
    """Fine-tunes a tiny model: `run(out, task, *arguments)`."""

    def called(out, task, *arguments, seeds=1):
        source = tiny_source("xlm-roberta")
        start = ("finetune", source, "--label", "M", "--task", task, "--seeds", seeds, "--out", out)
        return command(*start, *arguments)

    return called


def scored_alone(best, task, accelerator):
    """What a saved model scores on the test set of a task in one language."""
    recipe = decode_finetune({"models": [str(best)], "tasks": [str(task)], "seeds": 1})
    (cell,) = cells.plan(recipe, Path())
    tokenizer = heads.tokenizer_for(cell.folder, cell.task)
    config, coder_class = load_config(str(best)), heads.CODERS[cell.task.kind]
    forward = heads.forward_of(config, coder_class.head)
    shape = Shape.of(tokenizer, config, forward, cell.task.settings.max_length)
    coder = coder_class(cell.task, shape)
    model = heads.build(best, cell.task, tokenizer, seed=0)
    heads.restore(model, best)
    examples = cell.data.splits["test"]
    items = coder.encode(examples)
    problem = Finetuning(
        model, coder, shape, items, [Judged("test", cell.task, examples, items)], 4_096
    )
    said, _ = problem.predict(problem.module, accelerator, examples, items)
    return said, cell.task.score(examples, said)


@pytest.mark.parametrize("kind", ["tagging", "span"])
def test_each_language_scores_what_the_saved_model_scores_on_it_alone(
    kind, tmp_path, run, accelerator
):
    writer, name, text = {
        "tagging": (made.write_tagging, "words", made.TAGGING),
        "span": (made.write_spans, "answers", made.SPANS),
    }[kind]
    path = writer(tmp_path / "data")
    ended = run(tmp_path / "out", path, "--train-language", "en", "keep_models=true")
    assert ended.status == 0, ended.err
    (found,) = outcomes(tmp_path / "out")
    assert found.task == f"{name}-from-en"
    assert found.splits == ("dev-en", "test-en", "test-de", "test-ko")
    assert found.evaluation == ("test-en", "test-de", "test-ko")
    for language in made.LANGUAGES:
        table = text.replace('languages = ["en", "de", "ko"]', "").replace("{lang}", language)
        labels = 'labels = ["D", "N", "V"]\n' if kind == "tagging" else ""
        alone = path.with_name(f"{language}.toml")
        alone.write_text(table.replace("\nkind", f"\n{labels}kind", 1), encoding="utf-8")
        said, scores = scored_alone(found.folder / "best", alone, accelerator)
        assert found.scores(f"test-{language}") == pytest.approx(scores)
        assert finetuned.predictions(found, f"test-{language}") == said
    rows = read(tmp_path / "out" / "results.jsonl")
    korean = next(one for one in rows if one.axes["language"] == "ko")
    assert (korean.axes["task"], korean.split, korean.axes["train"]) == (name, "test", "en")


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def contents(folder):
    rows = rows_of(folder / "metrics.jsonl")
    for row in rows:
        row.pop("tokens_per_second", None)
    said = [path.read_text() for path in sorted(folder.glob("predictions-*.jsonl"))]
    scores = json.loads((folder / "scores.json").read_text())
    return rows, scores["splits"], scores["best"], said


@pytest.mark.slow
def test_a_killed_training_goes_on_to_the_result_of_a_straight_one(tagging, tmp_path, run):
    arguments = (tagging, "--train-language", "en", "de", "selection_languages=mean")
    assert run(tmp_path / "straight", *arguments).status == 0
    with terminated_at(5):
        assert run(tmp_path / "killed", *arguments).status == 128 + signal.SIGTERM
    name = Path("M") / "words-from-en+de" / "seed-0"
    assert not (tmp_path / "killed" / name / "scores.json").exists()
    assert run(tmp_path / "killed", *arguments).status == 0
    assert contents(tmp_path / "killed" / name) == contents(tmp_path / "straight" / name)


@pytest.mark.slow
def test_the_mean_over_languages_can_choose_other_weights_than_english(tmp_path, run):
    """German and Korean development sets have contrary tags: they fall as English rises."""
    path = made.write_tagging(tmp_path / "data", (48, 20, 4), flipped=("de", "ko"))
    same = ("--train-language", "en", "epochs=8", "learning_rate=0.003")
    assert run(tmp_path / "en", path, *same).status == 0
    assert run(tmp_path / "mean", path, *same, "selection_languages=mean").status == 0
    (english,), (mean,) = outcomes(tmp_path / "en"), outcomes(tmp_path / "mean")
    checks = {}
    for name, found in (("en", english), ("mean", mean)):
        rows = rows_of(found.folder / "metrics.jsonl")
        checks[name] = [row for row in rows if row["kind"] == "valid"]
    assert mean.languages.selection == ("en", "de", "ko")
    for row in checks["mean"]:
        parts = [row[f"dev-{language}/token_accuracy"] for language in made.LANGUAGES]
        assert row["token_accuracy"] == pytest.approx(sum(parts) / 3)
    best = {
        name: max(rows, key=lambda row: (row["token_accuracy"], -row["step"]))["step"]
        for name, rows in checks.items()
    }
    assert english.data["best"]["step"] == best["en"]
    assert mean.data["best"]["step"] == best["mean"]
    assert best["en"] > best["mean"]
    reached = [mean.scores(f"dev-{one}")["token_accuracy"] for one in made.LANGUAGES]
    assert mean.data["best"]["score"] == pytest.approx(sum(reached) / 3)
    assert (english.languages.select_on, mean.languages.select_on) == ("en", "mean")


def test_languages_together_are_one_shuffled_training_set(tagging, tmp_path, run):
    ended = run(tmp_path / "out", tagging, "--train-language", "all")
    assert ended.status == 0, ended.err
    (found,) = outcomes(tmp_path / "out")
    assert found.data["train_examples"] == 3 * 24
    assert found.languages.train == made.LANGUAGES
    assert found.languages.selection == made.LANGUAGES
    assert "gap: " not in ended.out  # nothing is left to transfer to
    recipe = decode_finetune(
        {"models": ["m"], "tasks": [str(tagging)], "train_languages": ["en", "de", "ko"]}
    )
    ((_, data),) = transfer.plan(recipe, Path())
    languages = [one.id.split("/")[0] for one in data.splits["train"]]
    assert [languages.count(one) for one in made.LANGUAGES] == [24, 24, 24]
    plan = BatchPlan(np.ones(72), Batch(size=12), 0, "finetune")
    _, indices = next(iter(plan.after(Position(0, 0))))
    assert {languages[place] for place in indices.tolist()} == set(made.LANGUAGES)


def test_every_direction_is_a_training_and_a_row_of_the_matrix(tagging, tmp_path, run, command):
    out = tmp_path / "out"
    ended = run(out, tagging, "directions=true", "epochs=1", seeds=2)
    assert ended.status == 0, ended.err
    found = outcomes(out)
    assert len(found) == 6
    assert {one.languages.train for one in found} == {("en",), ("de",), ("ko",)}
    assert "trained in" in ended.out
    assert "•" in ended.out

    compared = command("report", out)
    assert compared.status == 0, compared.err
    with (out / "comparison.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "token_accuracy"]
    means = {(row["train"], row["test_language"]): float(row["mean"]) for row in rows}
    assert len(means) == 3 * 5  # and the average, and the gap
    for one in found:
        of_train = [o for o in found if o.languages.train == one.languages.train]
        for split in one.evaluation:
            values = [o.scores(split)["token_accuracy"] for o in of_train]
            place = one.languages.train[0], split.partition("-")[2]
            assert means[place] == pytest.approx(sum(values) / 2)


def test_finished_trainings_are_kept_and_other_languages_are_done_anew_only_when_asked(
    tagging, tmp_path, run
):
    out = tmp_path / "out"
    narrow = ("--train-language", "en", "--test-language", "de")
    assert run(out, tagging, *narrow).status == 0
    again = run(out, tagging, *narrow)
    assert "1 done, 0 to do" in again.err
    wider = run(out, tagging, "--train-language", "en", "--test-language", "de", "ko")
    assert wider.status == 1
    assert "differ in: data, metrics_by_language, test_languages" in wider.err
    chosen = run(out, tagging, *narrow, "selection_languages=de")
    assert "selection_languages" in chosen.err
    resumed = ("--train-language", "en", "--test-language", "de", "ko", "--update")
    assert run(out, tagging, *resumed).status == 0
    (found,) = outcomes(out)
    assert found.languages.test == ("en", "de", "ko")


def test_a_recipe_has_the_same_keys(tagging, tiny_source, tmp_path, command):
    table = {
        "models": [str(tiny_source("xlm-roberta"))],
        "labels": ["M"],
        "tasks": [tagging.name],
        "train_languages": ["en"],
        "test_languages": ["ko"],
        "selection_languages": ["mean"],
        "seeds": 1,
    }
    text = "[finetune]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in table.items())
    path = tagging.with_name("recipe.toml")
    path.write_text(text, encoding="utf-8")
    ended = command("finetune", path, "--out", tmp_path / "out", "epochs=1")
    assert ended.status == 0, ended.err
    (found,) = outcomes(tmp_path / "out")
    assert found.splits == ("dev-en", "dev-ko", "test-en", "test-ko")


# -- data


def planned(*, data=None, tasks, **more):
    table = {"models": ["m"], "tasks": tasks, "train_languages": ["en"]} | more
    recipe = decode_finetune(table | ({"data": str(data)} if data else {}))
    return list(transfer.plan(recipe, Path()))


def test_a_cut_is_of_the_trained_language_and_never_of_a_reported_split(tagging):
    (tagging.parent / "train-en.jsonl").rename(tagging.parent / "aside")
    with pytest.raises(DataError, match="train-en"):
        planned(tasks=[str(tagging)])
    text = tagging.read_text().replace("metrics", 'labels = ["D", "N", "V"]\nmetrics')
    tagging.write_text(text)
    ((transferred, data),) = planned(tasks=[str(tagging)], cut={"train": 0.8, "dev": 0.2})
    sizes = {split: len(examples) for split, examples in data.splits.items()}
    assert sizes == {"train": 8, "dev-en": 2, "test-en": 8, "test-de": 8, "test-ko": 8}
    assert data.names["train"] == "cut of dev (80 %, seed 0)"
    assert data.names["test-ko"] == "test-ko"
    assert transferred.select_on == "en"
    (tagging.parent / "dev-en.jsonl").unlink()
    with pytest.raises(DataError, match="a split that is reported is never trained on"):
        planned(tasks=[str(tagging)], cut={"train": 0.8, "dev": 0.2})


def test_development_sets_cut_in_two_choose_and_are_reported(tagging):
    for path in tagging.parent.glob("test-*"):
        path.unlink()
    cut = {"dev": 0.5, "test": 0.5}
    ((_, data),) = planned(tasks=[str(tagging)], test_languages=["ko"], cut=cut)
    sizes = {split: len(examples) for split, examples in data.splits.items()}
    assert sizes == {"train": 24, "dev-en": 5, "test-en": 5, "test-ko": 5}
    assert data.evaluation == ("test-en", "test-ko")
    assert not {one.text for one in data.splits["dev-en"]} & {
        one.text for one in data.splits["test-en"]
    }
    assert data.names["test-ko"] == "cut of dev (50 %, seed 0)"
    assert data.names["train"] == "train"


def test_a_part_of_the_training_set_is_of_all_languages_together(tagging):
    ((_, data),) = planned(tasks=[str(tagging)], train_languages=["en", "de"], train_examples=10)
    languages = {one.id.split("/")[0] for one in data.splits["train"]}
    assert (len(data.splits["train"]), languages) == (10, {"en", "de"})


def test_languages_without_test_files_are_left_out_of_all_and_named(tagging, caplog):
    (tagging.parent / "test-ko.jsonl").unlink()
    with caplog.at_level("INFO", logger="lingraft"):
        ((transferred, _),) = planned(tasks=[str(tagging)], test_languages=["all"])
    assert transferred.test == ("en", "de")
    assert "words: no test files here of ko" in caplog.text
    with pytest.raises(DataError, match=r"test-ko\.jsonl"):
        planned(tasks=[str(tagging)], test_languages=["ko"])


def test_a_task_in_several_languages_asks_in_which_to_train(tagging):
    with pytest.raises(RecipeError, match=r"words.toml is in several languages.*--train-language"):
        tasks_of(decode_finetune({"models": ["m"], "tasks": [str(tagging)]}), Path())


def test_all_languages_are_learnt_that_have_a_training_file(tagging, monkeypatch):
    (tagging.parent / "train-ko.jsonl").unlink()
    ((transferred, _),) = planned(tasks=[str(tagging)], train_languages=["all"])
    assert (transferred.train, transferred.test) == (("en", "de"), ("en", "de", "ko"))
    assert transferred.tasks["ko"].labels == ("D", "N", "V")
    monkeypatch.setenv("HOME", str(tagging.parent))
    assert named("~/words.toml", tagging.parent, ("en",)).name == "words"


@pytest.mark.parametrize(
    ("names", "metrics"), [("BBI", ("entities", "tokens", "chunks")), ("IIB", ("chunks", "tokens"))]
)
def test_names_in_a_language_without_a_training_file_are_scored_as_in_the_others(
    tagging, names, metrics
):
    tagging.write_text(re.sub(r"\nmetrics = .*", "", tagging.read_text()))
    for path in tagging.parent.glob("*.jsonl"):
        tags = ["O", *(f"{name}-LOC" for name in names)]
        path.write_text(json.dumps({"words": list("abcd"), "tags": tags}) + "\n")
    (tagging.parent / "train-ko.jsonl").unlink()
    ((transferred, _),) = planned(tasks=[str(tagging)])
    assert {task.metrics for task in transferred.tasks.values()} == {metrics}


def test_benchmarks_of_several_languages_are_found_by_name(tmp_path):
    known = families()
    assert set(known["pawsx"].tasks) == {"de", "en", "es", "fr", "ja", "ko", "zh"}
    assert known["pawsx"].tasks["ko"] is TASKS["pawsx-ko"]
    with pytest.raises(RecipeError, match="pawsx-ko is pawsx in one language"):
        named("pawsx-ko", tmp_path, ("en",))
    with pytest.raises(RecipeError, match="klue-nli is in one language"):
        named("klue-nli", tmp_path, ("en",))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--train-language", "xx"), "words has no language 'xx'; it has en, de, ko"),
        (
            ("--train-language", "en", "--test-language", "de", "xx"),
            "none of the tasks (words) has the language 'xx'; they have en, de, ko",
        ),
        (("--train-language", "en", "en"), "train_languages has 'en' twice"),
        (("--train-language", "en", "all"), "'all' stands for several"),
        (("--test-language", "de"), "name them with train_languages (--train-language en)"),
        (
            ("--train-language", "en", "cut.train=0.8", "cut.dev=0.1", "cut.test=0.1"),
            "it has two shares: train and dev",
        ),
    ],
)
def test_what_a_user_gets_wrong_is_one_line(arguments, message, tagging, tmp_path, run):
    ended = run(tmp_path / "out", tagging, *arguments)
    assert ended.status == 1
    assert message in ended.err
    assert ended.err.count("\n") == 1


def test_rows_without_tags_in_a_test_file_are_one_line(tagging, tmp_path, run):
    path = tagging.parent / "test-ko.jsonl"
    path.write_text('{"words": ["개"]}\n', encoding="utf-8")
    ended = run(tmp_path / "out", tagging, "--train-language", "en")
    assert ended.status == 1
    assert "test-ko.jsonl" in ended.err
    assert ended.err.count("\n") == 1


def moods(folder, *splits):
    """An aligned task in English and German, 40 examples a split."""
    for split in splits:
        for language in ("en", "de"):
            lines = [f"{language} {split} {number},{number % 2}" for number in range(40)]
            (folder / f"{split}-{language}.csv").write_text(
                "\n".join(["text,label", *lines]) + "\n"
            )
    files = ", ".join(f'{split} = "{split}-{{lang}}.csv"' for split in splits)
    (folder / "mood.toml").write_text(
        'name = "mood"\nkind = "classification"\nlanguages = ["en", "de"]\naligned = true\n'
        f'labels = ["0", "1"]\nfiles = {{{files}}}\n'
    )
    return {"models": ["x"], "tasks": ["mood.toml"]}


@pytest.mark.parametrize("selection", [("en", "de"), ("en",), ("de",)])
def test_no_translation_of_what_is_trained_on_chooses(selection, tmp_path):
    asked = moods(tmp_path, "train", "test")
    asked |= {"train_languages": ["en", "de"], "selection_languages": list(selection)}
    ((_, data),) = transfer.plan(decode_finetune(asked), tmp_path)
    learnt = {one.id for one in data.splits["train"]}
    chosen = {one.id for language in selection for one in data.splits[f"dev-{language}"]}
    assert len(chosen) == 2
    assert len(learnt) == 76
    for number in chosen:
        assert not {f"en/{number}", f"de/{number}"} & learnt


def test_no_translation_of_what_chooses_is_reported(tmp_path):
    asked = moods(tmp_path, "train", "dev") | {"train_languages": ["de"]}
    asked |= {"cut": {"dev": 0.5, "test": 0.5}, "selection_languages": ["de"]}
    ((_, data),) = transfer.plan(decode_finetune(asked), tmp_path)
    ids = {name: {one.id for one in part} for name, part in data.splits.items()}
    assert ids["test-en"] == ids["test-de"]
    assert not ids["dev-de"] & ids["test-en"]
    assert len(ids["dev-de"]) == len(ids["test-en"]) == 20
