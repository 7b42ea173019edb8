"""MediaWiki XML dumps: pages out of the export (`dump`), plain text out of wikitext (`text`)."""
