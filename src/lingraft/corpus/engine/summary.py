"""The end of a job: everything added up, the corpus marked as whole, the rest deleted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from lingraft.corpus.cleaning import scripts
from lingraft.corpus.cleaning.steps import Tally
from lingraft.corpus.engine.duplicates import Decisions
from lingraft.corpus.engine.shards import Counts
from lingraft.corpus.result import NOT_IN_SUBSET, check_result
from lingraft.rundir import read_json, write_json

if TYPE_CHECKING:
    from lingraft.corpus.engine.plan import Folder, Plan

TOP = 20


def finish(folder: Folder) -> None:
    """Write the file that marks the corpus as whole, and delete what it was made from.

    Raises:
        DataError: nearly all is in another script, or a split that was asked for is empty.
    """
    if folder.done.exists():
        return
    plan = folder.plan()
    counts = Counts()
    for rank in range(len(plan.parts)):
        counts.add(Counts.load(folder.written(rank)))
    result = add_up(folder, plan, counts)
    check_result(result, plan.section)
    write_json(
        folder.done,
        {
            "fingerprint": plan.fingerprint,
            "language": plan.language,
            "corpus": plan.section.model_dump(mode="json"),
            "evaluations": plan.evaluations,
            "result": result,
        },
    )
    folder.clear_work()


def add_up(folder: Folder, plan: Plan, counts: Counts) -> dict[str, Any]:
    """The result of the corpus stage, and the statistics of the report.

    Args:
        folder: every part has been cleaned, and every decision made.
        plan: of the job.
        counts: of all shards.

    Returns:
        What `stage.prepare` returns, and samples, languages, lengths, documents_by_sentences,
        letters_by_script, domains and parts.
    """
    tally = Tally()
    languages: Counter[str] = Counter()
    sources: dict[str, dict[str, Any]] = {}
    documents = 0
    for rank in range(len(plan.parts)):
        part: dict[str, Any] = read_json(folder.part(rank) / "counts.json")
        documents += part["documents"]
        dropped, changed = Counter(part["dropped"]), Counter(part["changed"])
        tally.add(Tally(dropped, changed, part["samples"]))
        languages.update(part["languages"])
        for source in part["sources"]:
            own = sources.setdefault(source["name"], source | {"bytes": 0, "documents": 0})
            own["bytes"] += source["bytes"]
            own["documents"] += source["documents"]
    tally.add(Tally(counts.dropped, Counter(), counts.samples))
    left_out = tally.dropped.pop(NOT_IN_SUBSET, 0)
    has_subset = plan.section.sentences is not None
    return {
        "language": plan.language,
        "scripts": list(scripts.of_language(plan.language, plan.section.scripts)),
        "sources": list(sources.values()),
        "documents": documents,
        "sentences_in": counts.sentences_in,
        "dropped": dict(sorted(tally.dropped.items())),
        "changed": dict(sorted(tally.changed.items())),
        "subset": {NOT_IN_SUBSET: left_out} if has_subset else {},
        "widened": Decisions(folder).widened(),
        "splits": counts.splits,
        "samples": tally.samples,
        "languages": dict(languages.most_common()),
        "lengths": _by_size(counts.lengths),
        "documents_by_sentences": _by_size(counts.documents),
        "letters_by_script": dict(counts.scripts.most_common()),
        "domains": dict(counts.domains.most_common(TOP)),
        "parts": len(plan.parts),
    }


def _by_size(digits: Counter[str]) -> dict[str, int]:
    """Counts by the smallest number with so many binary digits: '1', '2', '4', '8', '16'."""
    return {str(2 ** (int(bits) - 1)): digits[bits] for bits in sorted(digits, key=int)}
