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
from lingraft.models.kinds import KINDS
from lingraft.models.modules import MODULES, wanted_by
from lingraft.report import numbers, tables, vocabulary
from lingraft.report.page import Folded, Heading, Text, section
from lingraft.report.pages import run as run_page
from lingraft.report.pages import sections
from lingraft.report.table import Table, markdown, plain
from lingraft.report.variants import VERSION_KEYS, headline, kind_of, labelled
from lingraft.report.verdict import verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lingraft.models.kinds import KindName
    from lingraft.recipe import Recipe
    from lingraft.report.page import Part
    from lingraft.report.variants import Variant
    from lingraft.rundir import Run

    Results = Mapping[str, Any] | None

METRICS = {
    "perplexity": "perplexity", "hits@1": "hits@1", "hits@5": "hits@5", "hits@10": "hits@10",
    "mrr": "mean reciprocal rank", "mr": "mean rank",
}  # fmt: skip
BITS = ("bits_per_character", "bits_per_byte")
TASKS: dict[KindName, tuple[str, str, str]] = {
    "masked": ("fill-mask", "Masked language modelling", "A masked language model"),
    "causal": ("text-generation", "Causal language modelling", "A causal language model"),
    "seq2seq": ("text2text-generation", "Denoising", "An encoder–decoder"),
}
"""The Hub's name of what a kind of model does, ours, and what such a model is."""
LIMITS: dict[KindName, str] = {
    "masked": "It fills in masked tokens and is a start for fine-tuning.",
    "causal": "It goes on with text and is a start for fine-tuning; what it writes can be wrong.",
    "seq2seq": "It writes what is hidden from it and nothing else: fine-tune it.",
}
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
SHOWN = (*VERSION_KEYS, "platform", "cpu", "devices", "threads", "precision")


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
    assert isinstance(part, Text)
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
    variants = labelled([run])
    main = variants[0]
    evaluation = main.result("evaluation")
    compared, kind = tables.compare(variants), kind_of(evaluation)
    environment = main.environment or {}
    shown = sections.environment({key: environment[key] for key in SHOWN if key in environment})
    facts = (f"{row.cells[0].text} {row.cells[1].text}" for row in shown.rows)
    parts = [
        *_lead(main, kind),
        *([Text(verdict(compared), "strong")] if evaluation else []),
        *_use(main, kind),
        *(part for part in run_page.quality(variants, compared) if not isinstance(part, Folded)),
        *run_page.corpus(main),
        *_licences(main.recipe),
        *_method(main),
        *section("What trained in each phase", sections.schedule(variants), level=3),
        *section("Environment", Text(", ".join(facts) or "Not recorded.")),
        *section(
            "How to reproduce it",
            Text("Save this as recipe.toml beside the files it names: lingraft adapt recipe.toml"),
            Text(shareable(main.recipe).strip().replace("```", "'''"), "code", "toml"),
        ),
    ]
    return card(main.recipe.name, parts, **metadata(main))


def metadata(main: Variant) -> dict[str, Any]:
    """Return the front matter; a local base model, which the Hub cannot know, is left out."""
    from huggingface_hub import EvalResult

    recipe, evaluation = main.recipe, main.result("evaluation")
    task, task_name, _ = TASKS[kind_of(evaluation)]
    measured: dict[str, float] = {}
    if evaluation is not None:
        scores = evaluation["metrics"][headline(evaluation)]
        bits = evaluation.get("words") or evaluation.get("likelihood") or {}
        found = {name: scores[name] for name in METRICS} | {name: bits.get(name) for name in BITS}
        measured = {k: float(v) for k, v in found.items() if v is not None and math.isfinite(v)}
    languages = languages_in_metadata(recipe.languages)
    if len(languages.get("language", ())) == 1:
        (languages["language"],) = languages["language"]
    names = [
        hub_parts(name)[0]
        for stream in recipe.texts
        for name in stream.corpus.text
        if name.startswith(HUB_PREFIX)
    ]
    stock = all(module.exportable for module in wanted_by(recipe.graft))
    return {
        **languages,
        "license": recipe.export.license,
        "base_model": sections.hub_source(recipe) if sections.takes_weights(recipe) else None,
        "datasets": [name for name in dict.fromkeys(names) if sections.on_hub(name)] or None,
        "library_name": "transformers" if stock else "lingraft",
        "pipeline_tag": task,
        "tags": ["lingraft", task, "cross-lingual-transfer", main.method],
        "model_name": recipe.name,
        "eval_results": [
            EvalResult(
                task_type=task, task_name=task_name, dataset_type="held-out", dataset_split="test",
                dataset_name=f"held-out text of the run ({recipe.texts[0].language})",
                metric_type=name, metric_value=round(value, 4),
                metric_name=METRICS.get(name, name.replace("_", " ")),
            )
            for name, value in measured.items()
        ],
    }  # fmt: skip


def _own_modules(main: Variant) -> dict[str, str]:
    """Return what the model has that no class of transformers has, and how a card says it."""
    graft = main.result("graft") or {}
    return {
        part: module.card.format(size=graft[part])
        for part, module in MODULES.items()
        if graft.get(part) and not module.exportable
    }


def _lead(main: Variant, kind: KindName) -> Iterator[Text]:
    recipe, own = main.recipe, _own_modules(main)
    source = sections.source_name(recipe)
    if recipe.source.model is not None and sections.hub_source(recipe) is None:
        source = f"“{source}” (a local model)"
    codes = ", ".join(f"`{code}`" for code in recipe.languages)
    several = "s" if len(recipe.languages) > 1 else ""
    yield Text(
        Markup(
            f"{TASKS[kind][2]} for the language{several} with the code{several} {codes}, made from "
            f"{plain(source)} with lingraft."
        )
    )
    if own:
        yield Text(
            Markup(
                f"It has {' and '.join(own.values())}, which no class of transformers has. So **it "
                "loads with lingraft alone**; the weights without them, which are another and "
                f"worse model, lie in `model.without-{'-'.join(own)}.safetensors`."
            )
        )
    else:
        yield Text("It is a plain Hugging Face checkpoint with its own tokenizer.")


def _use(main: Variant, kind: KindName) -> list[Part]:
    tokenizer, evaluation = main.result("tokenizer"), main.result("evaluation")
    mask = str(tokenizer["specials"].get("mask", ["<extra_id_0>"])[0]) if tokenizer else "<mask>"
    example = _beginning(evaluation) if kind == "causal" else _example(evaluation, mask)
    own, auto = bool(_own_modules(main)), KINDS[kind].auto_class
    used = {"AutoTokenizer", *([] if own else [auto]), *(["pipeline"] if kind == "masked" else [])}
    code = EXAMPLE + (FILL if kind == "masked" else WRITE)
    code = code.format(
        imports="import lingraft" if own else "",
        used=", ".join(sorted(used)),
        path=json.dumps(main.recipe.export.push_to_hub or "path/to/this/folder"),
        load="lingraft.load(path)" if own else f"{auto}.from_pretrained(path)",
        example=json.dumps(example, ensure_ascii=False).replace("`", "\\u0060"),
    ).strip()
    inherits = "; so it may inherit those of the source model"
    limits = BIAS.format(inherits if sections.takes_weights(main.recipe) else "")
    told = "" if kind == "causal" else f" What stands for hidden text is {mask}."
    return section(
        "How to use it",
        Text(code, "code", "python"),
        Text(f"{LIMITS[kind]}{told} {limits}"),
    )


def _example(evaluation: Results, mask: str) -> str:
    """Return a sentence of the test text with one word hidden; just the mask without one."""
    texts = [str(sample["text"]) for sample in evaluation["samples"]] if evaluation else []
    words = texts[0].split() if texts else []
    if len(words) < 2:
        return f"{words[0]} {mask}" if words else mask
    words[len(words) // 2] = mask
    return " ".join(words)


def _beginning(evaluation: Results) -> str:
    """Return how a held-out document begins; what begins a list anywhere where none is kept."""
    generated = (evaluation or {}).get("generated") or [{"beginning": "1."}]
    return str(generated[0]["beginning"])


def _licences(recipe: Recipe) -> Iterator[Text]:
    unknown = "not stated. Whoever publishes the model has to find out"
    yield Text(f"Licence of the text: {recipe.export.data_license or unknown}.")
    yield Text(f"Licence of the model: {recipe.export.license or unknown}.")


def _method(main: Variant) -> list[Part]:
    recipe, graft, tokenizer = main.recipe, main.result("graft"), main.result("tokenizer")
    text = f"{main.title} (preset {recipe.training.preset}), seed {recipe.seed}."
    if graft is not None:
        counts = sections.by_count(graft["embeddings"]["provenance"]).items()
        rows = ", ".join(f"{rule} {numbers.count(n)}" for rule, n in counts)
        text += (
            f" {run_page.layers(main.recipe, graft)} "
            f"{numbers.count(graft['parameters']['total'])} parameters; rows of embeddings: {rows}."
        )
    if tokenizer is not None:
        name = recipe.tokenizer.model
        taken = "" if name is None else ", taken over from a local tokenizer"
        if name is not None and sections.on_hub(name):
            taken = f", taken over from {name}"
        pieces = numbers.count(tokenizer["vocab_size"])
        text += f" Tokenizer: {tokenizer['kind']}, {pieces} pieces{taken}. "
        text += " ".join(vocabulary.facts(tokenizer))
    return section("Method", Text(text))


# -- recipes for others


FILES = {
    "text", "decontaminate", "lexicons", "source_text", "source_vectors", "target_vectors", "kept",
}  # fmt: skip
"""Keys of a recipe that name files."""
MODELS = ("model", "teacher")
"""Keys that name a model: a folder, or an id on the Hub."""


def shareable(recipe: Recipe) -> str:
    """Return a recipe as TOML without the folders of this machine: paths are cut to file names."""
    return tomli_w.dumps(_shared(recipe.model_dump(mode="json", exclude_none=True)))


def _shared(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _shared(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_shared(item, key) for item in value]
    if not isinstance(value, str):
        return value
    if key in FILES:
        return sections.file_name(value)
    return Path(value).name if key in MODELS and not sections.on_hub(value) else value
