"""Every task reads its official format; gold scores 100; XTREME's records and averages."""

import json
import random
import re
import subprocess
import sys
from pathlib import Path
from statistics import fmean

import pytest
from official_files import HERE
from right_answers import gold

from lingraft.errors import DataError
from lingraft.tasks import (
    GROUPS,
    RETRIEVAL_GROUPS,
    RETRIEVALS,
    TASKS,
    find,
    load,
    sentences,
    xtreme,
)
from lingraft.tasks.examples import Example, labelled
from lingraft.tasks.span_metrics import MLQA_LANGUAGES, normalise_mlqa
from lingraft.tasks.splits import read_split
from lingraft.tasks.words import RANKS, fused

OFFICIAL = Path(__file__).parent / "official"
PARTS = [bytes([one]) for one in b'\t\n"{],[:\xff\0\r'] + [b"", b"9" * 5_000, b"[" * 3_000]
PARTS += [b"null", b"-1", b"NaN", b'"\\ud83d"', b"true", b"1-2", b"1.1", b"##", b"\xef\xbb\xbf"]
UNLIKE = {"auprc_skipped_labels", "reference/auprc"}


@pytest.mark.parametrize("name", HERE)
def test_the_official_format_gives_five_examples_a_split_and_their_gold_scores_100(
    name: str,
) -> None:
    task = TASKS[name]
    for split, files in find(task, OFFICIAL, [*task.splits][:2]).items():
        examples = read_split(task, split, files)
        assert len(examples) == 5 * len(files)
        assert all(map(labelled, examples)) is task.splits[split].labelled
        if split not in task.evaluation:
            continue
        scores = task.score(examples, [gold(example, task.labels) for example in examples])
        assert {key for key in scores if scores[key] != pytest.approx(100)} <= UNLIKE
        assert {task.selection, *task.shown} <= set(scores)


def test_every_task_is_fully_described() -> None:
    assert len(TASKS) == 28 + 15 + 33 + 40 + 11 + 7 + 9
    for name, task in TASKS.items():
        assert task.name == name
        assert all((task.title, task.table.citation)), name
        for text in (task.table.version, task.table.licence, task.files_from, task.settings.source):
            assert not re.search("user's own|recipe names|the recipe|[{}]", text), name
        assert set(task.evaluation) <= set(task.labelled_splits)
        if task.table.hub is None:
            # no copy on the Hub is known to have the fused words, or all rows
            assert name.startswith("udpos-") or name in ("korsts", "kornli")
        else:
            assert {*task.table.hub.splits, *task.table.hub.elsewhere} <= set(task.splits)
            needed = {"train", *task.evaluation} & set(task.splits)
            assert all(task.table.hub.of(split) is not None for split in needed)
        assert (task.kind == "regression") == (not task.labels and task.kind != "span")


def test_a_character_number_sign_is_not_a_comment_in_ner() -> None:
    examples = load(TASKS["klue-ner"], OFFICIAL).splits["dev"]
    assert examples[3].text == "C# 책을 샀다."
    assert examples[3].id == "klue-ner-v1_dev_00003-made"


def test_no_task_loads_torch() -> None:
    code = "import json, sys, lingraft.tasks.held_out;"
    code += "print([one for one in ('torch', 'transformers', 'datasets') if one in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


KINDS = {name: task for name, task in TASKS.items() if name in HERE}


def test_a_mutated_file_is_read_or_refused_in_one_line(tmp_path: Path) -> None:
    rng = random.Random(11)
    files = [
        (task, path, path.read_bytes())
        for task in KINDS.values()
        for paths in find(task, OFFICIAL).values()
        for path in paths
    ]
    said = []
    for _ in range(2_000):
        task, path, data = rng.choice(files)
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 3, 20))):
            at = rng.randrange(len(changed) + 1)
            changed[at : at + rng.choice((0, 1, 1, 40))] = rng.choice(PARTS)
        copy = tmp_path / path.name
        copy.write_bytes(bytes(changed))
        try:
            task.read(copy, hidden=rng.random() < 0.5)
        except DataError as error:
            said.append(str(error))
    assert len(said) > 1_000


def test_rows_keep_quotation_marks_and_ragged_ones_are_left_out_where_a_task_says_so(
    tmp_path: Path,
) -> None:
    assert load(TASKS["korsts"], OFFICIAL).splits["train"][0].text == '남자가 "기타를 친다.'
    path = tmp_path / "train.tsv"
    whole = (OFFICIAL / "glue_data/QQP/train.tsv").read_text(encoding="utf-8")
    path.write_text(whole + "9\t18\t19\tcut in the\n", encoding="utf-8")
    assert len(TASKS["glue-qqp"].read(path)) == 5
    with pytest.raises(DataError, match="line 7: rows with another number of columns"):
        TASKS["glue-mrpc"].read(path)


@pytest.mark.parametrize(
    ("name", "file", "change", "says"),
    [
        ("klue-nli", "klue-nli-v1.1_dev.json", ('"gold_label": "neutral"', '"gold_label": "x"'),
         "element 3: unknown label 'x'; allowed: entailment, contradiction, neutral"),
        ("klue-sts", "klue-sts-v1.1_dev.json", ("4.857142857142857", "48.5"),
         "element 1: score '48.5' is not a number from 0 to 5"),
        ("klue-re", "klue-re-v1.1_dev.json", ('"start_idx": 0', '"start_idx": 40'),
         "element 1: subject_entity 40–2 is not in the sentence"),
        ("klue-dp", "klue-dp-v1.1_dev.tsv", ("NNG+JKS\t2", "NNG+JKS\t1"),
         "head '1' of word 1 is not another word"),
        ("klue-mrc", "klue-mrc-v1.1_dev.json", ('"answer_start": 8', '"answer_start": 9'),
         "data 1, paragraph 1, question 1: answer '2015년' is not at 9"),
    ],
)  # fmt: skip
def test_what_would_give_a_wrong_number_is_one_line_with_the_place(
    name: str, file: str, change: tuple[str, str], says: str, tmp_path: Path
) -> None:
    text = next(OFFICIAL.rglob(file)).read_text(encoding="utf-8")
    path = tmp_path / file
    path.write_text(text.replace(*change, 1), encoding="utf-8")
    with pytest.raises(DataError, match=re.escape(says)) as caught:
        TASKS[name].read(path)
    assert str(caught.value).startswith(f"{path}: ")


DATA = Path(__file__).parents[2] / "data"
REAL = {
    "klue-sts": ("dev", 519),
    "klue-ner": ("dev", 5000),
    "klue-dp": ("dev", 2000),
    "pawsx-ko": ("test", 1972),
    "xnli-de": ("test", 5010),
    "udpos-ko": ("test", 989 + 2287 + 1343 + 1000),
    "panx-ko": ("dev", 10000),
    "xquad-th": ("test", 1190),
    "mlqa-zh": ("dev", 504),
    "tydiqa-ko": ("train", 1625),
    "korsts": ("test", 1379),
    "khs": ("dev", 471),
    "nsmc": ("test", 50000),
    "glue-stsb": ("dev", 1500),
}
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="the real corpora (data/) are not in this checkout"
)


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize("name", REAL)
def test_gold_scores_100_on_the_real_file(name: str) -> None:
    task = TASKS[name]
    split, count = REAL[name]
    try:
        files = find(task, DATA, [split])[split]
    except DataError as error:
        pytest.skip(f"not in this checkout: {error}")
    examples = read_split(task, split, files)
    assert len(examples) == count
    assert all(map(labelled, examples))
    scores = task.score(examples, [gold(example, task.labels) for example in examples])
    assert {key: value for key, value in scores.items() if value != pytest.approx(100)} == {}


@needs_data
def test_all_of_tatoeba_has_as_many_pairs_as_laser() -> None:
    found = {}
    for name in RETRIEVAL_GROUPS["tatoeba"].languages:
        try:
            found[name] = sentences.read(RETRIEVALS[f"tatoeba-{name}"], DATA)
        except DataError as error:
            pytest.skip(f"not in this checkout: {error}")
    short = {"jv": 205, "ml": 687, "ta": 307, "te": 234, "ka": 746, "th": 548, "sw": 390, "kk": 575}
    assert {name: len(one.source) for name, one in found.items()} == {
        name: short.get(name, 1000) for name in found
    }
    assert found["ko"].target["0"] != found["ko"].source["0"]


ALL = GROUPS | RETRIEVAL_GROUPS


def test_each_of_the_nine_has_its_number_of_languages() -> None:
    numbers = {name: len(set(ALL[name].languages)) for name in xtreme.NINE}
    assert numbers == {
        "xnli": 15, "pawsx": 7, "udpos": 33, "panx": 40, "xquad": 11, "mlqa": 7, "tydiqa": 9,
        "bucc2018": 4, "tatoeba": 36,
    }  # fmt: skip
    assert set(ALL) == set(xtreme.NINE)


@pytest.mark.parametrize("name", GROUPS)
def test_the_records_of_a_group_differ_in_files_alone(name: str) -> None:
    group = GROUPS[name]
    records = [TASKS[group.member(language)] for language in group.languages]
    assert len({(record.kind, record.labels, record.selection) for record in records}) == 1
    assert [record.languages for record in records] == [(one,) for one in group.languages]
    assert "train" in TASKS[group.member(group.train_language)].splits
    for record in records:
        assert {"xtreme2020", "xtune2021", "metaxlm2021"} <= set(record.alternatives)


def test_a_language_without_a_training_set_says_so() -> None:
    for name in ("xquad-de", "mlqa-de"):
        with pytest.raises(DataError, match=f"{name}: has no train set"):
            load(TASKS[name], OFFICIAL)
    assert load(TASKS["xquad-en"], OFFICIAL).names["train"] == "train"


def test_answers_are_compared_by_the_rules_of_their_language() -> None:
    for answer, language, expected in (
        ("The  «big» dog!", "en", "big dog"),
        ("El perro y la casa", "es", "perro y casa"),
        ("Das Haus, dem", "de", "haus"),
        ("Những cái bàn", "vi", "bàn"),
        ("الكتاب", "ar", "كتاب"),
        ("एक घर।", "hi", "एक घर"),
        ("在2008年，北京 IOC", "zh", "在 2008 年 北 京 ioc"),
    ):
        assert normalise_mlqa(answer, language) == expected
    assert MLQA_LANGUAGES == ("en", "es", "vi", "de", "ar", "hi", "zh")


def test_the_average_of_xlm_r_large_is_the_published_one() -> None:
    # VECO (Luo et al. 2021), table 2: XLM-R under cross-lingual transfer, average 68.1
    scores = {
        "xnli": {"accuracy": 79.2}, "pawsx": {"accuracy": 86.4}, "udpos": {"chunk_f1": 72.6},
        "panx": {"chunk_f1": 65.4}, "xquad": {"f1": 76.6, "exact_match": 60.8},
        "mlqa": {"f1": 71.6, "exact_match": 53.2}, "tydiqa": {"f1": 65.1, "exact_match": 45.0},
        "bucc2018": {"f1": 66.0}, "tatoeba": {"accuracy": 57.3},
    }  # fmt: skip
    by_task = {task: fmean(one.values()) for task, one in scores.items()}
    assert round(xtreme.average(by_task) or 0, 1) == 68.1
    averages = {"classification": 82.8, "tagging": 69, "qa": 186.15 / 3, "retrieval": 61.65}
    assert xtreme.category_averages(by_task) == pytest.approx(averages)


def official(name: str, split: str) -> list[Example]:
    return read_split(TASKS[name], split, find(TASKS[name], OFFICIAL, [split])[split])


def test_a_file_of_all_languages_gives_those_of_the_task() -> None:
    german, english = (official(f"xnli-{language}", "test") for language in ("de", "en"))
    assert german[2].text == 'Sie kaufte "drei Äpfel.'
    assert english[2].text == 'She bought "three apples.'
    assert [one.id for one in german] == ["1", "2", "3", "4", "5"]
    train = official("xnli-de", "train")
    assert [one.label for one in train][1] == "contradiction"
    questions = [one.id for one in official("tydiqa-ko", "train")]
    assert questions == [f"korean-{end}" for end in ("0-0", "0-1", "0-2", "1-0", "1-1")]


def test_multi_word_tokens_stand_as_they_are_written() -> None:
    first, _, third, _, last = official("udpos-fr", "dev")
    # `de` and `le` are equally near to the root (both hang on `chat`): ADP is before DET
    tags = ("PRON", "VERB", "ADP", "NOUN", "PUNCT")
    assert (first.units, first.tags) == (("Il", "parle", "du", "chat", "."), tags)
    assert third.units == ("Aux", "armes", "!")  # without the empty node 3.1
    assert third.tags == ("ADP", "NOUN", "PUNCT")
    assert last.units == ("10000", "pas")


def node(upos: str, head: int, more: str = "_") -> list[str]:
    return ["", upos.lower(), "", upos, "", "", str(head), "", more, ""]


def test_the_node_nearest_to_the_root_heads_a_span() -> None:
    nodes = {1: node("DET", 2), 2: node("VERB", 0), 3: node("PRON", 2)}
    assert fused(nodes, [(range(1, 4), "x")], RANKS[""].split()) == [("x", "VERB")]
    # an enhanced head adds a node above: DET, with 3 and 0, is now deeper than PRON
    tied = {1: node("DET", 4), 2: node("PRON", 4), 4: node("NOUN", 0)}
    span, ranks = [(range(1, 3), "x")], ["DET", "PRON"]
    assert fused(tied, span, ranks)[0][1] == "DET"
    deeper = tied | {1: node("DET", 4, "2:x")}
    assert fused(deeper, span, ranks)[0][1] == "PRON"


@pytest.mark.parametrize("line", ["1 a NOUN", "1-2 du _ _ _ _ _ _ _ _", "x a _ DET _ _ 0 r _ _"])
def test_a_broken_treebank_is_one_line_with_the_place(line: str, tmp_path: Path) -> None:
    path = tmp_path / "de_made-ud-dev.conllu"
    path.write_text(line.replace(" ", "\t") + "\n\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"de_made-ud-dev\.conllu: "):
        TASKS["udpos-de"].read(path)


def test_the_language_goes_from_the_words_of_a_file_in_which_all_have_it(tmp_path: Path) -> None:
    sentence = official("panx-de", "test")[1]
    assert sentence.units == ("Rhein", ":", "Fluss")
    path = tmp_path / "dev-de.tsv"
    path.write_text("de:x\tO\nRhein\tB-LOC\n", encoding="utf-8")
    (only,) = TASKS["panx-de"].read(path)
    assert only.units == ("de:x", "Rhein")


@pytest.mark.parametrize(
    ("name", "file", "text"),
    [
        ("xnli-de", "test-de.tsv", "Es regnet.\tEs ist nass.\n"),
        ("pawsx-de", "test-de.tsv", "Es regnet.\tEs ist nass.\n"),
        ("udpos-de", "test-de.tsv", "Es\nregnet\n\nJa\n"),
        ("panx-de", "test-de.tsv", "Rhein\n\nKöln\n"),
        ("xquad-de", "de.jsonl", '{"id": "1", "question": "Was?", "context": "Eisen rostet.", '
         '"answers": [{"text": "", "answer_start": 0}]}'),
    ],
)  # fmt: skip
def test_a_copy_of_xtremes_folder_hides_its_labels(
    name: str, file: str, text: str, tmp_path: Path
) -> None:
    task = TASKS[name]
    (tmp_path / file).write_text(text, encoding="utf-8")
    files = find(task, tmp_path, ["test"])["test"]
    with pytest.raises(DataError, match="has no answer; files with answers are from http"):
        read_split(task, "test", files)
    assert not any(map(labelled, read_split(task, "test", files, unanswered=True)))


def test_ids_that_xtreme_shortened_are_made_distinct(tmp_path: Path) -> None:
    values = {"id": "1", "question": "Was?", "context": "Ja"}
    row = json.dumps(values | {"answers": [{"text": "Ja", "answer_start": 0}]})
    path = tmp_path / "train-de.jsonl"
    path.write_text(f"{row}\n{row}\n", encoding="utf-8")
    assert [one.id for one in TASKS["tydiqa-ko"].read(path)] == ["1", "1#1"]


def test_mined_pairs_by_hand() -> None:
    gold = [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]
    said = [("a", "1"), ("a", "1"), ("b", "3"), ("c", "3")]  # two of three are right
    scores = sentences.pair_f1(gold, said)
    assert scores == pytest.approx({"precision": 200 / 3, "recall": 50, "f1": 400 / 7})
    assert sentences.pair_f1(gold, []) == {"f1": 0, "precision": 0, "recall": 0}


def test_tatoeba_is_aligned_by_line_or_a_table_with_english_first(tmp_path: Path) -> None:
    found = sentences.read(RETRIEVALS["tatoeba-de"], OFFICIAL)
    assert (found.source["1"], found.target["1"]) == ("Die Katze schläft.", "The cat is asleep.")
    assert found.gold == {(str(n), str(n)) for n in range(5)}
    (tmp_path / "eng-kor.tsv").write_text("Yes.\t네.\nNo.\t아니요.\n", encoding="utf-8")
    found = sentences.read(RETRIEVALS["tatoeba-ko"], tmp_path)
    assert (found.source["0"], found.target["0"]) == ("네.", "Yes.")


def test_bucc_has_ids_and_gold_pairs() -> None:
    found = sentences.read(RETRIEVALS["bucc2018-de"], OFFICIAL, "dev")
    assert found.source["de-000000003"] == "Es regnet."
    assert found.gold == {("de-000000001", "en-000000002"), ("de-000000003", "en-000000001")}
    assert set(RETRIEVALS["bucc2018-de"].files) == {"dev", "test"}


@pytest.mark.parametrize(
    ("record", "files", "says"),
    [
        ("tatoeba-de", {}, "files of tatoeba-de are missing (test: eng-deu.tsv, "),
        ("tatoeba-de", {"tatoeba.deu-eng.deu": "Ja.\n", "tatoeba.deu-eng.eng": ""},
         "tatoeba.deu-eng.eng has 0; line n of one must translate line n of the other"),
        ("bucc2018-de", {"de-en.test.de": "1\tJa\n1\tJa\n", "de-en.test.en": "2\tYes\n"},
         "line 2: the id '1' stands there twice"),
        ("bucc2018-de", {"de-en.test.de": "1\tJa\n", "de-en.test.en": "2\tYes\n",
                         "de-en.test.gold": "1\t3\n"},
         "line 1: no sentences have the ids '1' and '3'"),
    ],
)  # fmt: skip
def test_broken_files_of_retrieval_are_one_line(
    record: str, files: dict[str, str], says: str, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=re.escape(says)):
        sentences.read(RETRIEVALS[record], tmp_path)
