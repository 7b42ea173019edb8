"""What test_bad_input.py does wrong with `lingraft corpus`."""

from __future__ import annotations

import bz2
import json

DUMP = '<mediawiki xml:lang="ko"><siteinfo><dbname>kowiki</dbname></siteinfo>\n' + "".join(
    f"<page><title>{n}</title><ns>0</ns><id>{n}</id><revision><id>{n}</id>"
    f"<text>문서 {n} 를 열고 저장합니다.</text></revision></page>\n"
    for n in range(1, 99)
)
CLOSED = DUMP + "</mediawiki>"
BOMB = '<!DOCTYPE m [<!ENTITY a "aaa"><!ENTITY b "&a;&a;">]>\n'


def add(cases):
    """Put the cases into the table of bad_input_cases.py."""
    cases["a dump that is cut short"] = corpus("ko.xml.bz2", bz2.compress(DUMP.encode())[:-40])
    cases["a dump without its end"] = corpus("ko.xml", DUMP)
    cases["a dump that is empty"] = corpus("ko.xml.bz2", b"")
    cases["a dump with a DOCTYPE, as of an entity bomb"] = corpus("ko.xml", BOMB + CLOSED)
    broken = CLOSED.replace("</id><rev", "<rev")
    cases["a dump whose every page is broken"] = corpus("ko.xml", broken)
    cases["a dump in EUC-KR"] = corpus("ko.xml", CLOSED.encode("euc-kr"))
    cases["XML that is no dump"] = corpus("ko.xml", "<rss><item>글</item></rss>")
    cases["an archive of files"] = corpus("ko.zip", b"PK\x03\x04")
    cases["a crawl that is none"] = corpus("ko.warc", "문서를 열다\n" * 9)
    cases["an empty file and nothing else"] = corpus("ko.jsonl", b"")
    for wrong, option, value in (
        ("a corpus of a task that does not exist", "--task", "klue-nlu"),
        ("a corpus of a task without its files", "--task", "klue-nli"),
        ("a task in the home of a user who does not exist", "--task", "~nobody-here/my.toml"),
        ("a corpus by an executor that does not exist", "--executor", "pbs"),
        ("Slurm without a partition", "--executor", "slurm"),
    ):
        cases[wrong] = corpus("ko.txt", None, option, value)
    cases["a corpus without a language"] = lambda place: [
        "corpus", str(place.text().name), "--out", "out"
    ]  # fmt: skip
    cases["a corpus's folder that holds another corpus"] = with_another
    cases["a file in a corpus's place"] = with_a_file
    cases["a corpus in a folder of other files"] = with_other_files
    cases["a corpus in the place of its source"] = of_itself
    cases["pairs in the place of others"] = with_other_pairs
    cases["a shard of a finished corpus that is broken"] = with_a_broken_shard
    streams = bz2.compress("문서를 열다\n".encode()) + b"BZh9 is how one begins, not this"
    cases["a packed text that is broken behind its first stream"] = corpus("ko.txt.bz2", streams)
    cases["an evaluation with a line in EUC-KR"] = without_half_of_an_evaluation


def corpus(name, content, *more):
    """A case of `lingraft corpus`, of one file that is written or of the made-up Korean text."""

    def prepared(place):
        if content is None:
            place.text(name)
        else:
            place.write(name, content)
        return ["corpus", name, "--lang", "ko", "--out", "out", *more]

    return prepared


def without_half_of_an_evaluation(place):
    place.write("task.tsv", "문서를 열다\t1\n".encode() * 3 + "문서를 닫다\t0\n".encode("euc-kr"))
    setting = 'corpus.decontaminate=["task.tsv"]'
    return corpus("ko.txt", None, "--set", setting)(place)


def with_another(place):
    place.text()
    place.write("out/corpus.json", '{"fingerprint": "0", "language": "ko"}')
    return ["corpus", "ko.txt", "--lang", "ko", "--out", "out"]


def with_a_file(place):
    place.text()
    place.write("out", "")
    return ["corpus", "ko.txt", "--lang", "ko", "--out", "out"]


def with_other_files(place):
    place.text()
    place.write("out/thesis.tex", "x")
    return ["corpus", "ko.txt", "--lang", "ko", "--out", "out", "--overwrite"]


def of_itself(place):
    (place.folder / "out").mkdir()
    place.write("out/corpus.json", '{"fingerprint": "0", "language": "ko"}')
    place.write("out/train/00000.jsonl", '{"id": "a", "text": "b"}\n')
    return ["corpus", "out/train", "--lang", "ko", "--out", "out", "--overwrite"]


def with_other_pairs(place):
    place.write("en-ko.tsv", "house\t집\n")
    place.write("out/pairs.tsv", "개\tdog\n")
    return ["corpus", "en-ko.tsv", "--lang", "ko", "--parallel", "en", "--out", "out"]


def with_a_broken_shard(place):
    made = {"fingerprint": "0", "language": "ko", "corpus": {"text": ["ko.txt"]}, "result": {}}
    (place.folder / "out").mkdir()
    place.write("out/corpus.json", json.dumps(made, indent=1))
    place.write("out/train/00000.jsonl", '{"id": "a", "text": \n')
    return place.adapt(text="out")
