"""Gold through readers, alignment and metrics, on our fixtures and on the real files if present."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from right_answers import gold
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from lingraft.errors import DataError
from lingraft.finetuning.coders.tagging import character_tags, labelled_tokens, token_labels
from lingraft.tasks import RETRIEVAL_GROUPS, RETRIEVALS, TASKS, find, retrieval
from lingraft.tasks.examples import TaggedExample, TagPrediction, labelled
from lingraft.tasks.splits import read_split

if TYPE_CHECKING:
    from collections.abc import Callable

    from transformers import PreTrainedTokenizerBase

OFFICIAL = Path(__file__).parent / "official"
DATA = Path(__file__).parents[2] / "data"
HERE = {
    "klue-sts": ("dev", 519),
    "klue-nli": ("dev", 3000),
    "klue-ner": ("dev", 5000),
    "klue-dp": ("dev", 2000),
    "pawsx-ko": ("test", 1972),
    "pawsx-en": ("test", 2000),
    "xnli-de": ("test", 5010),
    "xnli-th": ("dev", 2490),
    "udpos-ko": ("test", 989 + 2287 + 1343 + 1000),
    "udpos-en": ("test", 2077 + 1000),
    "panx-ko": ("dev", 10000),
    "xquad-th": ("test", 1190),
    "mlqa-zh": ("dev", 504),
    "tydiqa-ko": ("train", 1625),
    "korsts": ("test", 1379),
    "kornli": ("test", 5010),
    "khs": ("dev", 471),
    "nsmc": ("test", 50000),
    "glue-cola": ("dev", 1043),
    "glue-sst2": ("dev", 872),
    "glue-stsb": ("dev", 1500),
    "glue-qnli": ("dev", 5463),
    "glue-rte": ("dev", 277),
    "glue-wnli": ("dev", 71),
}
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="the real corpora (data/) are not in this checkout"
)


@functools.cache
def _sentences(directory: Path) -> list[TaggedExample]:
    task = TASKS["klue-ner"]
    examples = read_split(task, "dev", find(task, directory, ["dev"])["dev"])
    return [example for example in examples if isinstance(example, TaggedExample)]


def _wordpiece(texts: list[str]) -> Tokenizer:
    """Frequent characters and pairs of them; words with rare ones are unknown."""
    counts: Counter[str] = Counter()
    for text in texts:
        for word in text.split():
            counts.update(word)
            counts.update(word[i : i + 2] for i in range(len(word) - 1))
    common = [piece for piece, count in counts.most_common(1500) if count > 1]
    pieces = ["[UNK]", *common, *(f"##{piece}" for piece in common)]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _metaspace(texts: list[str]) -> Tokenizer:
    """Like XLM-R's: the word-start mark is a piece of its own."""
    characters = sorted({character for text in texts for character in text if character != " "})
    pieces = [("<unk>", 0.0), ("▁", -1.0), *((character, -2.0) for character in characters)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def _crosses_a_border(text: str, example: TaggedExample, first: int, end: int) -> bool:
    """Whether a token has characters of two entities: no label of its gives both tags back."""
    assert example.tags is not None
    inside = example.tags[first].replace("B-", "I-")
    later = range(first + 1, end)
    return any(example.tags[i] != inside and not text[i].isspace() for i in later)


def _round_trip(
    tokenizer: Tokenizer, examples: list[TaggedExample], unknown: int | None
) -> tuple[int, int, list[tuple[TaggedExample, tuple[str, ...]]]]:
    """Words that come back, words left out (unknown, or a token crosses a border), and the rest."""
    compared = left_out = 0
    clean = []
    for example in examples:
        assert example.tags is not None
        text = example.text
        encoding = tokenizer.encode(text)
        offsets = encoding.offsets
        back = character_tags(text, token_labels(text, example.tags, offsets), offsets)
        tokens = labelled_tokens(text, offsets)
        bad = {token for token in tokens if encoding.ids[token] == unknown}
        bad |= {token for token, span in tokens.items() if _crosses_a_border(text, example, *span)}
        spoilt = {index for token in bad for index in range(*tokens[token])}
        at = 0
        for word in text.split(" "):
            places = range(at, at + len(word))
            at += len(word) + 1
            if spoilt.isdisjoint(places):
                compared += 1
                assert [back[i] for i in places] == [example.tags[i] for i in places], example.id
            else:
                left_out += 1
        if not bad:
            clean.append((example, back))
    return compared, left_out, clean


@pytest.fixture(params=["byte-level", "wordpiece", "metaspace"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _tokenizer(
    kind: str, examples: list[TaggedExample], build: Callable[[str], PreTrainedTokenizerBase]
) -> tuple[Tokenizer, int | None]:
    texts = [example.text for example in examples]
    if kind == "wordpiece":
        return _wordpiece(texts * 2), 0
    if kind == "metaspace":
        return _metaspace(texts), 0
    own = Tokenizer.from_str(build("roberta").backend_tokenizer.to_str())  # other tests cut with it
    own.no_truncation()
    return own, None


def test_characters_to_tokens_and_back_is_the_identity(
    kind: str, tiny_tokenizer: Callable[[str], PreTrainedTokenizerBase]
) -> None:
    examples = _sentences(OFFICIAL)
    tokenizer, unknown = _tokenizer(kind, examples, tiny_tokenizer)
    compared, left_out, clean = _round_trip(tokenizer, examples, unknown)
    assert compared >= 5
    assert left_out <= {"byte-level": 1, "wordpiece": 3, "metaspace": 0}[kind]
    assert all(back == example.tags for example, back in clean)


@needs_data
@pytest.mark.slow
def test_the_identity_holds_on_the_whole_klue_ner_file(
    kind: str, tiny_tokenizer: Callable[[str], PreTrainedTokenizerBase]
) -> None:
    examples = _sentences(DATA)
    tokenizer, unknown = _tokenizer(kind, examples, tiny_tokenizer)
    compared, left_out, clean = _round_trip(tokenizer, examples, unknown)
    assert compared + left_out > 65_000
    if kind == "wordpiece":
        assert 0 < left_out < 0.4 * compared
    else:
        # byte-level merges of the tiny tokenizer seldom join characters across a border
        assert left_out < 0.01 * compared
    # two entities of the file begin with a space, which no tokenizer can see
    odd = [example.id for example, back in clean if back != example.tags]
    assert set(odd) <= {"klue-ner-v1_dev_01601-wikitree", "klue-ner-v1_dev_02091-wikitree"}
    task = TASKS["klue-ner"]
    kept = [example for example, _ in clean]
    scores = task.score(kept, [TagPrediction(example.id, back) for example, back in clean])
    assert scores["entity_f1"] == scores["character_macro_f1"] == 100


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize("name", HERE)
def test_gold_scores_100_on_the_real_file(name: str) -> None:
    task = TASKS[name]
    split, count = HERE[name]
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
            found[name] = retrieval.read(RETRIEVALS[f"tatoeba-{name}"], DATA)
        except DataError as error:
            pytest.skip(f"not in this checkout: {error}")
    short = {"jv": 205, "ml": 687, "ta": 307, "te": 234, "ka": 746, "th": 548, "sw": 390, "kk": 575}
    assert {name: len(one.source) for name, one in found.items()} == {
        name: short.get(name, 1000) for name in found
    }
    assert found["ko"].target["0"] != found["ko"].source["0"]


@needs_data
def test_labels_that_xtreme_hides_are_told_apart_from_files_that_are_missing() -> None:
    for name in ("panx-ko", "tydiqa-ko"):
        task = TASKS[name]
        try:
            files = find(task, DATA, ["test"])["test"]
        except DataError as error:
            pytest.skip(f"not in this checkout: {error}")
        with pytest.raises(DataError, match=r"has no answer.*hidden labels"):
            read_split(task, "test", files)


@pytest.mark.slow
@needs_data
def test_conversions_and_official_files_hold_the_same_examples() -> None:
    pairs = {
        "klue-sts": ("official/KLUE/klue-sts-v1.1_dev.json", "task_klue_sts/dev.jsonl.xz"),
        "klue-nli": ("official/KLUE/klue-nli-v1.1_dev.json", "task_klue_nli/dev.jsonl.xz"),
        "klue-dp": ("official/KLUE/klue-dp-v1.1_dev.tsv", "task_klue_dp/dev.jsonl.xz"),
        "klue-ner": ("official/KLUE/klue-ner-v1.1_dev.tsv.xz", "task_klue_ner/dev.jsonl.xz"),
        "korsts": ("official/KorSTS/sts-test.tsv", "task_korsts/test.jsonl.xz"),
        "kornli": ("official/KorNLI/xnli.test.ko.tsv", "task_kornli/test.jsonl.xz"),
    }
    for name, (official, converted) in pairs.items():
        if (DATA / official).exists() and (DATA / converted).exists():
            task = TASKS[name]
            assert task.read(DATA / official) == task.read(DATA / converted), name
