"""Tables of a run and of a corpus, from the results of the stages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.corpus.cleaning.clean import REASONS
from lingraft.corpus.readers.columns import HUB_PREFIX
from lingraft.corpus.result import HELD_OUT
from lingraft.recipe import PARTS
from lingraft.recipe.embeddings import DRAWN
from lingraft.recipe.selectors import described
from lingraft.report import numbers
from lingraft.report.page import Text
from lingraft.report.table import Cell, Column, Row, Table, row, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lingraft.recipe import Recipe
    from lingraft.report.table import Role
    from lingraft.report.variants import PhaseRecord, Variant

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
OF_EVERY_RUN = re.compile(r"model|best|graft|(phase|seed)-\d+")
"""Folders of models that tell nothing of them."""


def title(variants: Sequence[Variant]) -> str:
    """Name what was made of what, or which runs are compared."""
    names = [variant.run_name for variant in variants if not variant.is_baseline]
    if len(names) > 1:
        return f"{len(names)} runs compared: {', '.join(names)}"
    recipe = variants[0].recipe
    return f"{recipe.name}: {source_name(recipe)} → {', '.join(recipe.languages)}"


def source_name(recipe: Recipe) -> str:
    """Name what the run starts from, without the folders of this machine."""
    model = recipe.source.model
    if model is None:
        name = str((recipe.source.architecture or {})["model_type"])
    else:
        name = model if hub_source(recipe) else _folder_name(Path(model))
    return name if takes_weights(recipe) else f"{name} (architecture only, random weights)"


def _folder_name(folder: Path) -> str:
    """Return a folder's name, with those above it up to one that tells runs apart: ko/model."""
    parts = folder.parts or folder.resolve().parts
    first = len(parts) - 1
    while first and OF_EVERY_RUN.fullmatch(parts[first]) and parts[first - 1] not in ("/", ".."):
        first -= 1
    return "/".join(parts[first:])


def takes_weights(recipe: Recipe) -> bool:
    """Say whether the model has anything of the source's weights, or learns from them.

    Not from another model, which a phase may name as its teacher.
    """
    embeddings = recipe.embeddings
    pretrained = recipe.graft.source_weights == "pretrained" or embeddings.copies_special_tokens
    teachers = (phase.distil.teacher for phase in recipe.phases if phase.distil)
    taught = any(teacher in (None, recipe.source.model) for teacher in teachers)
    rows = any(initializer not in DRAWN for initializer in embeddings.initializers)
    return recipe.source.model is not None and (pretrained or rows or taught)


def hub_source(recipe: Recipe) -> str | None:
    """Return the source's id on the Hub; None of a local directory or an architecture."""
    model = recipe.source.model
    return model if model is not None and on_hub(model) else None


def on_hub(name: str) -> bool:
    """Say whether a model's name is an id on the Hub, and no local directory."""
    return HUB_ID.fullmatch(name) is not None and not Path(name).exists()


def file_name(name: str) -> str:
    """Return a file's name without the folders of this machine; a data set of the Hub's whole."""
    return name if name.startswith(HUB_PREFIX) else Path(name).name


def notices(corpus: dict[str, Any]) -> list[Text]:
    """Return what was guessed of the files, and what to know of the text."""
    return [Text(told, "strong") for key in ("guesses", "notices") for told in corpus.get(key, ())]


def corpus_sources(corpus: dict[str, Any]) -> Table:
    """List the files that were read."""
    rows = [
        (
            file_name(str(source["name"])),
            numbers.size(source["bytes"]),
            numbers.count(source["documents"]),
        )
        for source in corpus["sources"]
    ]
    return table("Sources of the text", ("source", "size", "documents"), rows)


def corpus_splits(corpus: dict[str, Any], tokenizer: dict[str, Any] | None) -> Table:
    """Count what trains and what is held out."""
    head = ["split", "documents", "sentences", "characters"]
    tokens = (tokenizer or {}).get("tokens", {})
    if tokens:
        causal = any("pieces" in encoded for encoded in tokens.values())
        head += ["tokens", "documents cut" if causal else "sentences cut"]
    rows = []
    for name, split in corpus["splits"].items():
        cells = [
            name,
            *(numbers.count(split[key]) for key in ("documents", "sentences", "characters")),
        ]
        if tokens:
            encoded = tokens.get(name, {})
            cells += [numbers.count(encoded.get("tokens")), numbers.count(encoded.get("cut"))]
        rows.append(cells)
    return table("Splits", head, rows)


def document_drops(corpus: dict[str, Any]) -> Table:
    """Count why documents were left out, the commonest reason first, from all to those kept."""
    dropped = {k: n for k, n in corpus["dropped"].items() if not is_of_sentences(k)}
    n_kept = sum(int(split["documents"]) for split in corpus["splits"].values())
    dropped["no sentence was left"] = corpus["documents"] - sum(dropped.values()) - n_kept
    title = "Documents, from all that were read to those that were kept"
    return funnel(title, "documents", corpus["documents"], dropped, n_kept)


def drops(corpus: dict[str, Any]) -> Table:
    """Count why sentences were left out, the commonest reason first, from all to those kept."""
    n_kept = sum(int(split["sentences"]) for split in corpus["splits"].values())
    dropped = {k: n for k, n in corpus["dropped"].items() if is_of_sentences(k)}
    left_out = {**dropped, **corpus.get("subset", {})}
    title = "Sentences, from all that documents were cut into to those that were kept"
    return funnel(title, "sentences", corpus["sentences_in"], left_out, n_kept)


def is_of_sentences(reason: str) -> bool:
    """Say whether single sentences are left out for a reason, and not whole documents."""
    return reason in (*REASONS, HELD_OUT)


def funnel(title: str, unit: str, count: int, dropped: Mapping[str, int], n_kept: int) -> Table:
    """Count all that went in, what was left out by reason, and what was kept."""
    rows = [
        _bar("went in", count, count, count, role="total"),
        *(_bar(name, n, count, count) for name, n in by_count(dropped).items() if n > 0),
        _bar("kept", n_kept, count, count, role="total"),
    ]
    return table(title, (unit, "number", "share", Column("", "bar")), rows)


def by_count(counts: Mapping[str, int]) -> dict[str, int]:
    """Put the largest first."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def bars(
    title: str, head: tuple[str, str], counts: Mapping[str, int], total: int | None = None
) -> Table:
    """Draw a bar a row, the longest over the whole width.

    Args:
        title: of the table.
        head: what the names and the counts are.
        counts: by name, in the order of the rows.
        total: what the shares are of; the sum of the counts where it is left out.
    """
    whole, most = total or sum(counts.values()), max(counts.values(), default=1)
    rows = [_bar(name, n, whole, most) for name, n in counts.items()]
    return table(title, (*head, "share", Column("", "bar")), rows)


def _bar(name: str, n: int, total: int, most: int, *, role: Role = "") -> Row:
    width = min(100.0, round(100 * n / max(most, 1), 2))
    share = numbers.percent(n / max(total, 1))
    return row(name, numbers.count(n), share, Cell("", width=width), role=role)


def new_layers(graft: dict[str, Any]) -> str:
    """Count the inserted layers, and say where they are."""
    layers = graft["layers"]
    between = f", {layers['between']} between" if "between" in layers else ""
    return f"{layers['before']} new before{between} and {layers['after']} after them"


def schedule(variants: Sequence[Variant]) -> Table:
    """Say what each phase trained, how long, and how it ended."""
    texts = (Column("phase", "text"), Column("trains", "long"))
    budget = ("trainable", "objective", "peak rate", "steps", "tokens", "time", "tokens/s")
    head = ("model", *texts, *budget, "best loss", "at step", "ended by")
    rows = [_phase_row(variant, phase) for variant in variants for phase in variant.phases]
    return table("Phases", head, rows)


def _phase_row(variant: Variant, phase: PhaseRecord) -> tuple[str, ...]:
    plan, result = phase.plan, phase.result
    trained = (result or {}).get("train") or (plan.train if plan else ())
    by_lora = plan.lora.parts if plan and plan.lora else ()
    trained = ("everything",) if set(trained) == set(PARTS) else trained
    start = (
        variant.label,
        phase.name,
        described([str(part).replace("_", " ") for part in trained], by_lora) or numbers.ABSENT,
        numbers.short(result["trainable_parameters"] if result else None),
        plan.objective if plan else "mlm" if result else numbers.ABSENT,
        _peak_rates(phase),
    )
    if result is None:
        steps = [int(row["step"]) for row in (*phase.train, *phase.valid)]
        so_far = (numbers.count(max(steps, default=None)), numbers.short(phase.tokens))
        state = "under way" if steps else "not begun"
        return (*start, *so_far, *[numbers.ABSENT] * 4, state)
    best = result.get("best")
    return (
        *start,
        numbers.count(result["steps"]),
        numbers.short(result["tokens"]),
        numbers.duration(result["seconds"]),
        numbers.count(result["tokens_per_second"]),
        numbers.fixed(best["loss"] if best else None, 3),
        numbers.count(best["step"] if best else None),
        str(result["stopped"]),
    )


def _peak_rates(phase: PhaseRecord) -> str:
    """Show them as planned; where the plan is gone the highest that was logged."""
    if phase.plan is not None:
        return phase.plan.optimizer.peaks
    peak = max((row["learning_rate"] for row in phase.train), default=None)
    return numbers.ABSENT if peak is None else f"{peak:.2g}"


def environment(values: dict[str, Any]) -> Table:
    """Show the machine and the versions; the command stands on its own."""
    rows = [(str(key), _text(value)) for key, value in values.items() if key != "command"]
    return table("Environment", ("", Column("", "long")), rows)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_text(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_text(item) for item in value)
    return numbers.ABSENT if value is None else str(value)


def differences(variants: Sequence[Variant]) -> Table | None:
    """Show what the recipes of several runs do not share; None for a single run."""
    mains = [variant for variant in variants if not variant.is_baseline]
    if len(mains) < 2:
        return None
    flat = [_flat(variant.recipe.model_dump(mode="json")) for variant in mains]
    keys = dict.fromkeys(key for recipe in flat for key in recipe if key != "name")
    settings = {key: [_text(recipe.get(key)) for recipe in flat] for key in keys}
    rows = [(key, *values) for key, values in settings.items() if len(set(values)) > 1]
    names = (Column(variant.run_name, "long") for variant in mains)
    return table("Differences between the recipes", ("recipe", *names), rows)


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        pairs = ((str(index), item) for index, item in enumerate(value))  # type: ignore[assignment]
    else:
        return {path: value}
    flat: dict[str, Any] = {}
    for key, item in pairs:
        flat.update(_flat(item, f"{path}.{key}" if path else str(key)))
    return flat
