"""Rows of a study whose truth is known: losses that fall with the data as a power law."""

import math

import numpy as np

from lingraft.report.row import Score

BLOCKS = 50
POSITIONS = 40
UNIGRAMS = 400.0
FACTS = {"tokens": 2_000_000, "seconds": 75.0, "parameters": 6_389_920}
FACTS |= {"device": "cpu", "precision": "fp32", "lingraft": "0.1.0"}


def power_law(sentences, efficiency=1.0):
    """Nats after training on so many sentences, each worth `efficiency` of the baseline's."""
    return 2.0 + 40.0 * (efficiency * sentences) ** -0.3


def metric_rows(common, loss, masks="aaaa", noise=0.02):
    """Metrics with blocks that add up to them."""
    seed = common["axes"]["seed"]
    shared = np.random.default_rng(5).normal(0, 0.3, BLOCKS)
    own = np.random.default_rng([seed, len(common["model"])]).normal(0, noise, BLOCKS)
    nats = loss + shared + own - (shared + own).mean()
    hits = np.clip(1.1 - nats / 8, 0.02, 0.98)
    by_metric = {
        "mask-only/perplexity": (math.exp(loss), nats, POSITIONS),
        "mask-only/loss": (loss, nats, POSITIONS),
        **{
            f"mask-only/hits@{k}": (100 * share.mean(), share, POSITIONS)
            for k, share in ((k, np.minimum(hits * (1 + k / 20), 1.0)) for k in (1, 3, 5, 10))
        },
        "mask-only/mrr": (hits.mean() * 1.1, hits * 1.1, POSITIONS),
        "mask-only/mr": (2 * math.exp(loss), None, POSITIONS),
        "bits_per_character": (0.6 * loss, 0.6 * nats, 100),
        "unigram_perplexity": (UNIGRAMS, None, POSITIONS),
    }
    return [
        Score(
            **common, metric=name, value=value, n=BLOCKS * n, seed=seed, masks=masks, facts=FACTS,
            blocks=None if blocks is None else tuple((float(b * n), float(n)) for b in blocks),
        )
        for name, (value, blocks, n) in by_metric.items()
    ]  # fmt: skip


def common_of(method, sentences, seed, **further):
    axes = {"method": method, "sentences": sentences, "seed": seed, **further}
    name = "-".join(str(value) for value in axes.values())
    return {"model": name, "inputs": f"f-{name}", "axes": axes}


def cell_rows(method, sentences, seed, loss, *, masks="aaaa", **further):
    """All rows of one cell that was done."""
    common = common_of(method, sentences, seed, **further)
    tokens = [100_000 * i for i in range(1, 21)]
    points = tuple((float(t), loss + (6.5 - loss) * math.exp(-t / 400_000)) for t in tokens)
    curve = Score(
        **common, metric="curve/loss", value=points[-1][1], n=len(points), seed=seed, facts=FACTS,
        points=points, reported=False,
    )  # fmt: skip
    return [*metric_rows(common, loss, masks), curve]


EFFICIENCY = {"scratch": 1.0, "xpt": 4.0, "xpt-sp": 2.5, "adapters": 2.0}


def study_rows(methods=EFFICIENCY, sizes=(1_000, 4_000, 16_000, 64_000), seeds=(0, 1, 2)):
    """A whole study; XPT is four times as efficient as scratch."""
    rows = []
    for method in methods:
        for size in sizes:
            for seed in seeds:
                spread = 0.011 if method == "scratch" else 0.01  # a seed's gain is not another's
                loss = power_law(size, EFFICIENCY[method]) + spread * (seed - 1)
                rows += cell_rows(method, size, seed, loss)
    return rows


def initializer_rows():
    """XPT with three initializers at one size."""
    worth = {"random": 4.0, "match": 4.6, "focus": 6.0}
    return [
        row
        for name, efficiency in worth.items()
        for seed in (0, 1, 2)
        for row in cell_rows(
            "xpt", 16_000, seed, power_law(16_000, efficiency) + 0.01 * (seed - 1),
            **{"embeddings.init": name},
        )
    ]  # fmt: skip
