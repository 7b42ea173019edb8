"""What a page of HTML is made of."""

import html.parser
import re

VOID = {"meta", "br", "img", "input", "link", "hr", "path", "use"}


class Outline(html.parser.HTMLParser):
    """Checks that elements nest; collects tags, headings, ids, references and texts of cells."""

    def __init__(self):
        super().__init__()
        self.open, self.headings, self.ids, self.references = [], [], [], []
        self.tags, self.rows = set(), []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tags.add(tag)
        self.ids += [values["id"]] if "id" in values else []
        self.references += [values[key] or "" for key in ("href", "src", "srcset") if key in values]
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if {"th", "td"} & set(self.open):
            self.rows[-1][-1] += data.strip()


def outline(text):
    """A page's outline; all that it opens is closed."""
    parser = Outline()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser
