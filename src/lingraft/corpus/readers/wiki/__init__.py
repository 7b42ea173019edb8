"""MediaWiki XML dumps: pages out of the export (`dump`), plain text out of wikitext (`text`)."""

from lingraft.corpus.readers.wiki.dump import pages, spans, wiki_dump
from lingraft.corpus.readers.wiki.text import MarkupError, Site, plain_text
