"""Options that several values may follow, and functions that take one or several."""

import pytest
from transformers import AutoTokenizer

import lingraft


@pytest.mark.parametrize("family", ["roberta", "xlm-roberta"])
def test_evaluate_reads_a_special_token_that_a_text_spells_as_text(
    family, tiny_source, tmp_path, monkeypatch
):
    """As in the evaluation of a run; else a token is hidden that nobody hid."""
    source, rows = tiny_source(family), []
    monkeypatch.setattr(
        "lingraft.pipeline.evaluating.evaluate_sentences",
        lambda _, tokenizer, sentences, **options: (
            rows.extend(sentences) or {"masks": 0, "metrics": 0}
        ),
    )
    text = tmp_path / "en.txt"
    text.write_text("A dog <mask> sleeps in the </s> sun, it is said.\n")
    lingraft.evaluate(source, text, max_words=0)
    tokenizer = AutoTokenizer.from_pretrained(source)
    (row,) = map(list, rows)
    assert tokenizer.mask_token_id not in row
    assert row.index(tokenizer.eos_token_id) == len(row) - 1
    assert (tokenizer.unk_token_id in row) == (family == "xlm-roberta")
