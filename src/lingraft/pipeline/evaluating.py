"""The evaluation stage, and the intrinsic metrics that it shares with `lingraft evaluate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.corpus.inputs import texts
from lingraft.corpus.streams import folder_of, read_lines
from lingraft.evaluation import intrinsic, likelihood, records, samples, words
from lingraft.evaluation.scorer import Scorer
from lingraft.files import write_text
from lingraft.models.families import family_of
from lingraft.models.source import load_model
from lingraft.pipeline import causal_evaluation, stages
from lingraft.pipeline.model_kinds import denoising
from lingraft.pipeline.phase_data import nonempty
from lingraft.pretrained.load import load_config, quiet_transformers
from lingraft.recipe import Masking
from lingraft.rundir import FORMAT, fingerprint
from lingraft.tokenizer import documents, files as tokenizer_files
from lingraft.tokenizer.shards import Tokens
from lingraft.training.objectives.common import TokenIds

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import PreTrainedTokenizerFast

    from lingraft.pipeline.stages import Context
    from lingraft.recipe import Recipe, Stream


def evaluation_fingerprint(recipe: Recipe, trained: str) -> str:
    """Return the fingerprint of how weights are scored, whose own fingerprint is given."""
    section = recipe.evaluation
    causal = stages.source_family(recipe.source).kind == "causal"
    form = [FORMAT["causal evaluation"]] if causal else []
    asked = [section.prompts] if section.prompts else []
    kept = [texts(names) for names in (section.kept, asked) if names]
    anywhere = section.model_copy(update={"kept": (), "prompts": None})
    return fingerprint(FORMAT["evaluation"], trained, anywhere, *kept, *form)


def evaluate(context: Context, trained: str) -> str:
    """Score the final weights on the test text; of several streams on each."""
    recipe, run = context.recipe, context.run
    stage, stage_fingerprint = run.stage("evaluation"), evaluation_fingerprint(recipe, trained)
    if stage.is_done(stage_fingerprint):
        return stage_fingerprint
    quiet_transformers()
    tokenizer = tokenizer_files.load(str(run.stage("tokenizer").path))
    weights = str(stages.weights_before(context, len(recipe.phases)))
    family = family_of(load_config(weights).model_type)
    ids = TokenIds.of(tokenizer, family.kind)
    scorer = Scorer.load(weights, ids.pad, recipe.hardware.precision, family.kind)
    with stage.building(stage_fingerprint) as (partial, result):
        result["form"] = FORMAT["evaluation"]
        if family.kind == "causal":
            context_length = int(run.stage("tokenizer").result()["max_tokens"])
            model = causal_evaluation.ScoredModel(scorer, tokenizer, context_length)
            result |= _evaluate_documents(context, model)
            return stage_fingerprint
        evaluated = _Evaluated(context, scorer, tokenizer, partial)
        scores = {stream.name: evaluated.stream(stream) for stream in recipe.scored}
        result |= scores[recipe.scored[0].name]
        if recipe.streams:
            result["streams"] = scores
        if recipe.evaluation.before:
            result["before"] = _evaluate_source(context, partial)
        adds = any(recipe.graft.places) or recipe.graft.cross_attention
        if recipe.phases and recipe.keeps_rows and recipe.tokenizer.action == "keep" and not adds:
            source = str(stages.weights_before(context, 0))  # whose tokens are the trained model's
            scorer = Scorer.load(source, ids.pad, recipe.hardware.precision, family.kind)
            untrained = _Evaluated(context, scorer, tokenizer, partial)
            scores = untrained.test_text(recipe.scored[0], samples=0)
            result["source"] = {"metrics": scores["metrics"]}
    return stage_fingerprint


@dataclass(frozen=True)
class _Evaluated:
    """A masked model or an encoder–decoder that is evaluated, with the run's tokenizer."""

    context: Context
    scorer: Scorer
    tokenizer: PreTrainedTokenizerFast
    partial: Path
    """Takes files of words."""

    def test_text(self, stream: Stream, samples: int) -> dict[str, Any]:
        """Score a stream's test text, in as many sentences as the recipe asks for."""
        recipe, section = self.context.recipe, self.context.recipe.evaluation
        folder = self.context.run.stage("tokenizer").path
        test = nonempty(Tokens.open(folder, f"{stream.prefix}test"), "test")
        number = min(section.max_sentences, len(test))
        family = self.scorer.packed.family
        hidden = None  # of an encoder–decoder what its last phase hid
        if family.corruption is not None:
            hidden = denoising(recipe.phases[-1].masking if recipe.phases else Masking(), family)
        return evaluate_sentences(
            self.scorer,
            self.tokenizer,
            test.rows(np.linspace(0, len(test) - 1, number).astype(np.int64)),
            rate=section.masking_rate,
            seed=section.seed,
            number=samples,
            denoising=hidden,
        )

    def stream(self, stream: Stream) -> dict[str, Any]:
        """Score the test text of a stream, and words of it, unless spans were hidden.

        A word is scored within as many tokens as in training; with the source's vocabulary, which
        cuts other languages into many more tokens, within as many as the model has positions.
        """
        context, section = self.context, self.context.recipe.evaluation
        tokenized = context.run.stage("tokenizer")
        result = self.test_text(stream, section.samples)
        train = Tokens.open(tokenized.path, f"{stream.prefix}train")
        ids = TokenIds.of(self.tokenizer)
        result["unigram_entropy"] = intrinsic.unigram_entropy(
            train.counts(ids.size), result.pop("targets"), ids.ordinary
        )
        if section.max_words and "mask-only" in result["metrics"]:
            longest = int(tokenized.result()["max_tokens"])
            if context.recipe.tokenizer.action == "keep":
                longest = stages.position_settings(context.recipe)[1]
            scored = words.measure(self.scorer, self.tokenizer, _words(context, stream), longest)
            result["words"] = records.word_metrics(scored)
            result["blocks"]["words"] = records.word_blocks(scored)
            file = self.partial / f"{stream.prefix}{records.WORDS_FILE}"
            write_text(file, records.text_of(scored))
        return result


def _evaluate_source(context: Context, partial: Path) -> dict[str, Any]:
    """Score the source itself, in its own vocabulary, on the words of the streams that ask for it.

    Returns:
        By stream, as `records.word_metrics`; the words go into files.
    """
    recipe = context.recipe
    tokenizer = stages.source_tokenizer(recipe)
    assert tokenizer is not None, "the recipe checks that there is a source"
    loaded = load_model(str(recipe.source.model), recipe.source.revision)
    scorer = Scorer(loaded.model, TokenIds.of(tokenizer).pad, recipe.hardware.precision)
    longest = stages.position_settings(recipe)[1]
    result = {}
    for stream in recipe.scored:
        if stream.name in recipe.evaluation.before:
            scored = words.measure(scorer, tokenizer, _words(context, stream), longest)
            write_text(partial / f"{stream.prefix}{records.BEFORE_FILE}", records.text_of(scored))
            result[stream.name] = records.word_metrics(scored)
    return result


def _words(context: Context, stream: Stream) -> list[words.Word]:
    """Choose the words of a stream's test text that are scored."""
    section = context.recipe.evaluation
    corpus = folder_of(context.run.stage("corpus").path, stream)
    return words.choose(read_lines(corpus / "test.txt"), section.max_words, section.seed)


def _evaluate_documents(context: Context, model: causal_evaluation.ScoredModel) -> dict[str, Any]:
    """Evaluate a causal model and its source on the test documents of every stream."""
    recipe, section = context.recipe, context.recipe.evaluation
    text, folder = context.run.stage("corpus").path, context.run.stage("tokenizer").path
    held_out = {}
    for stream in recipe.scored:
        nonempty(Tokens.open(folder, f"{stream.prefix}test"), "test")
        whole = list(documents.read(folder_of(text, stream) / "test.txt"))
        held_out[stream.name] = causal_evaluation.choose_documents(whole, section.max_sentences)
    old_tokenizer = stages.source_tokenizer(recipe)
    new = None if old_tokenizer is None else likelihood.new_pieces(model.tokenizer, old_tokenizer)
    ids = TokenIds.of(model.tokenizer, "causal")
    scores = {}
    for stream in recipe.scored:
        of_stream = causal_evaluation.score_documents(model, held_out[stream.name], new)
        counts = Tokens.open(folder, f"{stream.prefix}train").counts(ids.size)
        unigrams = intrinsic.unigram_entropy(counts, of_stream.pop("targets"), ids.ordinary)
        scores[stream.name] = of_stream | {"samples": [], "unigram_entropy": unigrams}
    result = dict(scores[recipe.scored[0].name])
    more = causal_evaluation.score_kept_and_sample(model, section, held_out)
    result |= more | {"blocks": result["blocks"] | more["blocks"]}
    if recipe.streams:
        result["streams"] = scores
    source = causal_evaluation.evaluate_source(recipe, held_out, model.context)
    return result if source is None else result | {"untouched": source}


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
    """Score sentences under both masking schemes, and predict in samples of them.

    Of an encoder–decoder what its decoder writes when spans are hidden is scored, given what it has
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
    name = tokenizer_files.name_of(tokenizer_files.plain_backend(tokenizer_files.fast(tokenizer)))
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
