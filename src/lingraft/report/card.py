"""Model cards: README.md as the Hub reads it, with YAML front matter.

`card` writes those of runs, of fine-tuned models and of grafts. Local paths stay on the machine: a
card holds file names only. What it quotes from files and recipes is escaped for Markdown.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import langcodes
import tomli_w
from markupsafe import Markup

from lingraft.corpus.readers.columns import HUB_PREFIX, hub_parts
from lingraft.models.families.record import KINDS
from lingraft.models.modules import MODULES, wanted_by
from lingraft.recipe.streams import MODEL_PREFIX
from lingraft.report import tables
from lingraft.report.page import Heading, PageText, section
from lingraft.report.pages import run as run_page, sections
from lingraft.report.table import Table, markdown, plain
from lingraft.report.variants import VERSION_KEYS, kind_of, labelled
from lingraft.report.verdict import verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lingraft.models.families.record import KindName
    from lingraft.report.page import Part
    from lingraft.report.variants import TrainedModel
    from lingraft.rundir import Run

TASKS: dict[KindName, tuple[str, str]] = {
    "masked": ("fill-mask", "It fills in masked tokens and is a start for fine-tuning."),
    "causal": (
        "text-generation",
        "It goes on with text and is a start for fine-tuning; what it writes can be wrong.",
    ),
    "seq2seq": (
        "text2text-generation",
        "It writes what is hidden from it and nothing else: fine-tune it.",
    ),
}
"""The Hub's name of what a kind of model does, and its limits."""
UNKNOWN = "not stated (whoever publishes the model has to find out)"
BIAS = (
    "It knows the kind of text it was trained on; what that text leaves out or gets wrong, and its "
    "prejudices, the model has too{}. It follows no instructions, was not measured on tasks, and "
    "has not been tested for harmful bias."
)
FILL = """\
fill = pipeline("fill-mask", model={load}, tokenizer=tokenizer)
for guess in fill({example}):
    print(f"{{guess['score']:.3f}} {{guess['token_str']}}")"""
WRITE = """\
model = {load}
encoded = tokenizer({example}, return_tensors="pt")
print(tokenizer.decode(model.generate(**encoded, max_new_tokens=40)[0]))"""
EXAMPLE = """\
{imports}
from transformers import {used}

path = {path}
tokenizer = AutoTokenizer.from_pretrained(path)
"""


def card(title: str, parts: Iterable[Part], **metadata: Any) -> str:
    """Write a card.

    Args:
        title: of the model.
        parts: as of a page, without figures; `Markup` is Markdown that is written as it is, and
            code names its language.
        metadata: of `huggingface_hub.ModelCardData`; None is left out.
    """
    from huggingface_hub import ModelCardData  # a second's import

    front = ModelCardData(**metadata).to_yaml().strip()
    return "\n\n".join([f"---\n{front}\n---", f"# {plain(title)}", *map(_written, parts)]) + "\n"


def _written(part: Part) -> str:
    if isinstance(part, Heading):
        return f"{'#' * part.level} {plain(part.text)}"
    if isinstance(part, Table):
        return markdown(part, plain)
    assert isinstance(part, PageText)
    if part.kind == "code":
        return f"```{part.lang}\n{part.text}\n```"
    text = part.text if isinstance(part.text, Markup) else plain(part.text)
    return {"strong": "**{}**", "item": "- {}"}.get(part.kind, "{}").format(text)


def languages_in_metadata(codes: Iterable[str]) -> dict[str, Any]:
    """Return language codes as the Hub takes them: no scripts and regions in `language`."""
    known = (code for code in codes if code != "und" and langcodes.tag_is_valid(code))
    tags = list(dict.fromkeys(map(langcodes.standardize_tag, known)))
    bare = list(dict.fromkeys(tag.partition("-")[0] for tag in tags))
    lists = {"language": bare, "language_bcp47": tags if bare != tags else []}
    return {key: values for key, values in lists.items() if values}


def model_card(run: Run) -> str:
    """Write the card of the run's own model, with its baselines beside it.

    Raises:
        DataError: the folder is not a run.
    """
    models = labelled([run])
    main = models[0]
    evaluation, environment = main.result("evaluation"), main.environment or {}
    versions = [f"{key} {environment[key]}" for key in VERSION_KEYS if key in environment]
    compared, kind = tables.compare(models), kind_of(evaluation)
    export = main.recipe.export
    graft, tokenizer = main.result("graft"), main.result("tokenizer")
    made = [run_page.layers(main, graft)] if graft else []
    made += [f"Tokenizer: {run_page.tokenizer_text(tokenizer)}"] if tokenizer else []
    parts = [
        *_lead(main),
        *([PageText(verdict(compared), "strong")] if evaluation else []),
        *_use(main, kind),
        *run_page.quality(models, compared),
        *run_page.corpus(main),
        PageText(
            f"Licence of the text: {export.data_license or UNKNOWN}; of the model: "
            f"{export.license or UNKNOWN}."
        ),
        *section("Method", PageText(" ".join([f"{main.title}, seed {main.recipe.seed}.", *made]))),
        *section("What trained in each phase", run_page.schedule(models), level=3),
        *section(
            "How to reproduce it",
            PageText(f"Made with {', '.join(versions)}. Save this beside the files that it names:"),
            PageText(shareable(main).strip().replace("```", "'''"), "code", "toml"),
        ),
    ]
    return card(main.recipe.name, parts, **metadata(main, compared.lines[0].metrics))


def metadata(main: TrainedModel, measured: Mapping[str, float]) -> dict[str, Any]:
    """Return the front matter; a local base model, which the Hub cannot know, is left out."""
    from huggingface_hub import EvalResult

    recipe = main.recipe
    task, _ = TASKS[kind_of(main.result("evaluation"))]
    texts = [name for stream in recipe.texts for name in stream.corpus.text]
    names = dict.fromkeys(hub_parts(name)[0] for name in texts if name.startswith(HUB_PREFIX))
    model = recipe.source.model
    stock = all(module.exportable for module in wanted_by(recipe.graft))
    return {
        **languages_in_metadata(recipe.languages),
        "license": recipe.export.license,
        "base_model": model if sections.on_hub(model) and sections.takes_weights(recipe) else None,
        "datasets": [name for name in names if sections.on_hub(name)] or None,
        "library_name": "transformers" if stock else "lingraft",
        "pipeline_tag": task,
        "tags": ["lingraft", task, "cross-lingual-transfer", main.method],
        "model_name": recipe.name,
        "eval_results": [
            EvalResult(
                task_type=task, dataset_type="held-out", dataset_split="test",
                dataset_name=f"held-out text of the run ({recipe.scored[0].language})",
                metric_type=name, metric_value=round(value, 4), metric_name=name,
            )
            for name, value in measured.items()
            if math.isfinite(value)
        ],
    }  # fmt: skip


def _own_modules(main: TrainedModel) -> dict[str, str]:
    """Return what the model has that no class of transformers has, and how a card says it."""
    graft = main.result("graft") or {}
    return {
        part: module.card.format(size=graft[part])
        for part, module in MODULES.items()
        if graft.get(part) and not module.exportable
    }


def _lead(main: TrainedModel) -> Iterator[PageText]:
    recipe, own = main.recipe, _own_modules(main)
    local = " (a local model)" * (recipe.source.model is not None)
    local = "" if sections.on_hub(recipe.source.model) else local
    codes = ", ".join(f"`{code}`" for code in recipe.languages)
    source = plain(sections.source_name(recipe))
    yield PageText(Markup(f"A model for {codes}, made from {source}{local} with lingraft."))
    if own:
        yield PageText(
            Markup(
                f"It has {' and '.join(own.values())}, which no class of transformers has. So **it "
                "loads with lingraft alone**; the weights without them, which are another and "
                f"worse model, lie in `model.without-{'-'.join(own)}.safetensors`."
            )
        )
    else:
        yield PageText("It is a plain Hugging Face checkpoint with its own tokenizer.")


def _use(main: TrainedModel, kind: KindName) -> list[Part]:
    tokenizer, evaluation = main.result("tokenizer"), main.result("evaluation") or {}
    mask = str(tokenizer["specials"].get("mask", ["<extra_id_0>"])[0]) if tokenizer else "<mask>"
    if kind == "causal":
        example = str((evaluation.get("generated") or [{"beginning": "1."}])[0]["beginning"])
    else:  # a sentence of the test text with one word hidden
        words = str((evaluation.get("samples") or [{"text": ""}])[0]["text"]).split()
        middle = len(words) // 2
        example = " ".join([*words[:middle], mask, *words[middle + 1 :]])
    own, auto = bool(_own_modules(main)), KINDS[kind].auto_class
    used = {"AutoTokenizer", *([] if own else [auto]), *(["pipeline"] if kind == "masked" else [])}
    code = EXAMPLE + (FILL if kind == "masked" else WRITE)
    code = code.format(
        imports="import lingraft" if own else "",
        used=", ".join(sorted(used)),
        path=json.dumps("path/to/this/folder"),
        load="lingraft.load(path)" if own else f"{auto}.from_pretrained(path)",
        example=json.dumps(example, ensure_ascii=False).replace("`", "\\u0060"),
    ).strip()
    inherits = "; so it may inherit those of the source model"
    limits = BIAS.format(inherits if sections.takes_weights(main.recipe) else "")
    return section(
        "How to use it", PageText(code, "code", "python"), PageText(f"{TASKS[kind][1]} {limits}")
    )


def shareable(main: TrainedModel) -> str:
    """Return a recipe as TOML without the folders of this machine: paths are cut to file names."""

    def shared(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: shared(item) for name, item in value.items()}
        if isinstance(value, list):
            return [shared(item) for item in value]
        if isinstance(value, str) and value.startswith(MODEL_PREFIX):
            name, hash_sign, tokens = value.removeprefix(MODEL_PREFIX).partition("#")
            return f"{MODEL_PREFIX}{shared(name)}{hash_sign}{tokens}"
        is_path = isinstance(value, str) and ("/" in value or "\\" in value)
        is_path = is_path and not value.startswith(HUB_PREFIX) and not sections.on_hub(value)
        return Path(value).name if is_path else value

    return tomli_w.dumps(shared(main.recipe.model_dump(mode="json", exclude_none=True)))
