"""Alignment against literal loops and one pair at a time; rates, files, the command."""

import random
from collections import defaultdict

import numpy as np
import pytest
import torch
from stopping import killed_at
from transformers import AutoModel

from lingraft.crosslingual import alignment, alignment_run
from lingraft.crosslingual.alignment import Aligner, Gold, Pieces, optimal_transport
from lingraft.crosslingual.alignment_run import chosen, counts, rows_of, scores
from lingraft.crosslingual.by_layer import LayerScores
from lingraft.crosslingual.encoder import Encoder
from lingraft.crosslingual.settings import Linking
from lingraft.report import row
from lingraft.stats import Resampling, interval

FAMILIES = ("bert", "roberta", "xlm-roberta", "electra", "modernbert")
NEEDS_SPACE = ("roberta", "modernbert")
ENGLISH = "the quick brown fox jumps over a lazy dog , and opens café documents in folders"
KOREAN = "나는 학교에 가서 친구를 만나고 문서를 열고 형식을 선택한 다음 폴더에 저장합니다 ."
SHAPES = [(1, 1), (1, 4), (5, 1), (2, 5), (3, 3), (4, 6), (7, 5), (9, 9)]

# -- optimal transport


def literal_transport(S, clamp):
    m, n = len(S), len(S[0])
    pi = [[1e-6 if clamp and S[i][j] <= 0 else S[i][j] for j in range(n)] for i in range(m)]
    for _ in range(2):
        sums = [sum(pi[i][j] for i in range(m)) for j in range(n)]
        xi = [[pi[i][j] / sums[j] for j in range(n)] for i in range(m)]
        pi = [[xi[i][j] / sum(xi[i]) for j in range(n)] for i in range(m)]
    found = set()
    for i in range(m):
        j = pi[i].index(max(pi[i]))
        column = [xi[k][j] for k in range(m)]
        if column.index(max(column)) == i:
            found.add((i, j))
    return found


@pytest.mark.parametrize("clamp", [True, False])
def test_links_are_those_of_a_literal_loop(clamp):
    found, generator = 0, np.random.default_rng(7)
    for shape in SHAPES * 30:
        S = generator.normal(0.4, 1.0, shape)
        expected = literal_transport(S.tolist(), clamp)
        linked_MN = optimal_transport(S[None], clamp=clamp)[0]
        assert {(int(i), int(j)) for i, j in np.argwhere(linked_MN)} == expected
        found += len(expected)
    assert found > 300


# -- states


@pytest.fixture(scope="module")
def pairs():
    drawn = random.Random(4)
    return [
        tuple(
            tuple(drawn.choices(text.split(), k=drawn.randint(1, most)))
            for text, most in ((ENGLISH, 9), (KOREAN, 7))
        )
        for _ in range(23)
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_words_have_the_pieces_that_they_have_within_a_text(family, tiny_tokenizer):
    tokenizer = tiny_tokenizer(family)
    pieces = Pieces(tokenizer)
    assert pieces.prefix == (" " if family in NEEDS_SPACE else "")
    words = ("dog", "dog", "tea")
    (side,) = pieces.sides([words])
    in_text = tokenizer("a " + " ".join(words), add_special_tokens=False)["input_ids"]
    first = tokenizer("a", add_special_tokens=False)["input_ids"]
    assert first + side.ids == in_text
    assert set(side.words) == {0, 1, 2}
    (spelt,) = pieces.sides([("dog", str(tokenizer.mask_token), str(tokenizer.sep_token))])
    assert not {tokenizer.mask_token_id, tokenizer.sep_token_id} & {*spelt.ids}


def by_itself(folder, tokenizer, pair):
    """Align one pair through the stock model; sides are found in the ids by counting."""
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    space = " " if Pieces(tokenizer).prefix else ""
    cut = [
        [tokenizer(space + word, add_special_tokens=False)["input_ids"] for word in side]
        for side in pair
    ]
    source, target = ([piece for ids in side for piece in ids] for side in cut)
    words = [[at for at, ids in enumerate(side) for _ in ids] for side in cut]
    start, end = [tokenizer.cls_token_id], [tokenizer.sep_token_id]
    with torch.no_grad():
        ids = torch.tensor([start + source + end + target + end])
        both = torch.stack(model(ids, output_hidden_states=True).hidden_states)[:, 0].double()
    found = []
    for state in both.numpy():
        S = state[1 : 1 + len(source)] @ state[2 + len(source) : -1].T
        linked = optimal_transport(S[None])[0]
        found.append({(words[0][i], words[1][j]) for i, j in np.argwhere(linked)})
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_batches_give_the_links_of_each_pair_alone_in_every_layer(family, tiny_source, pairs):
    folder = str(tiny_source(family))
    encoder = Encoder.load(folder)
    found = list(Aligner(encoder, range(3), batch_tokens=64).align(pairs))
    for pair, aligned in list(zip(pairs, found, strict=True))[:8]:
        if min(map(len, pair)) > 1:  # scaled to ones: rounding decides
            assert [set(own) for own in aligned or ()] == by_itself(folder, encoder.tokenizer, pair)


# -- rates


def gold(sure, possible=""):
    own = frozenset(alignment.parsed(sure))
    return Gold(own, own | frozenset(alignment.parsed(possible)))


CASES = {
    "all right": (["0-0 1-1"], [gold("0-0 1-1")], 0.0, 1.0, 1.0),
    "nothing predicted": ([""], [gold("0-0 1-1")], 1.0, None, 0.0),
    # 1 - (2 + 2) / (3 + 2)
    "one wrong": (["0-0 1-1 1-2"], [gold("0-0 1-1", "2-2")], 0.2, 2 / 3, 1.0),
    # 1 - (1 + 2) / (2 + 2)
    "one sure link missed": (["0-0 2-2"], [gold("0-0 1-1", "2-2")], 0.25, 1.0, 0.5),
    # over the corpus 1 - (1 + 1 + 1 + 1) / (1 + 4 + 1 + 1), not the mean of sentences
    "over the corpus": (["0-0", "0-0 0-1 0-2 0-3"], [gold("0-0")] * 2, 1 - 4 / 7, 2 / 5, 1.0),
    "no sure link": (["0-0"], [gold("", "0-0")], 0.0, 1.0, None),
}


@pytest.mark.parametrize("name", CASES)
def test_constructed_cases_have_the_rates_computed_by_hand(name):
    predicted, right, *expected = CASES[name]
    found = scores(counts([alignment.parsed(line) for line in predicted], right))
    for metric, share in zip(("aer", "precision", "recall"), expected, strict=True):
        assert found.get(metric) == (None if share is None else pytest.approx(100 * share))


def test_the_diagonal_links_words_at_equal_shares():
    cut = [(tuple(x), tuple(y)) for x, y in (("abc", "xyz"), ("a", "xyz"), ("abcd", "xy"))]
    found = alignment.diagonal(cut)
    assert found[:2] == [((0, 0), (1, 1), (2, 2)), ((0, 1),)]
    swapped = alignment.diagonal([(y, x) for x, y in cut])
    assert [sorted((j, i) for i, j in own) for own in swapped] == [sorted(own) for own in found]


def answers(right, number=80):
    """Count ten gold links a sentence, of which so many are found in each."""
    own = Gold(*[frozenset((word, word) for word in range(10))] * 2)
    found = [[(w, w if w < right(at) else w + 1) for w in range(10)] for at in range(number)]
    return counts(found, [own] * number)


def reading(found, dev=0):
    rows = rows_of(found, Linking(dev=dev))
    return LayerScores((one for one in rows if one.metric == "aer"), lower=True)


def noisy(mean, seed):
    drawn = random.Random(seed)
    return [mean + drawn.choice([-2, -1, 0, 1, 2]) for _ in range(200)].__getitem__


def test_blocks_of_a_rate_have_it_as_their_mean_and_the_interval_of_drawn_sentences():
    found = {("one", 1): {"de-en": answers(noisy(5, 3))}}
    row, *_ = rows_of(found, Linking())
    worth = [share for share, count in row.blocks or () if count]
    assert 100 * np.mean(worth) == pytest.approx(row.value)
    draws_RB = Resampling(2_000).draws(80, "sentences")
    expected = interval(alignment_run.error_rates(found["one", 1]["de-en"], draws_RB))
    drawn_R = reading(found).drawn(("one", 1), "de-en")
    assert drawn_R is not None
    assert interval(drawn_R) == pytest.approx(expected, abs=(expected[1] - expected[0]) / 5)


def test_the_layer_is_the_best_on_the_mean_over_the_sets_and_of_dev_alone():
    found = {
        ("m", 1): {"de-en": answers(lambda _: 9), "ro-en": answers(lambda _: 2)},
        ("m", 2): {"de-en": answers(lambda _: 6), "ro-en": answers(lambda _: 6)},
    }
    assert chosen(found, 0) == {("m", 2)}
    found = {
        ("m", 1): {"de-en": answers(lambda at: 9 if at < 20 else 2)},
        ("m", 2): {"de-en": answers(lambda at: 2 if at < 20 else 9)},
    }
    assert chosen(found, 0) == {("m", 2)}
    ours = reading(found, dev=20)
    assert ours.chosen == {"m": ("m", 1)}
    assert [row.n for row in ours.rows[("m", 1), "de-en"]] == [60]


# -- files


def test_gold_links_are_sure_or_possible_by_words(tmp_path):
    texts = {"de": "das haus ist\u00a0klein\nja\n", "en": "the house is small\nyes ,\n"}
    for name, text in (texts | {"gold": "0-0 0p0 2p2 2p3\n\n"}).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = alignment.read("de-en", *(tmp_path / name for name in ("gold", "de", "en")))
    assert found.pairs[0][0] == ("das", "haus", "ist\u00a0klein")
    assert found.gold == [gold("0-0", "2-2 2-3"), gold("")]
    assert alignment.parsed(alignment.pharaoh(((0, 0), (3, 12)))) == ((0, 0), (3, 12))


SENTENCES = [
    "open the file .",
    "the dog sleeps in the sun .",
    "tea , coffee and cake .",
    "choose it",
]
TRANSLATIONS = ["문서를 열고", "나는 학교에 갔다 .", "친구를 만나고 책을 읽었다 .", "선택한 다음"]
LINKS = ["0-1 2-0", "1-0 0-0 5-3", "4-2 2p1", "0-1"]


@pytest.fixture
def score(command, tiny_source, tmp_path):
    """Align two sets by two models."""
    for name, lines in {"en": SENTENCES, "ko": TRANSLATIONS, "gold": LINKS}.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        (tmp_path / f"{name}-2").write_text("\n".join(lines * 2) + "\n", encoding="utf-8")

    def run(*more, out="out", models=("bert", "roberta")):
        sets = ("--gold", f"en-ko={tmp_path / 'gold'}", tmp_path / "gold-2")
        text = ("--text", *(tmp_path / name for name in ("en", "ko", "en-2", "ko-2")))
        sources = map(tiny_source, models)
        folder = ("--out", tmp_path / out)
        return command("analyze", "alignment", *sources, *sets, *text, *folder, *more)

    return run


def content(folder):
    own = (".lock", "inputs", "done.json")
    kept = (path for path in folder.rglob("*") if path.is_file() and path.name not in own)
    return {str(path.relative_to(folder)): path.read_bytes() for path in kept}


def test_scores_stand_in_table_rows_figure_and_link_files(score, tmp_path):
    ended, out = score(), tmp_path / "out"
    assert ended.status == 0, ended.err
    rows = [one for one in row.read(out / "results.jsonl") if one.metric == "aer"]
    assert len(rows) == (2 * 3 + 1) * 2  # two models with three layers and a baseline, on two sets
    for label, layers in {"bert": 3, "roberta": 3, "diagonal": 1}.items():
        means = defaultdict(float)
        for one in (one for one in rows if one.model == label):
            means[one.axes.get("layer"), one.reported] += one.value / 2
        assert len(means) == layers
        assert [of for (_, reported), of in means.items() if reported] == [min(means.values())]
    lines = (out / "links/roberta/en-ko/layer-01.txt").read_text(encoding="utf-8").splitlines()
    found = [alignment.parsed(line) for line in lines]
    gold = [alignment.parsed(line) for line in LINKS]
    wanted = ("roberta", "en-ko", 1)
    facts = next(r.facts for r in rows if (r.model, r.data, r.axes.get("layer")) == wanted)
    assert facts["predicted"] == sum(map(len, found))
    right = sum(len(set(a) & set(b)) for a, b in zip(found, gold, strict=True))
    assert facts["found_possible"] == right
    table = (out / "table.md").read_text(encoding="utf-8")
    assert "oracle" in table
    assert "less bert" in table
    assert (out / "curve.svg").read_text(encoding="utf-8").startswith("<svg")


def test_what_is_done_is_kept_and_gives_the_same_bytes(score, tmp_path, monkeypatch):
    assert score(out="straight").status == 0
    with killed_at(3, Aligner, "align") as calls:
        assert score().status != 0
        done = {path.parent.name for path in (tmp_path / "out/links/bert").rglob("done.json")}
        assert done == {"en-ko", "gold-2"}
        ended = score()
    assert ended.status == 0, ended.err
    assert len(calls) == 3 + 2
    assert content(tmp_path / "out") == content(tmp_path / "straight")
    monkeypatch.setattr(Encoder, "load", None)
    assert score().status == 0
