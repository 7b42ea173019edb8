"""lingraft grafts a language onto a pretrained language model.

`lingraft.adapt(...)` does what `lingraft adapt` does. Importing the package is quick: torch is
loaded when work starts.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.callbacks import Callback
from lingraft.config import AdaptConfig, adapt as _adapt, names_of, recipe_of
from lingraft.errors import (
    DataError,
    LingraftError,
    RecipeError,
    TrainingError,
    UnsupportedModelError,
)
from lingraft.guest import as_guest
from lingraft.processes import stay_within_quota, wait_passively
from lingraft.recipe import Corpus, Recipe, decoding
from lingraft.run import Callbacks, Run, read_scores, scores_frame
from lingraft.work import clean_corpus, evaluate, finetune, run_study

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from lingraft.config import Paths, Texts
    from lingraft.pipeline.grafted import GraftReport

wait_passively()
stay_within_quota()

try:
    __version__ = version("lingraft")
except PackageNotFoundError:  # a checkout on the path that is not installed
    __version__ = "0+unknown"

__all__ = [
    "AdaptConfig",
    "Callback",
    "DataError",
    "LingraftError",
    "Recipe",
    "RecipeError",
    "Run",
    "TrainingError",
    "UnsupportedModelError",
    "__version__",
    "adapt",
    "clean_corpus",
    "evaluate",
    "finetune",
    "graft",
    "load",
    "read_recipe",
    "read_scores",
    "run_study",
    "train_tokenizer",
]


def adapt(  # noqa: PLR0913 - the fields of AdaptConfig, shown in a notebook
    config: AdaptConfig | Recipe | Mapping[str, Any] | Run | str | Path | None = None,
    out: str | Path | None = None,
    *,
    source: str | Path | None = None,
    text: Texts | None = None,
    language: str | None = None,
    budget: str | None = None,
    method: str | None = None,
    preset: str | None = None,
    tokenizer: str | Path | None = None,
    baselines: Sequence[str] | str = (),
    join: str | Path | None = None,
    seed: int | None = None,
    settings: Mapping[str, Any] | Sequence[str] = (),
    update: bool = False,
    force: bool = False,
    callbacks: Sequence[Callback] = (),
) -> Run:
    """Adapt a model: from raw text to RUN/model and RUN/report.html.

    `lingraft.adapt(source="FacebookAI/roberta-base", text="ko/", language="ko", budget="8h",
    out="runs/ko")`; `lingraft.adapt("recipes/demo.toml")`; a larger budget for a finished run:
    `lingraft.adapt("runs/ko", budget="16h")`. A run that was stopped goes on with the same call.

    Args:
        config: an `AdaptConfig`, a recipe (file, tables or `Recipe`) or a finished run.
        out: the run's folder; runs/NAME by default. This and what follows to `settings` are the
            fields of `AdaptConfig`, and go before those of `config`.
        source: the model to start from: folder or Hub id.
        text: raw text: files, folders or hub:DATASET; a dict of them by language.
        language: of the text, a BCP 47 code such as "ko".
        budget: of the whole run: "8h", "30m", "5Mtok", "300steps", "paper".
        method: how to adapt (`lingraft show methods`).
        preset: "auto", or the paper whose settings are taken.
        tokenizer: one that exists, in the place of a new one: folder or Hub id.
        baselines: methods to train beside it for as long.
        join: a finished run, in the place of `source`, whose languages those of `text` join.
        seed: of weights, order and masks.
        settings: more keys of a recipe, such as {"training.batch": "2048 tokens"}.
        update: bring a run of other settings up to these.
        force: delete what `out` holds first.
        callbacks: told of steps, validations and stages.

    Returns:
        The run: `run.model()`, `run.scores`, `run.plot_loss()`, `run.report`.

    Raises:
        LingraftError: whatever the caller can mend, on one line.
        KeyboardInterrupt: Ctrl-C; where it trains, with a checkpoint from which the same call goes
            on.
    """
    others = ("config", "update", "force", "callbacks")
    asked = {key: value for key, value in locals().items() if key not in (*others, "others")}
    given = {key: value for key, value in asked.items() if value is not None and value != ()}
    told = Callbacks(tuple(callbacks))
    with as_guest():
        made = _adapt(config, given, update=update, force=force, callback=told)
    return Run(made.path)


def graft(
    source: str | Path,
    tokenizer: str | Path | PreTrainedTokenizerFast | None = None,
    *,
    text: Texts | None = None,
    language: str | None = None,
    init: str = "focus",
    vocab_size: int | None = None,
    seed: int = 0,
    settings: Mapping[str, Any] | Sequence[str] = (),
) -> tuple[PreTrainedModel, PreTrainedTokenizerFast, GraftReport]:
    """Give a model another vocabulary: tokenizer and embeddings, without training.

    `model, tokenizer, report = lingraft.graft("FacebookAI/roberta-base", text="ko/")`. The model is
    an ordinary one of transformers, for its Trainer say; no folder is left behind.

    Args:
        source: a masked or causal language model or an encoder–decoder: folder or Hub id.
        tokenizer: the new vocabulary: folder, Hub id or the tokenizer itself. None trains one on
            `text`, of the source's kind.
        text: raw text in the new language: files or folders; a dict of them by language.
        language: of the text, a BCP 47 code such as "ko"; with it sentences in another script go.
        init: how new rows start: focus, mean, wechsel, omp … (`lingraft show initializers`).
        vocab_size: pieces of a vocabulary that is trained; None: by the size of the text.
        seed: of whatever is drawn or learnt.
        settings: recipe keys and values, such as {"embeddings.lexicons": ["en-ko.txt"]}.

    Returns:
        The model in fp32 on the CPU, its tokenizer, and the report: `report.tensors` says what
        became of each tensor, `report.rows` where each embedding row came from.

    Raises:
        LingraftError: whatever the caller can mend, on one line.
    """
    from lingraft.pipeline import untrained

    own = str(tokenizer) if isinstance(tokenizer, Path) else tokenizer
    keys = [f"seed={seed}", *decoding.assignments(settings)]
    with as_guest():
        return untrained.graft(
            str(source),
            own,
            names_of(text),
            language=language,
            init=init,
            vocab_size=vocab_size,
            settings=keys,
        )


def train_tokenizer(
    text: Texts,
    *,
    like: str | Path,
    vocab_size: int | None = None,
    language: str | None = None,
    settings: Mapping[str, Any] | Sequence[str] = (),
) -> PreTrainedTokenizerFast:
    """Train a tokenizer on raw text, with the algorithm and special tokens of a model's own.

    `lingraft.train_tokenizer("ko/", like="FacebookAI/roberta-base", vocab_size=16_000)`. The text
    is cleaned as `adapt` cleans it; the result does not depend on the machine.

    Args:
        text: as `graft` takes it.
        like: the model: folder or Hub id.
        vocab_size: pieces, special tokens included; None: by the size of the text.
        language: of the text, a BCP 47 code.
        settings: recipe keys and values, such as {"tokenizer.algorithm": "unigram"}.

    Raises:
        LingraftError: whatever the caller can mend, on one line.
    """
    from lingraft.pipeline import untrained

    with as_guest():
        return untrained.train_tokenizer(
            names_of(text),
            like=str(like),
            language=language,
            vocab_size=vocab_size,
            settings=settings,
        )


def read_recipe(path: str | Path, settings: Mapping[str, Any] | Sequence[str] = ()) -> Recipe:
    """Read a recipe: `lingraft.read_recipe("recipes/demo.toml", {"seed": 1})`.

    Args:
        path: a TOML file.
        settings: keys and values that go before the file's.

    Returns:
        The recipe; what it leaves open is decided by its run.

    Raises:
        RecipeError: whatever is wrong with it, on one line.
    """
    return recipe_of(path, {"settings": settings})


def load(model: str | Path, revision: str | None = None) -> PreTrainedModel:
    """Load a model in fp32 on the CPU, with the modules that lingraft put into it, if any.

    Models without such modules load as well with transformers alone.

    Args:
        model: directory or Hub id.
        revision: branch, tag or commit on the Hub.

    Raises:
        LingraftError: there is no such model, or it is broken or of another family.
    """
    from lingraft.models.source import load_model

    with as_guest():
        return load_model(str(model), revision).model
