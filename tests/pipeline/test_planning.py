"""What evaluation costs, by counts of a vocabulary and text that are written down here."""

import pytest

from lingraft.pipeline import planning
from lingraft.pipeline.planning import Text
from lingraft.recipe import Evaluation
from lingraft.recipe.methods import recipe_from


def counted(sentences, tokens, characters_per_token=2.0, source=0.5):
    """What the tokenizer stage says of a text."""
    counts = {"sentences": sentences, "tokens": tokens}
    statistics = {"characters_per_token": characters_per_token, "tokens_per_word": 1.5}
    return {
        "tokens": {"valid": counts, "test": counts},
        "statistics": {"train": statistics, "test": statistics},
        "source_statistics": {"test": {"characters_per_token": source}},
    }


def test_a_causal_model_and_its_source_read_the_same_characters_once():
    text = Text.of(counted(40, 8_000), causal=True)
    assert text.scored(Evaluation()) == 8_000 + 16_000 / 0.5
    assert text.scored(Evaluation(untouched=False)) == 8_000
    assert text.scored(Evaluation(sentences=80)) == 4_000 + 8_000 / 0.5
    assert text.most_scored == 160
    two = Text.of({"streams": {"a": counted(40, 8_000), "b": counted(10, 100)}}, causal=True)
    assert two.scored(Evaluation()) == 5 * 8_000 + 5 * 100


def test_kept_texts_are_read_by_both():
    text = Text.of(counted(40, 8_000), causal=True)
    more = Evaluation(kept=("kept.txt",), sentences=300)
    assert text.scored(more) - text.scored(Evaluation()) == 2 * 30_000 / 3


def test_an_encoder_reads_sentences_twice_and_words_token_by_token():
    text = Text.of(counted(40, 800), causal=False)
    assert text.scored(Evaluation()) == 2 * 800 + 40 * 1.5 * planning.CONTEXT * 20
    assert text.scored(Evaluation(sentences=10, words=0)) == 2 * 200
    assert text.most_scored == 40


def test_every_stream_is_looked_at_and_scored_in_a_plan():
    section = Evaluation(sentences=300, words=100)
    counts = {"sentences": 1_000, "tokens": 20_000}
    one = {
        "tokens": {"valid": counts, "test": counts},
        "statistics": {"train": {"tokens_per_word": 1.5}},
    }
    alone = Text.of(one, causal=False)
    assert alone.looked_at(100) == 100 * 20
    assert alone.scored(section) == 20 * (2 * 300 + 100 * 1.5 * planning.CONTEXT)
    three = Text.of(one | {"streams": dict.fromkeys(("de", "fr", "ko"), one)}, causal=False)
    assert three.looked_at(100) == 3 * alone.looked_at(100)
    assert three.scored(section) == 3 * alone.scored(section)


def test_a_causal_look_needs_fewer_sentences_since_documents_are_long():
    assert Text.of(counted(400, 8_000), causal=False).fewest_looked_at == 100
    assert Text.of(counted(400, 8_000), causal=True).fewest_looked_at == 100
    assert Text.of(counted(40, 4_000), causal=True).fewest_looked_at == 20
    assert Text.of(counted(40, 40_000), causal=True).fewest_looked_at == 10


def test_what_is_written_takes_time_by_layers_and_weights():
    text = Text.of(counted(40, 800), causal=True)
    section = Evaluation(samples=8)
    assert text.writing(section, 0, 0, "cpu") == pytest.approx(2 * 64 * 2 * planning.A_TOKEN)
    assert text.writing(section, 4, 0, "cpu") > text.writing(section, 0, 0, "cpu")
    assert text.writing(section, 4, 10**9, "cpu") > 10 * text.writing(section, 4, 10**9, "cuda")
    assert text.writing(Evaluation(samples=0), 4, 10**9, "cpu") == 0
    assert Text.of(counted(40, 800), causal=False).writing(section, 4, 10**9, "cpu") == 0


def test_fewer_of_the_sentences_that_there_are():
    """What is asked for beyond the text does not hide what the text costs."""
    recipe = recipe_from(
        {
            "name": "run",
            "language": "ko",
            "source": {"model": "source"},
            "corpus": {"text": ["text.txt"]},
            "method": {"name": "xpt-sp", "budget": {"value": 1, "unit": "minutes"}},
        }
    )
    text = Text.of(counted(1_500, 45_000), causal=False)
    smaller = planning._smaller(recipe, text, 60.0, 1_000.0, 1)
    cost = planning.LOOKS * text.looked_at(1_500) / planning.FORWARD / 1_000
    share = planning.LOOKING * 60 / cost
    assert smaller.phases[0].validation.sentences == max(100, int(share * 1_500))
    scored = text.scored(Evaluation()) / planning.FORWARD / 1_000
    share = planning.EVALUATING * 60 / scored
    assert smaller.evaluation.sentences == max(300, int(share * 1_500))
    assert smaller.evaluation.words == max(100, int(share * 1_500))
