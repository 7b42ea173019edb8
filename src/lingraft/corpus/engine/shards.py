"""Pass 3: what is kept of a part, as JSON lines by split, with its statistics.

At the end everything is added up, the corpus marked as whole, and the rest deleted.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from lingraft.corpus.cleaning import clean, scripts
from lingraft.corpus.cleaning.near_duplicates import NEAR_DUPLICATE
from lingraft.corpus.cleaning.notices import Notices
from lingraft.corpus.cleaning.steps import Tally
from lingraft.corpus.engine.duplicates import Decisions
from lingraft.corpus.engine.parts import writing_errors
from lingraft.corpus.readers.lines import EMPTY
from lingraft.corpus.result import NOT_IN_SUBSET, PLACES, check_result
from lingraft.corpus.split import SPLITS
from lingraft.rundir import read_json, replacing, write_json, write_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import TextIO

    from lingraft.corpus.engine.plan import Folder, Plan
    from lingraft.corpus.split import Split

BATCH_SENTENCES = 16_384
TOP_DOMAINS = 1_000
COUNTERS = ("dropped", "lengths", "documents", "scripts", "domains")


@dataclass
class Counts:
    """Of a shard, or of all of them.

    Attributes:
        sentences_in: sentences of documents that are no near-duplicates, before any filter.
        dropped: sentences and documents, by reason.
        splits: documents, sentences and characters of each.
        lengths: sentences by the number of binary digits of their length in characters.
        documents: documents by the number of binary digits of their number of sentences.
        scripts: letters by script.
        domains: documents by the host that they come from, where they have an address.
        samples: for each reason a few texts.
    """

    sentences_in: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    splits: dict[str, dict[str, int]] = field(
        default_factory=lambda: {
            name: {"documents": 0, "sentences": 0, "characters": 0} for name in SPLITS
        }
    )
    lengths: Counter[str] = field(default_factory=Counter)
    documents: Counter[str] = field(default_factory=Counter)
    scripts: Counter[str] = field(default_factory=Counter)
    domains: Counter[str] = field(default_factory=Counter)
    samples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, other: Counts) -> None:
        """Take in the counts of another shard."""
        self.sentences_in += other.sentences_in
        for split, counts in other.splits.items():
            for key, count in counts.items():
                self.splits[split][key] += count
        for name in COUNTERS:
            getattr(self, name).update(getattr(other, name))
        tally = Tally(samples=self.samples)
        tally.add(Tally(samples=other.samples))

    @classmethod
    def load(cls, path: Path) -> Counts:
        """The counts in a file."""
        plain: dict[str, Any] = read_json(path)
        return cls(**plain | {name: Counter(plain[name]) for name in COUNTERS})


def kept(decisions: Decisions, rank: int, counts: Counts) -> Iterator[dict[str, Any]]:
    """The documents of a part with the sentences that pass 2 leaves; the rest is counted.

    Yields:
        id, metadata, sentences and their places, of documents that have some left.
    """
    part = decisions.parts[rank]
    tallies = np.load(part / "tallies.npy")
    fresh_documents = decisions.fresh_documents(rank)
    _count(tallies, fresh_documents, counts)
    fresh, in_subset = decisions.fresh_sentences(rank), decisions.wanted_sentences(rank)
    show = Tally(samples=counts.samples).show
    numbers = iter(np.flatnonzero(tallies[:, 0]).tolist())
    start = 0
    with (part / "documents.jsonl").open(encoding="utf-8") as lines:
        for line, number in zip(lines, numbers, strict=True):
            row = json.loads(line)
            sentences = row["sentences"]
            at = range(start, start + len(sentences))
            start += len(sentences)
            if not fresh_documents[number]:
                show(NEAR_DUPLICATE, " ".join(sentences))
                continue
            left = []
            for index, sentence, place in zip(at, sentences, row["places"], strict=True):
                if not fresh[index]:
                    counts.dropped[clean.DUPLICATE] += 1
                    show(clean.DUPLICATE, sentence)
                elif not in_subset[index]:
                    counts.dropped[NOT_IN_SUBSET] += 1
                else:
                    left.append((sentence, place))
            if left:
                texts, places = zip(*left, strict=True)
                yield row | {"sentences": list(texts), "places": list(places)}


def _count(tallies: Any, fresh: Any, counts: Counts) -> None:
    """Add up what the filters of pass 1 dropped from documents that are no near-duplicates."""
    table = tallies[fresh]
    counts.sentences_in += int(table.sum())
    for code, count in enumerate(table.sum(axis=0).tolist()):
        if code and count:
            counts.dropped[clean.REASONS[code]] += count
    near, empty = int((~fresh).sum()), int((table.sum(axis=1) == 0).sum())
    counts.dropped.update({name: n for name, n in ((NEAR_DUPLICATE, near), (EMPTY, empty)) if n})


def write(
    documents: Iterable[dict[str, Any]], counts: Counts, decisions: Decisions, rank: int
) -> None:
    """Write the documents of a part by split, and then their counts, which mark it as done.

    Args:
        documents: those that `kept` gives.
        counts: those of `kept`; gets the rest.
        decisions: those that `kept` was given.
        rank: of the part.

    Raises:
        DataError: something cannot be written.
    """
    folder = decisions.folder
    with writing_errors(folder.out), contextlib.ExitStack() as stack:
        files: dict[Split, TextIO] = {}
        batch: list[str] = []
        for document in documents:
            sentences, places = document["sentences"], document["places"]
            split = decisions.side(document["id"])
            if split not in files:
                path = folder.shard(split, rank)
                path.parent.mkdir(parents=True, exist_ok=True)
                partial = stack.enter_context(replacing(path))
                files[split] = stack.enter_context(partial.open("w", encoding="utf-8"))
            row = {"id": document["id"], **document["metadata"], "text": "\n".join(sentences)}
            if places[-1] >= len(places):  # something before the last one was left out
                row[PLACES] = places
            files[split].write(json.dumps(row, ensure_ascii=False) + "\n")
            address = str(row.get("url") or row["id"])
            _measure(split, address, sentences, counts)
            batch += sentences
            if len(batch) >= BATCH_SENTENCES:
                _measure_sentences(batch, counts)
                batch = []
        _measure_sentences(batch, counts)
        counts.domains = Counter(dict(counts.domains.most_common(TOP_DOMAINS)))
    with writing_errors(folder.out):
        write_json(folder.written(rank), vars(counts))


def _measure(split: Split, address: str, sentences: list[str], counts: Counts) -> None:
    own = counts.splits[split]
    own["documents"] += 1
    own["sentences"] += len(sentences)
    own["characters"] += sum(map(len, sentences))
    counts.documents[str(len(sentences).bit_length())] += 1
    host = _host(address)
    if host:
        counts.domains[host] += 1


def _host(address: str) -> str:
    """The host of a web address, which wget puts into <…>; '' of anything else."""
    address = address.removeprefix("<").removesuffix(">")
    if not address.startswith(("http://", "https://")):
        return ""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def _measure_sentences(batch: list[str], counts: Counts) -> None:
    counts.lengths.update(Counter(str(len(sentence).bit_length()) for sentence in batch))
    counts.scripts.update(scripts.letters_by_script("".join(batch)))


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
    write_record(
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
    tally, notices = Tally(), Notices()
    languages: Counter[str] = Counter()
    sources: dict[str, dict[str, Any]] = {}
    documents = 0
    for rank in range(len(plan.parts)):
        part: dict[str, Any] = read_json(folder.part(rank) / "counts.json")
        documents += part["documents"]
        dropped, changed = Counter(part["dropped"]), Counter(part["changed"])
        tally.add(Tally(dropped, changed, part["samples"]))
        languages.update(part["languages"])
        notices.add(part.get("notices", {}))
        for source in part["sources"]:
            own = sources.setdefault(source["name"], source | {"bytes": 0, "documents": 0})
            own["bytes"] += source["bytes"]
            own["documents"] += source["documents"]
    tally.add(Tally(counts.dropped, Counter(), counts.samples))
    left_out = tally.dropped.pop(NOT_IN_SUBSET, 0)
    has_subset = plan.section.max_train_sentences is not None
    result = {
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
    return result | {"notices": notices.told(result)}


def _by_size(digits: Counter[str]) -> dict[str, int]:
    """Counts by the smallest number with so many binary digits: '1', '2', '4', '8', '16'."""
    return {str(2 ** (int(bits) - 1)): digits[bits] for bits in sorted(digits, key=int)}
