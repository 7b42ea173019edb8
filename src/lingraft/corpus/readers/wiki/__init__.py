"""MediaWiki XML dumps: pages out of the export, plain text out of wikitext.

| module | what it does |
|---|---|
| `streams` | decompresses a dump, whole or one block of it |
| `cutting` | finds pages in the bytes, without holding more than one revision |
| `export` | parses the site's description and single pages |
| `balance`, `templates`, `plain` | wikitext to plain text |
| `disambiguation` | recognises disambiguation pages |
| `dump` | puts it together: `pages`, `block_pages`, `wiki_dump` |
"""

from lingraft.corpus.readers.wiki.dump import block_pages, pages, site_of, wiki_dump
from lingraft.corpus.readers.wiki.export import Page, Site
from lingraft.corpus.readers.wiki.plain import plain_text
from lingraft.corpus.readers.wiki.streams import Block, blocks
