"""Speed, memory and resumption of `lingraft data clean` on generated Wikipedia dumps.

    python research/benchmarks/corpus.py --pages 12500 25000 50000 100000 --processes 1 2 \
        --json corpus.json
    python research/benchmarks/corpus.py --pages 500 1000      # in a minute or two

Dumps are multistream bz2 with seeded pages of some 2,000 characters (those of wikiextractor.py),
every twentieth of them nearly a copy of another. Each run is the command itself, in processes of
its own, with default settings: near-duplicate documents and repeated sentences are dropped, and
documents split. Runs with different numbers of processes alternate, `--runs` times; the median
counts. Memory is the largest sum of the resident set sizes of all processes, looked at five times a
second (pages that processes share count twice, so it is an upper bound).

Five tables: speed by size and processes, seconds by pass, seconds by step in one process, whether
memory is flat and time linear, and whether a run that is killed half-way and begun again gives the
same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
from shared import head, parser_of, row, write
from wikiextractor import generated

from lingraft.corpus.cleaning import duplicates
from lingraft.corpus.cleaning.steps import SentenceFilter
from lingraft.corpus.readers import documents as readers
from lingraft.corpus.readers.layout import TextSource
from lingraft.corpus.readers.lines import Counts
from lingraft.recipe import Corpus

if TYPE_CHECKING:
    import argparse

PASS = re.compile(r"corpus: pass (\S+) took ([\d.]+) s")
COPY_EVERY, SAMPLE_SECONDS = 20, 0.2


@dataclass
class Run:
    """One run of the command."""

    pages: int
    processes: int
    seconds: float
    memory_mb: float
    passes: dict[str, float]
    result: dict[str, Any]
    digest: str


def command(dump: Path, out: Path, processes: int) -> list[str]:
    options = ["--lang", "en", "--out", str(out), "--jobs", str(processes)]
    return [sys.executable, "-m", "lingraft", "data", "clean", str(dump), *options]


def environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


class Meter(threading.Thread):
    """The largest memory of a process and all that it started, in MB."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.root, self.peak = psutil.Process(pid), 0.0
        self.stopped = threading.Event()

    def run(self) -> None:
        while not self.stopped.wait(SAMPLE_SECONDS):
            total = 0
            try:
                for process in (self.root, *self.root.children(recursive=True)):
                    total += process.memory_info().rss
            except psutil.NoSuchProcess:
                continue
            self.peak = max(self.peak, total / 1e6)


def timed(dump: Path, out: Path, pages: int, processes: int) -> Run:
    shutil.rmtree(out, ignore_errors=True)
    begin = time.perf_counter()
    with subprocess.Popen(
        command(dump, out, processes), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, env=environment(),
    ) as process:  # fmt: skip
        meter = Meter(process.pid)
        meter.start()
        _, said = process.communicate()
        seconds = time.perf_counter() - begin
        meter.stopped.set()
        meter.join()
    if process.returncode:
        sys.exit(f"{' '.join(command(dump, out, processes))}: {said[-2000:]}")
    passes = {name: float(took) for name, took in PASS.findall(said)}
    result = json.loads((out / "corpus.json").read_text())["result"]
    return Run(pages, processes, seconds, meter.peak, passes, result, digest(out))


def digest(out: Path) -> str:
    """A hash of everything that a corpus consists of."""
    found = hashlib.blake2b(digest_size=16)
    for path in sorted([*out.glob("*/*.jsonl"), out / "corpus.json"]):
        found.update(str(path.relative_to(out)).encode() + path.read_bytes())
    return found.hexdigest()


def killed_and_resumed(dump: Path, out: Path, processes: int, straight: Run) -> dict[str, Any]:
    """Kill a run with all its processes once a third of the parts is clean, and begin it again."""
    shutil.rmtree(out, ignore_errors=True)
    process = subprocess.Popen(
        command(dump, out, processes), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True, env=environment(),
    )  # fmt: skip
    wanted = max(1, straight.result["parts"] // 3)
    while process.poll() is None and len(done_parts(out)) < wanted:
        time.sleep(0.01)
    if process.poll() is not None:
        sys.exit("the run ended before it could be killed; give it more pages")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = {path: path.stat().st_mtime_ns for path in done_parts(out)}
    again = subprocess.Popen(
        command(dump, out, processes), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=environment(),
    )  # fmt: skip
    redone = 0
    while again.poll() is None:  # the parts are deleted at the end, so they are looked at meanwhile
        for path, changed in before.items():
            try:
                redone += path.stat().st_mtime_ns != changed
            except FileNotFoundError:
                continue
        time.sleep(0.02)
    if again.returncode:
        sys.exit("the run that was begun again failed")
    return {
        "processes": processes,
        "parts": straight.result["parts"],
        "parts_before_the_kill": len(before),
        "parts_done_again": redone,
        "same_bytes": digest(out) == straight.digest,
    }


def done_parts(out: Path) -> list[Path]:
    """Whole parts, by their counts, which are written last."""
    return [
        path for path in out.glob("work/parts/*/counts.json") if "partial" not in path.parent.name
    ]


def steps(dump: Path, xml_bytes: int, stored: int) -> dict[str, dict[str, float]]:
    """Seconds of the processor for each step, in this process, without the engine around them."""
    section = Corpus(text=(str(dump),), near_duplicates=True)
    clock = time.process_time
    begin = clock()
    source = TextSource(dump.name, dump)
    documents = [document.text for document in readers.read(source, section, Counts())]
    seconds = {"reading (bz2, XML, wikitext)": clock() - begin}
    judge = SentenceFilter(section, "en")
    begin = clock()
    for document in documents:
        duplicates.band_keys(document)
    seconds["near-duplicates"] = clock() - begin
    begin = clock()
    sentences = [sentence for text in documents for sentence in judge.split(text)]
    seconds["sentence splitting"] = clock() - begin
    begin = clock()
    kept = np.flatnonzero(judge.codes(sentences) == 0).tolist()
    seconds["cleaning (sentence filters)"] = clock() - begin
    begin = clock()
    np.unique(duplicates.hashes(sentences[index] for index in kept))
    seconds["duplicate sentences"] = clock() - begin
    return {
        name: {
            "seconds": took,
            "pages_per_second": len(documents) / took,
            "xml_mb_per_second": xml_bytes / took / 1e6,
            "stored_mb_per_second": stored / took / 1e6,
        }
        for name, took in seconds.items()
    }


def median(runs: list[Run], pages: int, processes: int) -> Run:
    found = [run for run in runs if (run.pages, run.processes) == (pages, processes)]
    return sorted(found, key=lambda run: run.seconds)[(len(found) - 1) // 2]


def measure(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    runs: list[Run] = []
    sizes: dict[int, tuple[int, int]] = {}
    one_step: dict[str, dict[str, float]] = {}
    resumed: dict[str, Any] = {}
    for pages in sorted(given.pages):
        dump = folder / f"generated-{pages}.xml.bz2"
        xml_bytes = generated(dump, pages, COPY_EVERY)
        sizes[pages] = xml_bytes, dump.stat().st_size
        for _ in range(given.runs):
            for processes in given.processes:
                runs.append(timed(dump, folder / "out", pages, processes))
                print(f"{pages:,} pages, {processes} processes: {runs[-1].seconds:.1f} s",
                      file=sys.stderr)  # fmt: skip
        digests = {run.digest for run in runs if run.pages == pages}
        assert len(digests) == 1, f"{pages} pages: runs differ: {digests}"
        if pages == min(given.pages):
            one_step = steps(dump, *sizes[pages])
        if pages == max(given.pages):
            straight = median(runs, pages, max(given.processes))
            resumed = killed_and_resumed(dump, folder / "out", max(given.processes), straight)
        dump.unlink()
    return {
        "command": " ".join(["python", "research/benchmarks/corpus.py", *sys.argv[1:]]),
        "machine": machine(),
        "sizes": {pages: {"xml_bytes": x, "stored_bytes": s} for pages, (x, s) in sizes.items()},
        "runs": [asdict(run) for run in runs],
        "steps": one_step,
        "summary": summary(runs, sizes),
        "kill_and_resume": resumed,
    }


def machine() -> dict[str, Any]:
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {"cpu": names[0] if names else platform.processor(), "cores": os.cpu_count(),
            "load_at_start": os.getloadavg()[0], "python": platform.python_version()}  # fmt: skip


def summary(runs: list[Run], sizes: dict[int, tuple[int, int]]) -> dict[str, Any]:
    least, most = min(sizes), max(sizes)
    found: dict[str, Any] = {}
    for processes in dict.fromkeys(run.processes for run in runs):
        small, large = median(runs, least, processes), median(runs, most, processes)
        slope = (large.seconds - small.seconds) / max(most - least, 1)
        found[f"{processes}"] = {
            "pages_per_second": most / large.seconds,
            "xml_mb_per_second": sizes[most][0] / large.seconds / 1e6,
            "milliseconds_per_page_smallest": 1e3 * small.seconds / least,
            "milliseconds_per_page_largest": 1e3 * large.seconds / most,
            "milliseconds_per_further_page": 1e3 * slope,
            "memory_mb_smallest": small.memory_mb,
            "memory_mb_largest": large.memory_mb,
            "times_one_process": [
                one.seconds / run.seconds
                for one, run in zip(
                    [run for run in runs if run.pages == most and run.processes == 1],
                    [run for run in runs if run.pages == most and run.processes == processes],
                    strict=False,
                )
            ],
        }
    return found


def show(found: dict[str, Any]) -> None:
    runs = [Run(**run) for run in found["runs"]]
    sizes = {int(pages): size for pages, size in found["sizes"].items()}
    counts = list(dict.fromkeys(run.processes for run in runs))
    speeds = ("seconds", "pages/s", "XML MB/s", "memory MB")
    print("\n" + head("pages", "XML MB", "processes", *speeds))
    for pages, size in sizes.items():
        for processes in counts:
            run, xml = median(runs, pages, processes), size["xml_bytes"] / 1e6
            print(f"| {pages:,} | {xml:,.0f} | {processes} | {run.seconds:.1f} "
                  f"| {pages / run.seconds:,.0f} | {xml / run.seconds:.1f} "
                  f"| {run.memory_mb:,.0f} |")  # fmt: skip
    most = max(sizes)
    best = {processes: median(runs, most, processes) for processes in counts}
    print("\n" + head(f"pass ({most:,} pages)", *(f"{n} process(es), s" for n in counts)))
    for name in best[counts[0]].passes:
        print(row(name, *(f"{best[n].passes[name]:.1f}" for n in counts)))
    title = f"step, one process ({min(sizes):,} pages)"
    print("\n" + head(title, "CPU seconds", "pages/s", "XML MB/s", "stored MB/s"))
    for name, step in found["steps"].items():
        print(
            f"| {name} | {step['seconds']:.2f} | {step['pages_per_second']:,.0f} "
            f"| {step['xml_mb_per_second']:.1f} | {step['stored_mb_per_second']:.1f} |"
        )
    times = ("ms a page, smallest", "ms a page, largest", "ms a further page")
    print("\n" + head("processes", *times, "memory, largest : smallest", "faster than one"))
    for name, result in found["summary"].items():
        ratios = result["times_one_process"]
        memory = result["memory_mb_largest"] / max(result["memory_mb_smallest"], 1)
        keys = ("page_smallest", "page_largest", "further_page")
        numbers = [*(result[f"milliseconds_per_{key}"] for key in keys), memory]
        faster = f"{statistics.median(ratios):.2f} ×" if ratios else "–"
        print(row(name, *(f"{number:.2f}" for number in numbers), faster))
    resumed = found["kill_and_resume"]
    print(f"\nkilled after {resumed['parts_before_the_kill']} of {resumed['parts']} parts and "
          f"begun again: {resumed['parts_done_again']} parts done again, same bytes: "
          f"{'yes' if resumed['same_bytes'] else 'NO'}")  # fmt: skip


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--pages", type=int, nargs="+", default=[12_500, 25_000, 50_000, 100_000])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--runs", type=int, default=1, help="of each size and number of processes")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(given, Path(folder))
    write(given.json, found)
    show(found)
    if not found["kill_and_resume"]["same_bytes"]:
        sys.exit("a run that was killed and begun again gave other bytes")


if __name__ == "__main__":
    main()
