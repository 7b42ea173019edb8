"""The evaluation stage, and the intrinsic metrics that it shares with `lingraft evaluate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.corpus.inputs import texts
from lingraft.corpus.streams import folder_of, read_lines
from lingraft.evaluation import intrinsic, pieces, records, samples, words
from lingraft.evaluation.scorer import Scorer
from lingraft.models.families import family_of
from lingraft.models.source import load_model
from lingraft.objectives.common import TokenIds
from lingraft.pipeline import causal_evaluation
from lingraft.pipeline.reading import nonempty
from lingraft.pipeline.stages import family_now, position_settings, source_tokenizer, weights_before
from lingraft.pipeline.suiting import denoising
from lingraft.pretrained.load import load_config, quiet_transformers
from lingraft.recipe import Masking
from lingraft.rundir import FORMAT, fingerprint, write_text
from lingraft.tokenizer import documents
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.shards import Tokens

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import PreTrainedTokenizerFast

    from lingraft.models.kinds import KindName
    from lingraft.pipeline.stages import Context
    from lingraft.recipe import Recipe, Stream


def evaluation_fingerprint(recipe: Recipe, trained: str) -> str:
    """Return the fingerprint of how weights are scored, whose own fingerprint is given."""
    section, causal = recipe.evaluation, family_now(recipe).kind == "causal"
    form = [FORMAT["causal evaluation"]] if causal else []
    kept = [texts(section.kept)] if section.kept else []
    anywhere = section.model_copy(update={"kept": ()})
    return fingerprint(FORMAT["evaluation"], trained, anywhere, *kept, *form)


def evaluate(context: Context, trained: str) -> str:
    """Score the final weights on the test text; of several streams on each."""
    recipe, run = context.recipe, context.run
    section = recipe.evaluation
    stage, stage_fingerprint = run.stage("evaluation"), evaluation_fingerprint(recipe, trained)
    if stage.is_done(stage_fingerprint):
        return stage_fingerprint
    quiet_transformers()
    folder = run.stage("tokenizer").path
    tokenizer = tokenizer_files.load(str(folder))
    weights = str(weights_before(context, len(recipe.phases)))
    family = family_of(load_config(weights).model_type)
    ids = TokenIds.of(tokenizer, family.kind)
    scorer = Scorer.load(weights, ids.pad, recipe.hardware.precision, family.kind)
    with stage.building(stage_fingerprint) as (partial, result):
        result["form"] = FORMAT["evaluation"]
        if family.kind == "causal":
            context_length = int(run.stage("tokenizer").result()["max_tokens"])
            model = causal_evaluation.CausalModel(scorer, tokenizer, context_length)
            result |= _evaluate_documents(context, model)
            return stage_fingerprint
        scores = {
            stream.name: _evaluate_stream(context, stream, scorer, tokenizer, partial)
            for stream in recipe.texts
        }
        result |= scores[recipe.texts[0].name]
        if recipe.streams:
            result["streams"] = scores
        if section.before:
            result["before"] = _evaluate_source(context, partial)
        grafted = recipe.graft
        adds = any(grafted.places) or grafted.cross_attention
        if recipe.phases and recipe.keeps_rows and recipe.tokenizer.action == "keep" and not adds:
            result["source"] = _untrained(context, ids.pad, family.kind, tokenizer)
    return stage_fingerprint


def _untrained(
    context: Context, pad: int, kind: KindName, tokenizer: PreTrainedTokenizerFast
) -> dict[str, Any]:
    """Score the source as it is on the first test text, whose tokens are the trained model's."""
    weights = str(weights_before(context, 0))
    scorer = Scorer.load(weights, pad, context.recipe.hardware.precision, kind)
    scores = _of_test_text(context, context.recipe.texts[0], scorer, tokenizer, samples=0)
    return {"metrics": scores["metrics"]}


def _of_test_text(
    context: Context,
    stream: Stream,
    scorer: Scorer,
    tokenizer: PreTrainedTokenizerFast,
    samples: int,
) -> dict[str, Any]:
    """Score a stream's test text, in as many sentences as the recipe asks for."""
    section, folder = context.recipe.evaluation, context.run.stage("tokenizer").path
    test = nonempty(Tokens.open(folder, f"{stream.prefix}test"), "test")
    indices = np.linspace(0, len(test) - 1, min(section.max_sentences, len(test))).astype(np.int64)
    return evaluate_sentences(
        scorer,
        tokenizer,
        test.rows(indices),
        rate=section.masking_rate,
        seed=section.seed,
        number=samples,
        denoising=_denoising(context, scorer),
    )


def _evaluate_source(context: Context, partial: Path) -> dict[str, Any]:
    """Score the source itself, in its own vocabulary, on the words of the streams that ask for it.

    Returns:
        By stream, as `records.word_metrics`; the words go into files.
    """
    recipe, section = context.recipe, context.recipe.evaluation
    tokenizer = source_tokenizer(recipe)
    assert tokenizer is not None, "the recipe checks that there is a source"
    loaded = load_model(str(recipe.source.model), recipe.source.revision)
    scorer = Scorer(loaded.model, TokenIds.of(tokenizer).pad, recipe.hardware.precision)
    longest = position_settings(recipe)[1]
    result = {}
    for stream in recipe.texts:
        if stream.name not in section.before:
            continue
        scored = words.measure(scorer, tokenizer, _words(context, stream), longest)
        write_text(partial / f"{stream.prefix}{records.BEFORE_FILE}", records.text_of(scored))
        result[stream.name] = records.word_metrics(scored)
    return result


def _words(context: Context, stream: Stream) -> list[words.Word]:
    """The words of a stream's test text that are scored."""
    section = context.recipe.evaluation
    corpus = folder_of(context.run.stage("corpus").path, stream)
    return words.choose(read_lines(corpus / "test.txt"), section.max_words, section.seed)


def _evaluate_stream(
    context: Context,
    stream: Stream,
    scorer: Scorer,
    tokenizer: PreTrainedTokenizerFast,
    partial: Path,
) -> dict[str, Any]:
    """Score the test text of one stream; the words go into a file beside the others'."""
    run, section = context.run, context.recipe.evaluation
    folder = run.stage("tokenizer").path
    result = _of_test_text(context, stream, scorer, tokenizer, section.samples)
    train, ids = Tokens.open(folder, f"{stream.prefix}train"), TokenIds.of(tokenizer)
    result["unigram_entropy"] = intrinsic.unigram_entropy(
        train.counts(ids.size), result.pop("targets"), ids.ordinary
    )
    if (
        section.max_words and "mask-only" in result["metrics"]
    ):  # a word has no bits where spans are hidden
        scored = words.measure(scorer, tokenizer, _words(context, stream), _longest(context))
        result["words"] = records.word_metrics(scored)
        result["blocks"]["words"] = records.word_blocks(scored)
        write_text(partial / f"{stream.prefix}{records.WORDS_FILE}", records.text_of(scored))
    return result


def _evaluate_documents(context: Context, model: causal_evaluation.CausalModel) -> dict[str, Any]:
    """Evaluate a causal model and its source on the test documents of every stream."""
    recipe, section = context.recipe, context.recipe.evaluation
    held_out = {stream.name: _held_out(context, stream) for stream in recipe.texts}
    old_tokenizer = source_tokenizer(recipe)
    new = None if old_tokenizer is None else pieces.new_pieces(model.tokenizer, old_tokenizer)
    folder, size = context.run.stage("tokenizer").path, len(model.tokenizer)
    ids = TokenIds.of(model.tokenizer, "causal")
    scores = {}
    for stream in recipe.texts:
        of_stream = causal_evaluation.score_documents(model, held_out[stream.name], new)
        counts = Tokens.open(folder, f"{stream.prefix}train").counts(max(size, ids.size))
        unigrams = intrinsic.unigram_entropy(counts, of_stream.pop("targets"), ids.ordinary)
        scores[stream.name] = of_stream | {"samples": [], "unigram_entropy": unigrams}
    result = dict(scores[recipe.texts[0].name])
    more = causal_evaluation.score_kept_and_sample(model, section, held_out)
    result |= more | {"blocks": result["blocks"] | more["blocks"]}
    if recipe.streams:
        result["streams"] = scores
    source = causal_evaluation.evaluate_source(recipe, held_out, model.context)
    return result if source is None else result | {"untouched": source}


def _held_out(context: Context, stream: Stream) -> list[str]:
    """Test documents of a stream, as many as `evaluation.max_sentences` asks for, spread evenly.

    Counted in characters, so that models with different vocabularies are scored on the same ones.
    """
    run = context.run
    nonempty(Tokens.open(run.stage("tokenizer").path, f"{stream.prefix}test"), "test")
    held_out = list(documents.read(folder_of(run.stage("corpus").path, stream) / "test.txt"))
    return causal_evaluation.choose_documents(held_out, context.recipe.evaluation.max_sentences)


def _denoising(context: Context, scorer: Scorer) -> Masking | None:
    """What is hidden from an encoder–decoder: what its last phase hid. None of other models."""
    family = scorer.packed.family if scorer.packed else None
    if family is None or family.corruption is None:
        return None
    phases = context.recipe.phases
    return denoising(phases[-1].masking if phases else Masking(), family)


def _longest(context: Context) -> int:
    """How many tokens of a sentence a word is scored within.

    As many as in training; with the source's vocabulary, which cuts other languages into many more
    tokens, as many as the model has positions.
    """
    if context.recipe.tokenizer.action == "keep":
        return position_settings(context.recipe)[1]
    return int(context.run.stage("tokenizer").result()["max_tokens"])


def evaluate_sentences(
    scorer: Scorer,
    tokenizer: PreTrainedTokenizerFast,
    sentences: list[np.ndarray[Any, Any]],
    *,
    rate: float,
    seed: int,
    number: int,
    denoising: Masking | None = None,
) -> dict[str, Any]:
    """Intrinsic metrics under both masking schemes, and sample predictions.

    Of an encoder–decoder those of what its decoder writes when spans are hidden, given what it has
    written so far.

    Args:
        scorer: the model.
        tokenizer: its tokenizer.
        sentences: token ids, special tokens included.
        rate: share of the tokens to hide.
        seed: of the masks.
        number: of sample sentences.
        denoising: what is hidden from an encoder–decoder; None masks words under both schemes.
    """
    ids = TokenIds.of(tokenizer)
    backend = tokenizer_files.plain_backend(tokenizer_files.fast(tokenizer))  # nothing cut
    name = tokenizer_files.name_of(backend)
    metrics, masks, examples = {}, {}, []
    blocks: dict[str, dict[str, records.Blocks]] = {}
    targets = np.zeros(0, dtype=np.int64)
    schemes = [Masking(rate=rate, scheme=scheme) for scheme in intrinsic.SCHEMES]
    for masking in [denoising] if denoising else schemes:
        scheme = masking.scheme
        text = intrinsic.mask_text(sentences, ids, name, masking, seed)
        scores = intrinsic.measure(scorer, text)
        metrics[scheme] = scores.metrics()
        masks[scheme] = text.fingerprint
        if scheme != "bert":
            blocks[scheme] = scores.blocks()
            examples = samples.predictions(scorer, tokenizer, text, samples.choose(text, number))
            targets = np.concatenate([item.targets for item in text.items])
    return {
        "masks": {
            "fingerprint": fingerprint(masks),
            "sentences": len(sentences),
            "positions": len(targets),
        },
        "metrics": metrics,
        "blocks": blocks,
        "samples": examples,
        "targets": targets,
    }
