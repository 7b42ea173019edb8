"""Committed results behind the rules of preset `auto`: rows of research/rows, as FILE:CELL.

Where several rules rest on the same rows, what they say stands here too.
"""

from __future__ import annotations

KO, LR = "study-ko.jsonl", "study-ko-lr.jsonl"
SEEDS = (0, 1, 2)
ONE_PHASE = tuple(f"{KO}:{name}-n25000-s{seed}" for name in ("xpt-sp", "xpt") for seed in SEEDS)
JA = "auto/ja.jsonl"
AT_LITTLE = (f"{JA}:xpt-sp-s0-focus-0-0-793f", f"{JA}:xpt-sp-s0-mean-0-0-92b0")
WITH_FOCUS, WITH_MEAN, RANDOM = (
    tuple(f"{KO}:xpt-sp-n25000-s{seed}{end}" for seed in SEEDS)
    for end in ("-focus-b145", "-mean-1a66", "")
)
TEN_MILLION = (
    *(f"proof/{language}-10m-first-rules.jsonl:auto-s0" for language in ("fr", "ja")),
    *(f"proof/{language}-10m.jsonl:xpt-sp-s0-4096-3e50" for language in ("fr", "ja")),
    "proof/fr-10m.jsonl:xpt-sp-s0-4096-300-5000000-57d4",
)
KEPT = tuple(
    f"auto/{cell}-{end}"
    for cell in (
        "continued.jsonl:continued-s0",
        "continued.jsonl:lapt-s0",
        "continued-near.jsonl:continued-s0",
        "trained-on.jsonl:continued-s0",
        *(
            f"continued-test.jsonl:{name}-s{seed}"
            for name in ("continued", "lapt")
            for seed in (0, 1)
        ),
    )
    for end in ("0.002-5eeb", "0.001-4-f4f1")
)
VECTORS = (
    "lower than with FOCUS' 300 numbers and five million pieces at 0.3 M tokens, in less time; "
    "at 10 M those are 0.6 % lower at width 384 (Korean)"
)
VECTOR_ROWS = tuple(
    f"auto/vectors.jsonl:xpt-sp-s{seed}-{end}"
    for end in ("300-0022", "64-1000000-b8ab", "64-3000000-01e7", "mean-1a66")
    for seed in (0, 1)
)
MASKING = "auto/masking.jsonl"
MASKS = "lower bits per character than 0.15, 0.2, 0.3 at 0.3 M tokens, like 0.5; lower at 1 M too"
MASK_ROWS = (
    *(f"{MASKING}:xpt-sp-s{seed}-{end}" for end in ("0.4-4a7c", "0.3-4a3e") for seed in (0, 1)),
    *(row for row in VECTOR_ROWS if "3000000" in row),
)
MASK_1M = tuple(
    f"auto/masking-1m.jsonl:xpt-sp-s0-{end}"
    for end in ("0.15-2048-1a9a", "0.4-2048-79f6", "0.4-1024-1ce8", "0.4-512-ac86")
)
MASK_STEPS = tuple(
    f"{MASKING}:xpt-sp-s{seed}-0.4-{end}" for end in ("512-ac86", "256-227d") for seed in (0, 1)
)
MINILM_1M = tuple(
    f"auto/minilm-1m.jsonl:xpt-sp-s0-{end}"
    for end in ("0.0005-4f2a", "0.001-8d84", "0.002-5eeb", "0.001-0.3-a746")
)
MINILM = "auto/minilm.jsonl:xpt-sp-s0"
MINILM_RATES = tuple(f"{MINILM}-{end}" for end in ("0.001-8d84", "0.0005-4f2a", "0.002-5eeb"))
MINILM_MASKS = tuple(f"{MINILM}-{end}" for end in ("0.001-8d84", "0.3-4a3e", "0.15-2435"))
PROOF = "proof/minilm-"
LONG_CELLS = f"{PROOF}grid-10m.jsonl:xpt-sp-s0"
LONG_MIDDLE = tuple(f"{LONG_CELLS}-{end}" for end in ("ko-0.0-4fed", "ja-0.0-b871", "fr-0.0-47c9"))
"""What the other cells of that grid change in one choice."""
WIDE_FOCUS = (
    *(
        f"{PROOF}{row}"
        for row in ("ja.jsonl:xpt-sp-s0-0.001-8d84", "fr.jsonl:auto-s0", "ko.jsonl:auto-s0")
    ),
    *(f"{PROOF}{language}.jsonl:xpt-sp-s0-0.001-mean-026b" for language in ("ja", "fr", "ko")),
    f"{LONG_CELLS}-ko-mean-702d",
    LONG_MIDDLE[0],
)
PASSES = "lower than none where a text is read more than ten times; like none at nine"
PASSES_ROWS = tuple(
    f"auto/passes.jsonl:xpt-sp-s0-{end}"
    for end in ("ja-0.0-b871", "ja-0.1-ec42", "ja-0.2-1d47", "ko-0.0-4fed", "ko-0.1-44f1")
)
NO_LAYERS = (
    "within 0.01 nats without translation layers, for three quarters of the operations; at width "
    "384 and 0.3 M tokens far lower without; at 10 M 0.2 and 1.1 % higher at width 256, level to "
    "1.4 % lower at 384, in 0.8 of the whole time"
)
NO_LAYERS_ROWS = (
    *(f"{KO}:auto-n25000-s{seed}" for seed in SEEDS),
    *WITH_FOCUS,
    f"{MINILM}-0.001-8d84",
    f"{MINILM}-1-1-13ea",
    *(f"auto/minilm-rates.jsonl:xpt-sp-s0-0.0-4-{end}" for end in ("ab45", "1-1-a64c")),
    *TEN_MILLION,
    *LONG_MIDDLE,
    *(f"{LONG_CELLS}-{end}" for end in ("ko-1-1-cf57", "ja-1-1-570c", "fr-1-1-44e8")),
)
LONG_WIDE = (
    *LONG_MIDDLE,
    *(f"{LONG_CELLS}-{end}" for end in ("ko-0.001-e293", "ja-0.001-3272", "fr-0.001-d733")),
)
LONG_DROPOUT = (
    *LONG_MIDDLE,
    *(f"{LONG_CELLS}-{end}" for end in ("ko-0.1-44f1", "ja-0.1-ec42", "fr-0.1-4ca0")),
)
LONG_FACTOR = (
    *LONG_MIDDLE,
    *(f"{LONG_CELLS}-{end}" for end in ("ko-8-0f60", "ja-8-38ea", "fr-8-1070")),
    *(f"{LONG_CELLS}-{end}" for end in ("ko-2-dd08", "ja-2-50d2", "fr-2-5c1d")),
)
TWENTY_MILLION = tuple(
    f"study-transfer-long.jsonl:xpt-sp-s{seed}-0.0005-0.0-4-75c9" for seed in (0, 1)
)
RATES, WIDE_RATES = "auto/rates.jsonl:xpt-sp", "auto/minilm-rates.jsonl:xpt-sp-s0"
NO_DROPOUT, OWN_DROPOUT = f"{WIDE_RATES}-0.0-4423", f"{WIDE_RATES}-0.1-d772"
WIDE_LITTLE = (*MINILM_RATES, NO_DROPOUT, f"{WIDE_RATES}-0.0-0.001-583b")
WIDE_1M = (
    *(
        f"auto/minilm-rates-1m.jsonl:xpt-sp-s0-0.0-{end}"
        for end in ("0.001-4-3edb", "0.0005-4-75c9")
    ),
    *(
        f"study-transfer-rates.jsonl:{name}"
        for name in (
            *("auto-s0", "auto-s1"),
            *(f"xpt-sp-s{seed}-0-0-0.0-4-0.0005-436d" for seed in (0, 1)),
            "xpt-sp-s0-0-0-0.0-8-0.00025-3655",
        )
    ),
)
FACTOR_NARROW = (
    *(f"{RATES}-s0{end}" for end in ("", "-2-2996", "-0.001-4-f4f1", "-0.001-8-9080")),
    *(f"{RATES}-s1{end}" for end in ("", "-0.001-4-f4f1")),
    *(f"auto/rates-1m.jsonl:xpt-sp-s0{end}" for end in ("-0.001-4-f4f1", "")),
)
LONG_NARROW = tuple(
    f"proof/grid-10m.jsonl:xpt-sp-s0-{end}"
    for end in (
        *("ko-0.0005-b1f6", "ko-0.002-6b51", "ko-300-5000000-5465", "ko-1-1-cf57"),
        *("ja-0.0005-d42a", "ja-0.002-16b2", "fr-0.0005-db77", "fr-0.002-0734"),
    )
)
LONG_FOCUS = ("proof/grid-10m.jsonl:xpt-sp-s0-ko-mean-702d", LONG_NARROW[2])
CAUSAL, CAUSAL_PROOF = "study-causal.jsonl", "proof/causal.jsonl:xpt-sp-s0"
ONE_RATE = tuple(f"{CAUSAL_PROOF}-{end}" for end in ("ko-590f", "ja-4a9b", "de-18c0"))
CAUSAL_PHASES = tuple(
    f"{CAUSAL}:{method}-s{seed}-0-0-replace-{end}"
    for method in ("xpt-sp", "xpt")
    for end in ("focus-f8cb", "mean-1de1")
    for seed in (0, 1)
)
CAUSAL_LAYERS = (
    *(f"{CAUSAL}:xpt-sp-s{seed}-0-0-replace-mean-1de1" for seed in (0, 1)),
    *(f"{CAUSAL}:xpt-sp-s{seed}-1-1-random-replace-mean-1dce" for seed in (0, 1)),
    f"{CAUSAL}:xpt-sp-s0-0-0-replace-focus-f8cb",
    f"{CAUSAL}:xpt-sp-s0-1-1-random-replace-focus-3a79",
    *ONE_RATE,
    *(f"{CAUSAL_PROOF}-{end}" for end in ("ko-1-1-cf57", "ja-1-1-570c", "de-1-1-e781")),
)
CAUSAL_FOCUS = (
    *(
        f"{CAUSAL}:xpt-sp-s{seed}-0-0-replace-{end}"
        for end in ("focus-f8cb", "mean-1de1", "random-da6a")
        for seed in (0, 1)
    ),
    ONE_RATE[0],
    f"{CAUSAL_PROOF}-ko-mean-702d",
)
CAUSAL_VECTORS = tuple(
    f"{CAUSAL_PROOF}-{end}" for end in ("ko-4-0.001-1318", "ko-4-0.001-300-5000000-de1b")
)
CAUSAL_FACTOR = (
    *ONE_RATE,
    *(
        f"{CAUSAL_PROOF}-{end}"
        for end in ("ko-4-0.001-1318", "ja-4-0.001-157f", "de-4-0.001-4deb", "ko-4-0.002-a86c")
    ),
)
CAUSAL_KEPT = tuple(
    f"auto/continued-causal.jsonl:{cell}"
    for cell in (
        *(f"continued-s0-{end}" for end in ("0.001-4-f4f1", "0.0005-4f2a", "0.001-8d84")),
        *(f"{name}-s0-0.002-5eeb" for name in ("continued", "lapt")),
        "lapt-s0-0.001-4-f4f1",
    )
)
FACTOR_WIDE = (NO_DROPOUT, *(f"{WIDE_RATES}-0.0-{end}" for end in ("4-ab45", "8-204e")))
FACTOR_GRID = (
    *(f"proof/grid.jsonl:{cell}" for cell in ("auto-s0-ko-590f", "xpt-sp-s0-ko-8-0f60")),
    *(f"proof/grid.jsonl:{cell}" for cell in ("auto-s0-ja-4a9b", "xpt-sp-s0-ja-8-38ea")),
    *(f"proof/minilm-grid.jsonl:{cell}" for cell in ("auto-s0-ko-590f", "xpt-sp-s0-ko-8-0f60")),
)
LATIN_PIECES = (
    *(
        f"auto/vocabulary.jsonl:xpt-sp-s0-de-{end}"
        for end in ("2000-7912", "4000-67d7", "8000-d7f2", "16000-a03c")
    ),
    *(f"auto/vocabulary.jsonl:xpt-sp-s1-de-{end}" for end in ("4000-67d7", "8000-d7f2")),
    *(
        f"proof/vocabulary.jsonl:xpt-sp-s0-fr-{end}"
        for end in ("4000-e063", "8000-c950", "16000-afdf")
    ),
)
