import re
import tomllib
from pathlib import Path

from lingraft.corpus.readers.documents import FORMATS
from lingraft.recipe import Corpus

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "corpus.md").read_text("utf-8")


def test_the_page_lists_every_key_with_its_default():
    listed = dict(re.findall(r"^\| `(\w+)` \| (\S+) \|", PAGE, re.MULTILINE))
    defaults = Corpus(text=("x",)).model_dump()
    del defaults["text"]
    assert set(listed) == set(defaults)
    for key, shown in listed.items():
        value = None if shown == "none" else tomllib.loads(f"x = {shown.strip('`')}")["x"]
        assert value == (defaults[key] or None if shown == "none" else defaults[key]), key


def test_the_page_names_every_format():
    assert [suffix for suffix in FORMATS if f"`{suffix}`" not in PAGE] == [".htm", ".markdown"]


def test_links_of_the_page_lead_somewhere():
    for page in ("corpus.md", "corpus-large.md", "corpus-wikipedia.md"):
        text = (ROOT / "docs" / page).read_text("utf-8")
        targets = re.findall(r"\]\((?!https?:)([^)#]+)", text)
        assert [target for target in targets if not (ROOT / "docs" / target).exists()] == []
