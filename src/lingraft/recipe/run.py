"""The tables of a whole run.

The table of a recipe that says how a model is judged before anybody fine-tunes it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from lingraft.devices import Device
from lingraft.recipe.base import STAGE_NAMES, Embeddings, Names, Places, Section
from lingraft.recipe.phase import Baseline, Phase, PhaseData, Training
from lingraft.recipe.streams import SHORT_FORM, Corpus, Stream, check_data, check_names

CHARACTERS_OF_A_SENTENCE = 100
"""About as many as in English: of a causal model's documents so many count as a sentence."""

SAMPLE_TOKENS = 64
"""Tokens with which a causal model goes on with the beginning of a document, at most."""
SAMPLES_AT_ONCE = 8
"""Beginnings that it goes on with together: as slow as one alone, but for large models."""


class Evaluation(Section):
    """Intrinsic evaluation on the test text."""

    max_sentences: Annotated[int, Field(ge=1)] = 10_000
    """At most this many test sentences."""
    masking_rate: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Share of the tokens that is masked; from an encoder–decoder what the last phase hid is
    hidden."""
    max_words: Annotated[int, Field(ge=0)] = 2_000
    """Words that are scored for bits per character (the measure that compares vocabularies); 0
    leaves it out."""
    before: Names = ()
    """Streams on whose words the source itself is scored too, in its own vocabulary: the report
    then says whether its languages were kept or lost."""
    samples: Annotated[int, Field(ge=0)] = 8
    """Masked sentences with predictions for the report; of a causal model, beginnings of documents
    that it goes on with."""
    untouched: bool = True
    """For a causal model: score the source too, as it is and in its own vocabulary, on the same
    bytes. A model must beat it to have gained anything."""
    kept: Names = ()
    """For a causal model: texts of the source's language, files that took no part in training. The
    model and the source are scored on them: how much of the source's language is left."""
    prompts: str | None = None
    """For a causal model with a chat template: a file of prompts (as corpus.text, a line each). The
    report says, of the model and its source, how many answers end, and end as turns do."""
    seed: int = 0
    """Decides the masks and what samples of text draw; leave it when you change the run's seed, so
    that runs compare."""

    @model_validator(mode="after")
    def _distinct(self) -> Evaluation:
        stems = [Path(name).name for name in self.kept]
        if twice := [stem for stem in stems if stems.count(stem) > 1]:
            raise ValueError(f"kept: two texts are called '{twice[0]}'; rename one")
        return self


class Source(Section):
    """The pretrained model that the language is grafted onto."""

    model: str | None = None
    """A masked or causal language model, or an encoder–decoder: a directory, a Hub id (say
    FacebookAI/roberta-base), or a name of `lingraft show models`."""
    revision: str | None = None
    """Branch, tag or commit on the Hub."""
    architecture: dict[str, Any] | None = None
    """Instead of a model: a configuration to train from nothing (needs method 'scratch'); must hold
    `model_type`."""

    @model_validator(mode="after")
    def _one_of(self) -> Source:
        if (self.model is None) == (self.architecture is None):
            raise ValueError("give either 'model' (a directory or Hub id) or 'architecture'")
        if self.architecture is not None and "model_type" not in self.architecture:
            raise ValueError("'architecture' needs 'model_type', such as \"modernbert\"")
        return self


KEEPING = ("keep", "extend", "append", "add", "trim")
"""Actions in which pieces of the source's vocabulary go on, and with them their rows."""
UNSIZED = ("keep", "extend", "trim")
"""Actions of these that `tokenizer.vocab_size` says nothing about."""
OLD = ("keep", "trim")
"""Actions without a new piece."""


class Tokenizer(Section):
    """The target language's own vocabulary."""

    action: Literal["new", "replace", "keep", "extend", "append", "add", "trim", "use"] = "new"
    """Action to take. 'new': a vocabulary of the text's own, by `algorithm`. 'replace': the same by
    the source's algorithm, which also takes over the source's split pattern, digits, byte fallback
    and all special tokens; 'new' does so too where a causal model's algorithm is the source's.
    'keep': the source's vocabulary, unchanged. 'trim': those of its pieces that the text uses.
    'extend': the source's, and more pieces, by going on with its byte-pair merges on the text.
    'append': the source's, and what it lacks of a vocabulary of `vocab_size` pieces that is trained
    on the text alone. That works for all kinds, but some pieces can be unreachable. 'add': by up to
    `vocab_size` pieces as 'extend' does where the source has merges, else 'append'. 'use': one that
    exists already, `model`."""
    algorithm: Literal["source", "unigram", "byte-bpe", "wordpiece"] = "source"
    """With 'new': the vocabulary's algorithm; 'source': that of the source's tokenizer."""
    model: str | None = None
    """With 'use': the folder of a tokenizer, or the Hub id of a model that has one."""
    revision: str | None = None
    """With 'use': branch, tag or commit on the Hub."""
    vocab_size: Annotated[int, Field(ge=32, le=2_000_000)] = 50_000
    """Pieces of a vocabulary that is trained, special tokens included; a small corpus may give
    fewer. Has no effect with 'keep', 'trim' and 'extend'; of 'use' it is counted."""
    new_pieces: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """The most pieces that 'extend' adds."""
    normalization: Literal["nfc", "nfkc"] = "nfc"
    """Unicode form that the tokenizer brings text into. With nfc the text that comes back from its
    tokens is exactly the same."""
    character_coverage: Annotated[float, Field(gt=0.0, le=1.0)] = 0.9995
    """Share of the text's characters that Unigram and WordPiece keep; the rest becomes unknown."""
    max_train_sentences: Annotated[int, Field(ge=1)] = 2_000_000
    """Train the vocabulary on at most this many sentences, spread over the corpus; 'trim' reads all
    of it."""
    streams: Names = ()
    """The streams whose text the vocabulary is trained on; none named takes all but those that are
    replayed, which 'trim' reads too."""
    language_code: str | None = None
    """For mBART and M2M/NLLB, whose sentences carry a language code: the special token of the
    target's language. It may be one of the source's, such as that of a related language, or a new
    one. None takes the source's own code of the language."""
    max_tokens: Annotated[int, Field(ge=8, le=65_536)] = 512
    """Longer sentences are cut into pieces of at most this many tokens, special tokens included."""

    @model_validator(mode="after")
    def _whose(self) -> Tokenizer:
        if (self.action == "use") != (self.model is not None):
            raise ValueError("'model' and action = 'use' go together; give both or neither")
        if self.action != "new" and self.algorithm != "source":
            raise ValueError(
                f"'algorithm' is of action = 'new', not '{self.action}'; leave one of both out"
            )
        if self.revision is not None and self.model is None:
            raise ValueError("'revision' is of 'model'; leave it out")
        return self

    def most_rows(self, source: int) -> int:
        """Return the most rows that the target's embeddings have, by how many the source has."""
        added = {"keep": 0, "extend": self.new_pieces, "trim": 0}
        if self.action in KEEPING:
            return source + added.get(self.action, self.vocab_size)
        return self.vocab_size


class Graft(Section):
    """Layers and weights that the model starts with."""

    source_weights: Literal["pretrained", "random"] = "pretrained"
    """'random' keeps the architecture and draws every weight anew (scratch, and the 'w/ random'
    ablation); rows that [embeddings] takes from the source are still the pretrained ones."""
    inserted_before: Annotated[int, Field(ge=0, le=1_000)] = 1
    """Implicit translation layers (ITL) before the first source layer."""
    inserted_after: Annotated[int, Field(ge=0, le=1_000)] = 1
    """Implicit translation layers after the last source layer."""
    inserted_every: Annotated[int, Field(ge=0, le=1_000)] = 0
    """Insert a layer after every so many source layers (LLaMA Pro); 0 has none between them."""
    inserted_init: Literal["random", "copy", "identity"] = "random"
    """Start of inserted layers. 'random': drawn as the family draws its own (the paper). 'copy': a
    copy of the neighbouring source layer. 'identity': such a copy that adds nothing at first, so
    that the model starts as the source was. Not all families can: `lingraft show families`."""
    adapters: Annotated[int, Field(ge=0)] | Literal["matched"] = 0
    """Width of the bottleneck adapters in every layer (Houlsby et al. 2019); 0 has none. 'matched'
    gives them as many parameters as two implicit translation layers have. The model that comes out
    then needs lingraft to load."""
    cross_attention: bool = False
    """Cross-attention between self-attention and feed-forward of every layer, which the objective
    `ca_mlm` trains (VECO). Stock transformers loads the resulting model without it, lingraft with
    it."""

    @property
    def places(self) -> Places:
        """Return the places of inserted layers."""
        return Places(self.inserted_before, self.inserted_after, self.inserted_every)


MICRO_BATCH = 4_096
"""Tokens that go through a model at once, where nothing is known of the machine."""


class Hardware(Section):
    """Use of the machine. Nothing here changes what is learnt, up to rounding."""

    device: Device = "auto"
    """Device: auto is CUDA's first GPU that CUDA_VISIBLE_DEVICES shows, else the CPU."""
    precision: Literal["auto", "bf16", "fp16", "fp32"] = "auto"
    """auto: bf16 (weights stay fp32) where it is fast, else on a GPU fp16, else fp32."""
    row_tokens: Annotated[int, Field(ge=16, le=65_536)] = 128
    """Sentences are packed into rows of so many tokens; a longer one makes its rows longer."""
    micro_batch_tokens: Annotated[int, Field(ge=16)] | None = None
    """Tokens that go through the model at once, per process; larger batches are accumulated. None:
    4,096, and in the phases of a run on a GPU as many as half of its memory holds, by an estimate,
    up to 32,768; a study's cells may share one, so there it is 4,096. Where a single
    process runs out of memory it is halved."""
    gradient_checkpointing: bool = False
    """Keep only what enters each layer and compute the rest again for the backward pass: less
    memory, about a third more operations, the same gradients."""
    sharding: Literal["none", "fsdp2"] = "none"
    """With several processes: each keeps the whole model (none), or its part of weights, gradients
    and optimizer state (fsdp2)."""
    compile: Literal["auto"] | bool = "auto"
    """Compile the layers (torch.compile): the first steps take minutes. Needs a C++ compiler or, on
    a GPU, Triton. auto: on a GPU, in phases of 50 million tokens or more (not measured), whose
    budget is not in time."""
    checkpoint_minutes: Annotated[float, Field(gt=0)] = 10.0
    """Write a checkpoint at least every so many minutes."""
    checkpoint_steps: Annotated[int, Field(ge=1)] | None = None
    """Write one also every so many steps."""
    log_steps: Annotated[int, Field(ge=1)] = 10
    """Write a line to metrics.jsonl every so many steps."""
    trackers: Annotated[
        tuple[Literal["tensorboard", "wandb", "mlflow"], ...], Field(strict=False)
    ] = ()
    """Also send the metrics there (needs the extra of that name)."""

    @property
    def at_once(self) -> int:
        """Return `micro_batch_tokens`, or 4,096."""
        return self.micro_batch_tokens or MICRO_BATCH


class Export(Section):
    """Form of the model that comes out, and its card."""

    license: str | None = None
    """Licence identifier for the model card, as the Hub spells it; None leaves it open and says so.
    """
    data_license: str | None = None
    """Licence of the text, for the model card."""
    dtype: Literal["source", "fp32", "bf16", "fp16"] = "source"
    """Numbers in which RUN/model is stored; 'source': those of the source's files. Training and
    evaluation are in fp32 weights."""


class Recipe(Section):
    """A whole run."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] = "run"
    """Names the run: letters, digits, '.', '_' and '-'."""
    language: str | None = None
    """BCP 47 code of the target language, such as ko."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Decides initial weights, order of the data and training masks."""
    source: Source
    """The model to graft onto."""
    corpus: Corpus | None = None
    """The text."""
    streams: Annotated[tuple[Stream, ...], Field(strict=False)] = ()
    """Several texts, each in a language, instead of `language` and [corpus]. What a report says in
    one number is of the first."""
    tokenizer: Tokenizer = Tokenizer()
    """The vocabulary."""
    training: Training = Training()
    """Shorthand for graft, embeddings and phases."""
    graft: Graft = Graft()
    """Layers and weights to start with."""
    embeddings: Embeddings = Embeddings()
    """Embedding rows to start with."""
    phases: Annotated[tuple[Phase, ...], Field(strict=False)] = ()
    """Training, in order; filled in by the method where absent."""
    baselines: Annotated[tuple[Baseline, ...], Field(strict=False)] = ()
    """Methods to compare with."""
    hardware: Hardware = Hardware()
    """Use of the machine."""
    evaluation: Evaluation = Evaluation()
    """Intrinsic evaluation."""
    export: Export = Export()
    """The model that comes out."""

    @property
    def texts(self) -> tuple[Stream, ...]:
        """Return the streams; `language` and [corpus] are the short form of one."""
        if self.streams:
            return self.streams
        language, corpus = self.language, self.corpus
        return (Stream.model_construct(name=SHORT_FORM, language=language, corpus=corpus),)

    @property
    def scored(self) -> tuple[Stream, ...]:
        """Return the streams that models are scored on: not what a model has written."""
        return tuple(stream for stream in self.texts if not stream.is_written)

    @property
    def languages(self) -> tuple[str, ...]:
        """Return each language once, in the order of the streams."""
        return tuple(dict.fromkeys(code for stream in self.texts for code in stream.languages))

    @property
    def keeps_rows(self) -> bool:
        """Return whether pieces of the source's vocabulary go on, with the rows that it learnt."""
        return self.tokenizer.action in KEEPING and self.graft.source_weights == "pretrained"

    def read_in(self, phase: Phase) -> list[tuple[PhaseData, Stream]]:
        """Return what a phase reads, and of which stream; all streams where it says nothing."""
        streams = {stream.name: stream for stream in self.texts}
        entries = phase.data or [PhaseData(stream=name) for name in streams]
        return [(entry, streams[entry.stream]) for entry in entries]

    @property
    def split_seed(self) -> int:
        """Return the seed that decides which sentences are held out and in smaller sets."""
        return self.texts[0].corpus.split_seed

    @model_validator(mode="after")
    def _one_text(self) -> Recipe:
        given = [bool(self.language), bool(self.corpus)]
        if any(given) if self.streams else not all(given):
            raise ValueError("give either language and corpus, or [[streams]] alone")
        names = tuple(stream.name for stream in self.texts)
        if len(set(names)) != len(names):
            raise ValueError(
                f"streams: two streams have the same name, in {list(names)}; give each its own"
            )
        check_names("tokenizer.streams", self.tokenizer.streams, names)
        check_names("evaluation.before", self.evaluation.before, names)
        if self.evaluation.before and self.source.model is None:
            raise ValueError("evaluation.before: there is no source model to score")
        for phase in self.phases:
            check_data(phase, names)
        return self

    @model_validator(mode="after")
    def _distinct_names(self) -> Recipe:
        names = [*STAGE_NAMES, *(phase.name for phase in self.phases)]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"phases: '{twice[0]}' names two folders; name it phase-1, say")
        methods = [section.method for section in self.baselines]
        if twice := [name for name in methods if methods.count(name) > 1]:
            raise ValueError(f"baselines: '{twice[0]}' is there twice; a study compares its rates")
        return self
