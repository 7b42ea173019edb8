"""The model card: README.md as the Hub reads it, with YAML front matter.

Local paths stay on the machine: the card holds file names only. What it quotes from files and
recipes is escaped for Markdown.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import langcodes
import yaml

from lingraft.corpus.readers.columns import HUB_PREFIX, hub_parts
from lingraft.models.kinds import KINDS
from lingraft.models.modules import MODULES, wanted_by
from lingraft.recipe import decoding
from lingraft.report import numbers, page, tables
from lingraft.report.pages import sections
from lingraft.report.table import markdown, plain, row, table
from lingraft.report.variants import (
    HEADLINE_SCHEME,
    VERSION_KEYS,
    Variant,
    headline,
    kind_of,
    labelled,
    writes,
)
from lingraft.report.verdict import verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lingraft.models.kinds import KindName
    from lingraft.recipe import Corpus, Embeddings, Evaluation, Phase, Recipe
    from lingraft.rundir import Run

FINGERPRINT = 12
"""Characters of one that tell two texts apart."""
INDEX_METRICS = {
    "perplexity": "perplexity", "hits@1": "hits@1", "hits@5": "hits@5", "hits@10": "hits@10",
    "mrr": "mean reciprocal rank", "mr": "mean rank",
}  # fmt: skip
TASKS: dict[KindName, tuple[str, str]] = {
    "masked": ("fill-mask", "Masked language modelling"),
    "causal": ("text-generation", "Causal language modelling"),
    "seq2seq": ("text2text-generation", "Denoising"),
}
"""The Hub's name of what a kind of model does, and ours."""
TITLES: dict[KindName, str] = {
    "masked": "A masked language model",
    "causal": "A causal language model",
    "seq2seq": "An encoder–decoder",
}
SHOWN_ENVIRONMENT = (*VERSION_KEYS, "platform", "cpu", "devices", "threads", "precision")


def model_card(run: Run) -> str:
    """The card of the run's own model, with its baselines beside it.

    Raises:
        DataError: the folder is not a run.
    """
    variants = labelled([run])
    # Markdown: what comes from outside goes through `plain`
    template = page.environment(autoescape=False).get_template("card.md.j2")
    return template.render(_context(variants))


def _context(variants: Sequence[Variant]) -> dict[str, Any]:
    main = variants[0]
    recipe = main.recipe
    tokenizer, graft, evaluation = map(main.result, ("tokenizer", "graft", "evaluation"))
    compared, kind = tables.compare(variants), kind_of(evaluation)
    by_stream, schedule = sections.languages(variants), sections.schedule(variants)
    mask = str(tokenizer["specials"].get("mask", ["<extra_id_0>"])[0]) if tokenizer else "<mask>"
    return {
        "front_matter": as_yaml(front_matter(main)),
        "name": plain(recipe.name),
        "codes": recipe.languages,
        "source": _source(recipe),
        "verdict": plain(verdict(compared)) if evaluation else None,
        "model_argument": json.dumps(recipe.export.push_to_hub or "path/to/this/folder"),
        "example": json.dumps(
            _beginning(evaluation) if kind == "causal" else _example(evaluation, mask),
            ensure_ascii=False,
        ).replace("`", "\\u0060"),
        "mask": plain(mask),
        "writes": writes(evaluation),
        "kind": kind,
        "auto_class": KINDS[kind].auto_class,
        "title": TITLES[kind],
        "corpus": _corpus(main),
        "data_licence": _one_line(recipe.export.data_license),
        "licence": _one_line(recipe.export.license),
        "method": f"{main.title} (preset {recipe.training.preset})",
        "seed": recipe.seed,
        "takes_weights": sections.takes_weights(recipe),
        "drawn": recipe.graft.source_weights == "random",
        "graft": graft,
        "new_layers": sections.new_layers(graft) if graft else None,
        "parameters": numbers.count(graft["parameters"]["total"]) if graft else None,
        "provenance": _counts(graft["embeddings"]["provenance"]) if graft else None,
        "tokenizer": tokenizer,
        "pieces": numbers.count(tokenizer["vocab_size"]) if tokenizer else None,
        "pieces_from": _pieces_from(recipe, tokenizer),
        "modules": _modules(graft or {}),
        "schedule": markdown(schedule, plain) if schedule.rows else None,
        "metrics": _metrics(variants) if evaluation else None,
        "languages": markdown(by_stream, plain) if by_stream else None,
        "unigrams": numbers.significant(math.exp(evaluation["unigram_entropy"]))
        if evaluation
        else None,
        "notes": [plain(note) for note in compared.notes],
        "max_tokens": (tokenizer or {}).get("max_tokens"),
        "environment": _environment(main.environment),
        "recipe": decoding.to_toml(shareable(recipe)).strip().replace("```", "'''"),
    }


def languages_in_metadata(codes: Iterable[str]) -> dict[str, Any]:
    """Language codes as the Hub takes them: no scripts and regions in `language`."""
    known = (code for code in codes if code != "und" and langcodes.tag_is_valid(code))
    tags = list(dict.fromkeys(map(langcodes.standardize_tag, known)))
    bare = list(dict.fromkeys(tag.partition("-")[0] for tag in tags))
    lists = {"language": bare, "language_bcp47": tags if bare != tags else []}
    return {key: values for key, values in lists.items() if values}


def front_matter(main: Variant) -> dict[str, Any]:
    """The metadata of the card; a local base model, which the Hub cannot know, is left out."""
    recipe, evaluation = main.recipe, main.result("evaluation")
    base, hub_data = sections.hub_source(recipe), _hub_datasets(recipe)
    data = languages_in_metadata(recipe.languages)
    if len(data.get("language", ())) == 1:
        (data["language"],) = data["language"]
    if recipe.export.license is not None:
        data["license"] = recipe.export.license
    if base is not None and sections.takes_weights(recipe):
        data["base_model"] = base
    if hub_data:
        data["datasets"] = hub_data
    stock = all(module.exportable for module in wanted_by(recipe.graft))
    data |= {
        "library_name": "transformers" if stock else "lingraft",
        "pipeline_tag": (task := TASKS[kind_of(evaluation)][0]),
        "tags": ["lingraft", task, "cross-lingual-transfer", main.method],
    }
    if evaluation is not None:
        data["model-index"] = [{"name": recipe.name, "results": [_index_result(main, evaluation)]}]
    return data


def _index_result(main: Variant, evaluation: dict[str, Any]) -> dict[str, Any]:
    measured = evaluation["metrics"][headline(evaluation)]
    metrics = [
        {"type": name, "value": round(float(measured[name]), 4), "name": title}
        for name, title in INDEX_METRICS.items()
        if math.isfinite(measured[name])
    ]
    bits = evaluation.get("words") or evaluation.get("likelihood") or {}
    for name in ("bits_per_character", "bits_per_byte"):
        if bits.get(name) is not None:
            value = round(float(bits[name]), 4)
            metrics.append({"type": name, "value": value, "name": name.replace("_", " ")})
    return {
        "task": dict(zip(("type", "name"), TASKS[kind_of(evaluation)], strict=True)),
        "dataset": {
            "type": "held-out",
            "name": f"held-out text of the run ({main.recipe.texts[0].language})",
            "split": "test",
        },
        "metrics": metrics,
    }


def shareable(recipe: Recipe) -> Recipe:
    """The recipe without the folders of this machine: local paths are cut to file names."""
    model = _model_name(recipe.source.model)
    return recipe.model_copy(
        update={
            "corpus": recipe.corpus and _without_paths(recipe.corpus),
            "streams": tuple(
                stream.model_copy(update={"corpus": _without_paths(stream.corpus)})
                for stream in recipe.streams
            ),
            "source": recipe.source.model_copy(update={"model": model}),
            "tokenizer": recipe.tokenizer.model_copy(
                update={"model": _model_name(recipe.tokenizer.model)}
            ),
            "embeddings": _without_folders(recipe.embeddings),
            "evaluation": _judged_by(recipe.evaluation),
            "phases": tuple(map(_taught, recipe.phases)),
        }
    )


def _taught(phase: Phase) -> Phase:
    if phase.distil is None:
        return phase
    distil = phase.distil.model_copy(update={"teacher": _model_name(phase.distil.teacher)})
    return phase.model_copy(update={"distil": distil})


def _model_name(name: str | None) -> str | None:
    return name if name is None or sections.on_hub(name) else Path(name).name


def _without_paths(corpus: Corpus) -> Corpus:
    lists = ("text", "decontaminate")
    return corpus.model_copy(update={key: _names(getattr(corpus, key)) for key in lists})


def _judged_by(evaluation: Evaluation) -> Evaluation:
    return evaluation.model_copy(update={"kept": _names(evaluation.kept)})


def _names(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(_file_name, paths))


def _without_folders(resources: Embeddings) -> Embeddings:
    lists = ("lexicons", "source_text")
    names = {key: _names(getattr(resources, key)) for key in lists}
    vectors = {key: getattr(resources, key) for key in ("source_vectors", "target_vectors")}
    cut = {key: name and _file_name(name) for key, name in vectors.items()}
    return resources.model_copy(update=names | cut)


def _modules(graft: dict[str, Any]) -> list[dict[str, str]]:
    """What the model has that no stock class has."""
    return [
        {"part": part, "text": module.card.format(size=graft[part])}
        for part, module in MODULES.items()
        if graft.get(part) and not module.exportable
    ]


def _pieces_from(recipe: Recipe, tokenizer: dict[str, Any] | None) -> str:
    """Where the vocabulary comes from."""
    name = recipe.tokenizer.model
    if name is not None:
        return f"taken over from {plain(name) if sections.on_hub(name) else 'a local tokenizer'}"
    extension = (tokenizer or {}).get("extension")
    if extension is None:
        return "trained on the text above"
    if "removed" in extension:
        return f"those of the source's {numbers.count(extension['source'])} that the text uses"
    if not extension["added"]:
        return "the source's own"
    return f"{numbers.count(extension['added'])} of them added to the source's from the text above"


def _hub_datasets(recipe: Recipe) -> list[str]:
    """The ids of the data sets on the Hub, each once, without configuration and revision."""
    names = [
        hub_parts(name)[0]
        for stream in recipe.texts
        for name in stream.corpus.text
        if name.startswith(HUB_PREFIX)
    ]
    return [name for name in dict.fromkeys(names) if sections.on_hub(name)]


def _source(recipe: Recipe) -> str:
    name = plain(sections.source_name(recipe))
    local = recipe.source.model is not None and sections.hub_source(recipe) is None
    return f"“{name}” (a local model)" if local else name


def _example(evaluation: dict[str, Any] | None, mask: str) -> str:
    """A sentence of the test text with one word hidden; just the mask where there is none."""
    texts = [str(sample["text"]) for sample in evaluation["samples"]] if evaluation else []
    words = texts[0].split() if texts else []
    if len(words) < 2:
        return f"{words[0]} {mask}" if words else mask
    words[len(words) // 2] = mask
    return " ".join(words)


def _beginning(evaluation: dict[str, Any] | None) -> str:
    """How a held-out document begins; what begins a list anywhere where none is kept."""
    generated = (evaluation or {}).get("generated") or [{"beginning": "1."}]
    return str(generated[0]["beginning"])


def _corpus(main: Variant) -> dict[str, Any] | None:
    corpus = main.result("corpus")
    if corpus is None:
        return None
    sources = [{**source, "name": _file_name(str(source["name"]))} for source in corpus["sources"]]
    return {
        "fingerprint": str(corpus.get("contents", ""))[:FINGERPRINT],
        "sentences_in": numbers.count(corpus["sentences_in"]),
        "documents": numbers.count(corpus["documents"]),
        "kept": numbers.count(sum(int(split["sentences"]) for split in corpus["splits"].values())),
        "sources": markdown(sections.corpus_sources({**corpus, "sources": sources}), plain),
        "splits": markdown(sections.corpus_splits(corpus, main.result("tokenizer")), plain),
        "dropped": _counts({**corpus["dropped"], **corpus.get("subset", {})}),
    }


def _file_name(name: str) -> str:
    return name if name.startswith(HUB_PREFIX) else Path(name).name


def _counts(counted: dict[str, int]) -> str:
    ordered = sections.by_count(counted).items()
    return ", ".join(f"{plain(name)} {numbers.count(n)}" for name, n in ordered)


def _metrics(variants: Sequence[Variant]) -> str:
    """The models under both masking schemes; the notes stand elsewhere."""
    evaluation = variants[0].result("evaluation") or {}
    masked = kind_of(evaluation) == "masked"
    schemes = [HEADLINE_SCHEME, "bert"] if masked else [headline(evaluation)]
    by_scheme = {scheme: tables.table_of(tables.compare(variants, scheme)) for scheme in schemes}
    rows = [
        row(line.cells[0], scheme, *line.cells[1:])
        for scheme, compared in by_scheme.items()
        for line in compared.rows
        if not line.role
    ]
    first, *columns = by_scheme[schemes[0]].columns
    head = (first, "masks" if masked else "asked for", *columns)
    return markdown(table("Metrics", head, rows), plain)


def _environment(values: dict[str, Any] | None) -> str:
    keys = [key for key in SHOWN_ENVIRONMENT if key in (values or {})]
    details = sections.environment({key: (values or {})[key] for key in keys})
    return ", ".join(
        f"{name.text} {plain(value.text)}" for name, value in (row.cells for row in details.rows)
    )


def _one_line(text: str | None) -> str | None:
    return plain(text) if text is not None else None


def as_yaml(data: dict[str, Any]) -> str:
    """Plain data as YAML."""
    text = yaml.safe_dump(data, allow_unicode=True, sort_keys=False, width=math.inf)
    return str(text).strip()
