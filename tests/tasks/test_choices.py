import json

import numpy as np
import pytest

from lingraft.errors import DataError, RecipeError
from lingraft.stats import Resampling
from lingraft.tasks import choice_metrics
from lingraft.tasks.choices import Question, read, shapes

COPA = {
    "premise": "The man broke his toe.",
    "question": "cause",
    "choice1": "He got a hole in his sock.",
    "choice2": "He dropped a hammer on his foot.",
    "label": 1,
}
RECORDS = {
    "copa": COPA,
    "hellaswag": {
        "activity_label": "Roof",
        "ctx_a": "A man is sitting on a roof.",
        "ctx_b": "he [substeps] is  pulling",
        "endings": ["up tiles [title] Slowly", "a rope."],
        "label": "0",
    },
    "kobest-copa": {
        "premise": "비가 왔다.",
        "question": "결과",
        "alternative_1": "우산을 썼다.",
        "alternative_2": "해가 났다.",
        "label": 0,
    },
    "kobest-hellaswag": {
        "context": "불을 켠다.",
        **{f"ending_{n}": f"끝 {n}" for n in (1, 2, 3, 4)},
        "label": 3,
    },
    "kobest-boolq": {"paragraph": "물은 젖는다.", "question": "물은 젖는가?", "label": 1},
    "kobest-wic": {"word": "배", "context_1": "배를 먹다", "context_2": "배를 타다", "label": 0},
    "kobest-sentineg": {"sentence": "나쁘지 않다", "label": 1},
    "choices": {"context": "One and one is", "choices": ["two", "three"], "label": 0},
}
READ = {  # what lm-evaluation-harness 0.4.13 makes of these records
    "copa": (
        "The man broke his toe because",
        (" he got a hole in his sock.", " he dropped a hammer on his foot."),
    ),
    "hellaswag": (
        "Roof: A man is sitting on a roof. He is pulling",
        ("up tiles. Slowly", "a rope."),
    ),
    "kobest-copa": ("비가 왔다.  그래서", ("우산을 썼다.", "해가 났다.")),
    "kobest-hellaswag": ("문장: 불을 켠다.", ("끝 1", "끝 2", "끝 3", "끝 4")),
    "kobest-boolq": ("물은 젖는다. 질문: 물은 젖는가? 답변: ", ("아니오", "예")),
    "kobest-wic": (
        "문장1: 배를 먹다 문장2: 배를 타다 두 문장에서 배가 같은 뜻으로 쓰였나?",
        ("아니오", "예"),
    ),
    "kobest-sentineg": ("문장: 나쁘지 않다 긍부정:", ("부정", "긍정")),
    "choices": ("One and one is", ("two", "three")),
}


@pytest.fixture
def written(tmp_path):
    def write(*records, name="questions.jsonl"):
        path = tmp_path / name
        lines = [json.dumps(record, ensure_ascii=False) for record in records]
        path.write_text("\n".join(lines), encoding="utf-8")
        return path

    return write


def test_every_shape_is_tried_here():
    assert set(shapes()) == set(RECORDS) == set(READ)


@pytest.mark.parametrize("shape", RECORDS)
def test_a_shape_makes_the_texts_of_the_harness(shape, written):
    (question,) = read(written(RECORDS[shape]), shape)
    assert (question.context, question.choices) == READ[shape]
    assert question.label == int(RECORDS[shape]["label"])


def test_a_file_without_a_named_shape_is_told_which_fits(written):
    with pytest.raises(DataError, match=r"line 1: has no column 'choices' and 'context'.*copa$"):
        read(written(COPA))


def test_a_file_that_fits_no_shape_is_told_its_columns(written):
    with pytest.raises(DataError, match="it has 'text'; name another shape"):
        read(written({"text": "x"}), "copa")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"label": 2}, "its label is '2'; it must be 0 to 1"),
        ({"label": "first"}, "its label is 'first'"),
        ({"choices": ["two"]}, "has 1 choices"),
        ({"choices": ["two", ""]}, "has an empty choice"),
        ({"choices": "two"}, "column 'choices' is 'two'; it must be a list"),
    ],
)
def test_a_record_that_is_no_question_is_named(changes, problem, written):
    with pytest.raises(DataError, match=rf"line 2: {problem}"):
        read(written(RECORDS["choices"], RECORDS["choices"] | changes))


def test_a_shape_of_ones_own_maps_other_columns(written, tmp_path):
    own = tmp_path / "quiz.toml"
    own.write_text(
        'name = "quiz"\ncontext = "Q: {{ frage }} A:"\nchoices = ["{{ a }}", "{{ b }}"]\n'
        'label = "{{ richtig }}"\nlabel_is = "text"\ndelimiter = ""\n'
    )
    record = {"frage": "1 + 1?", "a": "two", "b": "three", "richtig": "three"}
    (question,) = read(written(record), str(own))
    assert (question.context, question.label, question.delimiter) == ("Q: 1 + 1? A:", 1, "")
    with pytest.raises(DataError, match="its label 'vier' is none of its choices"):
        read(written(record | {"richtig": "vier"}), str(own))


def test_a_broken_template_and_an_unknown_shape_are_one_line(written, tmp_path):
    own = tmp_path / "broken.toml"
    own.write_text('name = "x"\ncontext = "{{ a"\nchoices = "c"\nlabel = "0"\n')
    path = written(RECORDS["choices"])
    with pytest.raises(RecipeError, match="is no template"):
        read(path, str(own))
    with pytest.raises(RecipeError, match="shape 'kopa': there are choices, copa"):
        read(path, "kopa")


@pytest.mark.parametrize(
    "label",
    [
        "{{ ['A', 'B'].index(answer) }}",
        "{{ 1 / 0 }}",
        "{{ answer | regex_replace('[', '') }}",
    ],
)
def test_a_template_that_a_record_does_not_fit_is_one_line(label, written, tmp_path):
    own = tmp_path / "letters.toml"
    own.write_text(f'name = "x"\ncontext = "c"\nchoices = "choices"\nlabel = "{label}"\n')
    with pytest.raises(DataError, match="cannot be filled"):
        read(written(RECORDS["choices"] | {"answer": "a"}), str(own))


def test_null_is_no_text(written):
    with pytest.raises(DataError, match="its column 'context' is null"):
        read(written(RECORDS["choices"] | {"context": None}))


def test_templates_cannot_run_code(written, tmp_path):
    own = tmp_path / "code.toml"
    own.write_text(
        'name = "x"\ncontext = "{{ \'\'.__class__.__mro__[1].__subclasses__() }}"\n'
        'choices = "choices"\nlabel = "0"\n'
    )
    with pytest.raises(DataError, match="cannot be filled"):
        read(written(RECORDS["choices"]), str(own))


def test_only_the_first_questions_are_read_where_that_is_asked(written):
    path = written(*[RECORDS["choices"] | {"id": f"q{n}"} for n in range(5)])
    assert [question.id for question in read(path, limit=2)] == ["q0", "q1"]


def answered(label, nats, choices=("a", "bb", "한국"), context="c"):
    question = Question("q", context, choices, label, " ", "here")
    return choice_metrics.Answered.of(question, nats, [1, 3, 2])


def test_what_a_likelihood_is_divided_by_decides_which_choice_is_taken():
    one = answered(0, [-2.0, -2.8, -3.5])
    sizes = {
        "acc": (1, 1, 1),
        "acc_norm": (1, 2, 2),
        "acc_bytes": (1, 2, 6),
        "acc_tokens": (1, 3, 2),
    }
    for metric, divisors in sizes.items():
        shares = [nats / size for nats, size in zip(one.nats_C, divisors, strict=True)]
        assert one.chosen(metric) == shares.index(max(shares))
    assert [one.chosen(metric) for metric in choice_metrics.METRICS] == [0, 1, 2, 1]


def test_accuracy_has_the_standard_error_of_its_mean_and_the_chance_of_guessing():
    answers = [answered(0, [-1, -2, -3]), answered(1, [-1, -2, -3]), answered(0, [-1, -2, -3])]
    answers.append(choice_metrics.Answered("q", "c", 0, (-1.0, -2.0), (1, 1), (1, 1), (1, 1)))
    found = choice_metrics.metrics(answers)
    right = np.array([1, 0, 1, 1])
    assert found["acc"] == 75
    assert found["acc_stderr"] == pytest.approx(100 * right.std(ddof=1) / 2)
    assert found["chance"] == pytest.approx(100 * (1 / 3 * 3 + 1 / 2) / 4)
    assert found["n"] == 4


def test_two_models_are_compared_by_drawing_contexts_again():
    generator = np.random.default_rng(0)
    ours, theirs = [], []
    for number in range(60):
        context = f"c{number // 3}"
        ours.append(answered(0, [-1.0, -2.0, -3.0], context=context))
        better = bool(generator.integers(2))
        theirs.append(answered(0, [-1.0 if better else -9.0, -2.0, -3.0], context=context))
    resampling = Resampling(500)
    found = choice_metrics.difference(ours, theirs, "acc", resampling)
    gains = choice_metrics.right(ours, "acc") - choice_metrics.right(theirs, "acc")
    assert found.value == pytest.approx(100 * gains.mean())
    assert 0 < found.low < found.value < found.high
    assert found.p < 0.05
    draws = next(resampling.parts(20, "contexts"))
    means = (draws @ gains.reshape(20, 3).sum(1)) / (draws.sum(1) * 3)
    assert found.low == pytest.approx(100 * np.quantile(means, 0.025))
    nothing = choice_metrics.difference(ours, ours, "acc", resampling)
    assert (nothing.value, nothing.low, nothing.high, nothing.p) == (0, 0, 0, 1)


def test_answers_are_kept_as_they_are(tmp_path):
    answers = [answered(1, [-1.25, -2.5, -1e-3])]
    choice_metrics.write(tmp_path / "a.jsonl", answers)
    assert choice_metrics.read(tmp_path / "a.jsonl") == answers
    with pytest.raises(DataError, match="is missing; run the evaluation stage again"):
        choice_metrics.read(tmp_path / "b.jsonl")
    (tmp_path / "c.jsonl").write_text('{"id": 3}\n')
    with pytest.raises(DataError, match="is broken"):
        choice_metrics.read(tmp_path / "c.jsonl")


def test_questions_have_a_fingerprint_of_all_that_is_asked(written):
    plain = RECORDS["choices"]
    prints = {
        choice_metrics.asked(read(written(plain | changes)))
        for changes in ({}, {"context": "x"}, {"label": 1}, {"choices": ["two", "four"]}, {"id": 7})
    }
    assert len(prints) == 4


def test_questions_without_a_context_are_drawn_one_by_one_and_few_contexts_not_at_all():
    def of(number, context):
        question = Question(f"q{number}", context, ("a", "b"), 0, " ", "here")
        return choice_metrics.Answered.of(question, (-1.0, -2.0), (1, 1))

    free = [of(number, "") for number in range(30)]
    assert len({one.context for one in free}) == 30
    found = choice_metrics.difference(free, free, "acc")
    assert (found.low, found.high, found.p) == (0, 0, 1)
    few = [of(number, f"c{number % 4}") for number in range(30)]
    found = choice_metrics.difference(few, few, "acc")
    assert (found.value, found.low, found.high, found.p) == (0, None, None, None)
